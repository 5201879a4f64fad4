#include "stages/model/packets.h"
#include "stages/model/touched.h"
#include "stages/moe/router.h"

namespace dsv {
/// Chooses the experts of each token.
///
/// Ports: x [tokens, dim] bf16 -> routes: n_activated_experts experts (ascending) and weights of each token.
/// How: stages/moe/router.h.
/// Source: reference `Gate`; MODEL "Mixture of experts".
///
///     - {name: gate, stage: Gate, in: {x: ffn_in.x}, options: {layer: 3}}
class Gate final : public flow::Stage {
 public:
  static constexpr flow::In<Activations> kX{"x", "normalized input, [tokens, dim]"};
  static constexpr flow::Out<Routes> kRoutes{"routes", "experts and weights of each token"};
  struct Options {
    int layer = 0;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Chooses the routed experts of each token and their weights.");
    spec.input(kX).output(kRoutes).uses(kModel);
    spec.option("layer", &Options::layer, "layer index").range(0).required();
  }
  explicit Gate(Options options) : options_(options) {}

  flow::Status open(const flow::Opening& opening) override {
    FLOW_ASSIGN(router_, Router::make(opening.service(kModel), options_.layer));
    return {};
  }

  flow::Status process(flow::Context& context) override {
    const Activations& in = context.in(kX);
    Choice choice = router_.choose(in.x);
    count_pass(context, in.x.rows(), router_.weight(), in.x);
    context.emit(kRoutes, Routes{in.step, std::move(choice.experts), std::move(choice.weights)});
    return {};
  }

 private:
  Options options_;
  Router router_;
};
FLOW_REGISTER_STAGE(Gate);

}  // namespace dsv
