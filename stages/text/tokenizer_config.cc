#include "stages/text/tokenizer_config.h"

#include "stages/model/json.h"
#include "stages/text/json_node.h"

namespace dsv {

using flow::Result;

namespace {

/// A token given as its content, or as an object with "content"; nothing when absent or null.
Result<std::optional<std::string>> read_token(const JsonNode& root, std::string_view key) {
  const std::optional<JsonNode> node = root.find(key);
  if (!node) return std::optional<std::string>();
  FLOW_ASSIGN(const JsonNode content,
              node->value().is_object() ? node->at("content") : Result<JsonNode>(*node));
  FLOW_ASSIGN(std::string text, content.string());
  return std::optional(std::move(text));
}

Result<TokenizerConfig> read_config(const JsonNode& root) {
  FLOW_ASSIGN([[maybe_unused]] const auto* members, root.object());
  TokenizerConfig config;
  FLOW_ASSIGN(config.add_bos_token, root.boolean_or("add_bos_token", false));
  FLOW_ASSIGN(config.add_eos_token, root.boolean_or("add_eos_token", false));
  FLOW_ASSIGN(config.bos_token, read_token(root, "bos_token"));
  FLOW_ASSIGN(config.eos_token, read_token(root, "eos_token"));
  FLOW_ASSIGN(config.pad_token, read_token(root, "pad_token"));
  return config;
}

}  // namespace

Result<TokenizerConfig> TokenizerConfig::load(const std::filesystem::path& tokenizer_config_json) {
  FLOW_ASSIGN(const boost::json::value json, load_json(tokenizer_config_json));
  return read_config(JsonNode(json)).in(tokenizer_config_json.string());
}

}  // namespace dsv
