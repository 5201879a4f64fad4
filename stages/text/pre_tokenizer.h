// The `pre_tokenizer` of a tokenizer file: cutting a text into the pieces that are merged separately.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "stages/text/json_node.h"
#include "stages/text/regex.h"

namespace dsv {

/// A text and the pieces of it that are left, in order and none of them empty.
struct Pieces {
  std::u16string text;
  std::vector<Span> spans;
};

/// Cuts pieces into smaller ones, or rewrites them. May be called from several threads.
using PreTokenizer = std::function<flow::Status(Pieces& pieces)>;

/// What becomes of the matches of a splitting pattern.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Cuts `piece`, given the matches inside it, and appends what is left. With `invert` the stretches between
/// the matches take their part.
void split_piece(Span piece, const std::vector<Span>& matches, SplitBehavior behavior, bool invert,
                 std::vector<Span>& out);

/// Builds the pre-tokenizer that `node` describes: Sequence, Split, ByteLevel, Digits, Punctuation,
/// Whitespace, WhitespaceSplit or CharDelimiterSplit. Another type is an error that names it.
flow::Result<PreTokenizer> make_pre_tokenizer(const JsonNode& node);

}  // namespace dsv
