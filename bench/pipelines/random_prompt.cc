#include <random>

#include "framework/core/registry.h"
#include "stages/model/model.h"
#include "stages/model/packets.h"

namespace dsv::bench {

/// The same random token ids several times, each time a sequence of its own.
///
///     - {name: tokenize, stage: RandomPrompt, options: {tokens: 64, times: 2}}
class RandomPrompt final : public flow::Stage {
 public:
  static constexpr flow::Out<Prompt> kIds{"ids", "a prompt and its token ids"};
  struct Options {
    int tokens = 64;
    int times = 1;
  };
  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Sends a prompt of random ids.");
    spec.output(kIds).uses(kModel);
    spec.option("tokens", &Options::tokens, "length of the prompt").range(1);
    spec.option("times", &Options::times, "sequences that begin with it").range(1);
  }
  explicit RandomPrompt(Options options) : options_(options) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    return {};
  }
  flow::Status process(flow::Context& context) override {
    std::mt19937 random(1);
    Prompt prompt;
    for (int i = 0; i < options_.tokens; ++i) {
      prompt.ids.push_back(
          static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(model_->config().vocab_size)));
    }
    context.emit(kIds, std::move(prompt));
    if (context.stamp().sequence + 1 == static_cast<std::uint64_t>(options_.times)) context.finish();
    return {};
  }

 private:
  Options options_;
  std::shared_ptr<Model> model_;
};
FLOW_REGISTER_STAGE(RandomPrompt);

}  // namespace dsv::bench
