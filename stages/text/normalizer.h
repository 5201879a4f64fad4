// The `normalizer` of a tokenizer file: text transformations before it is split.
#pragma once

#include <functional>
#include <string>

#include "framework/core/status.h"
#include "stages/text/json_node.h"
#include "stages/text/regex.h"

namespace dsv {

/// Rewrites a text. May be called from several threads.
using Normalizer = std::function<flow::Status(std::u16string& text)>;

/// Builds the normalizer that `node` describes: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip,
/// StripAccents, Replace, Prepend or ByteLevel. Another type is an error that names it.
flow::Result<Normalizer> make_normalizer(const JsonNode& node);

/// Reads {"Regex": pattern} or {"String": literal}.
flow::Result<Regex> read_pattern(const JsonNode& node);

}  // namespace dsv
