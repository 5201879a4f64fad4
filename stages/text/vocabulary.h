// The tokenizer of a checkpoint as a service.
#pragma once

#include <memory>
#include <optional>

#include "framework/core/registry.h"
#include "stages/text/tokenizer.h"

namespace dsv {

/// tokenizer.json of a checkpoint, and the ids that frame a text: from config.json where it states them, else
/// from tokenizer_config.json.
class Vocabulary final : public flow::Service {
 public:
  struct Options {
    std::filesystem::path path = "demo";
  };
  static void describe(flow::ServiceSpec<Options>& spec);
  explicit Vocabulary(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening& opening) override;
  flow::Result<std::vector<flow::PlanLine>> plan(const flow::Opening& opening) override;

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::shared_ptr<const Tokenizer> share_tokenizer() const { return tokenizer_; }
  std::optional<std::int32_t> bos() const { return bos_; }
  std::optional<std::int32_t> eos() const { return eos_; }
  /// Tokens of the longest prompt, as the stage that makes prompts tells while a run is planned.
  std::optional<std::int64_t> planned_prompt() const { return planned_prompt_; }
  void plan_prompt(std::int64_t tokens) { planned_prompt_ = std::max(tokens, planned_prompt_.value_or(0)); }

 private:
  Options options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<std::int32_t> bos_, eos_;
  std::optional<std::int64_t> planned_prompt_;
};

inline constexpr flow::Uses<Vocabulary> kVocabulary{"vocabulary", "tokenizer and special ids"};

}  // namespace dsv
