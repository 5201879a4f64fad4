#include "stages/text/vocabulary.h"

#include "stages/model/model.h"
#include "stages/text/tokenizer_config.h"

namespace dsv {
namespace {

std::optional<std::int32_t> id_of(const Tokenizer& tokenizer, const std::optional<std::string>& token) {
  return token ? tokenizer.id_of(*token) : std::nullopt;
}

}  // namespace

void Vocabulary::describe(flow::ServiceSpec<Options>& spec) {
  spec.doc("The tokenizer of a checkpoint, and its beginning and end of sequence ids.");
  spec.option("path", &Options::path, "checkpoint folder; 'demo' is the built-in one");
}

flow::Status Vocabulary::open(const flow::Opening&) {
  const std::filesystem::path folder = resolve_checkpoint(options_.path);
  FLOW_ASSIGN(const ModelConfig config, load_config(folder));
  FLOW_ASSIGN(tokenizer_, Tokenizer::load(folder / "tokenizer.json"));
  bos_ = config.bos_token_id;
  eos_ = config.eos_token_id;
  if ((!bos_ || !eos_) && std::filesystem::exists(folder / "tokenizer_config.json")) {
    FLOW_ASSIGN(const TokenizerConfig tokens, TokenizerConfig::load(folder / "tokenizer_config.json"));
    if (!bos_) bos_ = id_of(*tokenizer_, tokens.bos_token);
    if (!eos_) eos_ = id_of(*tokenizer_, tokens.eos_token);
  }
  if (tokenizer_->vocab_size() > config.vocab_size) {
    return flow::errorf("{}: tokenizer.json has ids up to {}, but vocab_size is {}", folder.string(),
                        tokenizer_->vocab_size() - 1, config.vocab_size);
  }
  return {};
}

flow::Result<std::vector<flow::PlanLine>> Vocabulary::plan(const flow::Opening& opening) {
  FLOW_TRY(open(opening));  // small, and other services plan with it
  return std::vector<flow::PlanLine>{};
}

FLOW_REGISTER_SERVICE(Vocabulary);

}  // namespace dsv
