// Reader of `tokenizer_config.json`: which tokens frame a text.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "framework/core/status.h"

namespace dsv {

/// The fields a pipeline needs. Tokens are given by content (Tokenizer::id_of finds their ids); a field
/// that is absent or null in the file is absent here.
struct TokenizerConfig {
  bool add_bos_token = false;
  bool add_eos_token = false;
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> pad_token;

  /// Reads the file; a token may be a string or an object with "content". Errors name file and field.
  static flow::Result<TokenizerConfig> load(const std::filesystem::path& tokenizer_config_json);
};

}  // namespace dsv
