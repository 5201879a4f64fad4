// Whether the Engram figures of a config agree with each other and with a tokenizer. No weight is read.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "stages/engram/layout.h"
#include "stages/model/config.h"
#include "stages/text/tokenizer.h"

namespace dsv {

/// The table of one Engram layer.
struct EngramTableReport {
  EngramLayerLayout layout;
  std::optional<std::int64_t> declared_rows;  ///< nothing: the config gives no size for this layer
  std::uint64_t code_bytes = 0;               ///< of the derived rows
  std::uint64_t scale_bytes = 0;
  std::int64_t sampled_ids = 0;                ///< row ids that were hashed from sample tokens
  std::int64_t lowest_id = 0, highest_id = 0;  ///< of these
};

struct EngramReport {
  std::int64_t columns = 0;  ///< row ids that one token has in each table
  std::int64_t pad_id = 0;
  std::int64_t declared_classes = 0;
  std::vector<EngramTableReport> tables;
  std::optional<std::int32_t> tokens;     ///< of the tokenizer; nothing: there was none
  std::optional<std::int32_t> classes;    ///< that its tokens fall into
  std::optional<std::int32_t> pad_class;  ///< of the pad token
  std::vector<std::string> problems;      ///< every disagreement, a sentence each
};

/// Derives every table from the config, rebuilds the token classes from `tokenizer` (may be null), and
/// hashes sample tokens. Without a usable tokenizer the sample stands on classes spread over the vocabulary.
EngramReport verify_engram(const ModelConfig& config, const Tokenizer* tokenizer);

/// The report for people.
std::string to_text(const EngramReport& report);

/// The report as JSON.
boost::json::object to_json(const EngramReport& report);

}  // namespace dsv
