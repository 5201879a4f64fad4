#include <algorithm>
#include <numeric>

#include "stages/model/packets.h"
#include "stages/moe/expert_store.h"
#include "stages/moe/router.h"

namespace dsv {

/// Has the experts read that a layer is likely to ask for, while the layer before it computes. A wrong guess
/// costs time on the disk, never a result.
///
/// Ports: x [tokens, dim] of an earlier layer -> nothing. The expert store says how to guess: `gate` applies
/// the gate of `layer` to x, as if nothing happened in between; `recent` takes the experts of the last
/// passes.
///
///     - {name: predict, stage: ExpertPredict, in: {x: ffn_in.x}, options: {layer: "${layer + 1}"}}
class ExpertPredict final : public flow::Stage {
 public:
  static constexpr flow::In<Activations> kX{"x",
                                            "normalized input of an earlier layer's experts, [tokens, dim]"};
  struct Options {
    int layer = 0;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Has likely experts of a layer read ahead.");
    spec.input(kX).uses(kModel).uses(kExperts);
    spec.option("layer", &Options::layer, "layer whose experts are guessed").range(0).required();
  }
  explicit ExpertPredict(Options options) : options_(options) {}

  flow::Status open(const flow::Opening& opening) override {
    store_ = opening.service(kExperts);
    FLOW_TRY(store_->expect_guesses());
    FLOW_ASSIGN(router_, Router::make(opening.service(kModel), options_.layer));
    return {};
  }

  flow::Status process(flow::Context& context) override {
    const bool gate = store_->predictor() == Predictor::gate;
    store_->guess(options_.layer,
                  gate ? likely(router_.choose(context.in(kX).x).experts) : store_->recent(options_.layer));
    return {};
  }

 private:
  /// The experts of all tokens, those of most tokens first.
  static std::vector<std::int32_t> likely(const Rows<std::int32_t>& choice) {
    std::map<std::int32_t, int> tokens;
    for (const std::int32_t expert : choice.all()) ++tokens[expert];
    std::vector<std::int32_t> order;
    for (const auto& [expert, count] : tokens) order.push_back(expert);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return tokens[a] > tokens[b]; });
    return order;
  }

  Options options_;
  std::shared_ptr<ExpertStore> store_;
  Router router_;
};
FLOW_REGISTER_STAGE(ExpertPredict);

}  // namespace dsv
