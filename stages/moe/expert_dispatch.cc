#include "stages/moe/expert_packets.h"
#include "stages/moe/host_experts.h"

namespace dsv {

/// Computes one device's routed experts on the host. Experts are computed as their pages arrive; each output
/// row is kept apart, so that the order of arrival cannot change the sum that ExpertCombine makes.
///
/// Ports: x [tokens, dim], routes, pages -> y: one row for each (token, expert) of this device.
/// Memory: the rows of y, and one page at a time.
/// Source: reference `MoE`, `Expert`; MODEL "Mixture of experts".
///
///     - {name: experts, stage: ExpertDispatch, in: {x: ffn_in.x, routes: gate.routes, pages:
///     prefetch.pages}}
class ExpertDispatch final : public flow::Stage {
 public:
  static constexpr flow::In<Activations> kX{"x", "normalized input, [tokens, dim]"};
  static constexpr flow::In<Routes> kRoutes{"routes", "experts and weights of each token"};
  static constexpr flow::In<ExpertPages> kPages{"pages", "this device's experts"};
  static constexpr flow::Out<ExpertOutputs> kY{"y", "outputs of this device's experts"};
  struct Options {};

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Computes routed experts on the host as their pages arrive.");
    spec.input(kX).input(kRoutes).input(kPages).output(kY).uses(kModel);
  }
  explicit ExpertDispatch(Options) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    return {};
  }

  flow::Status process(flow::Context& context) override {
    FLOW_ASSIGN(ExpertOutputs y, compute_on_host(*model_, *context.in(kPages).request, context.in(kX).x,
                                                 context.in(kRoutes), context));
    context.emit(kY, std::move(y));
    return {};
  }

  std::function<void()> saved(const flow::Context& context) const override {
    return [request = context.in(kPages).request] { request->restart(); };
  }

 private:
  std::shared_ptr<Model> model_;
};
FLOW_REGISTER_STAGE(ExpertDispatch);

}  // namespace dsv
