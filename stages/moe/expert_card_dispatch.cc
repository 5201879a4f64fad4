#include "stages/moe/expert_cards.h"
#include "stages/moe/host_experts.h"

namespace dsv {

/// Computes one rank's routed experts on its card, on the host when it has none or has lost it. Experts that
/// are not on the card are requested from the expert store and copied while others compute.
///
/// Ports: x [tokens, dim], routes -> y: one row for each (token, expert) of this rank.
/// Memory: that of ExpertCard; of y on the host.
/// Source: reference `MoE`, `Expert`; MODEL "Mixture of experts".
///
///     - {name: experts, stage: ExpertCardDispatch, in: {x: ffn_in.x, routes: gate.routes},
///        options: {layer: 3, rank: 0}}
class ExpertCardDispatch final : public flow::Stage {
 public:
  static constexpr flow::In<Activations> kX{"x", "normalized input, [tokens, dim]"};
  static constexpr flow::In<Routes> kRoutes{"routes", "experts and weights of each token"};
  static constexpr flow::Out<ExpertOutputs> kY{"y", "outputs of this rank's experts"};
  struct Options {
    int layer = 0;
    int rank = 0;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Computes one rank's routed experts on its card, or on the host where it has none.");
    spec.input(kX).input(kRoutes).output(kY).uses(kModel).uses(kExperts).uses(kCards);
    spec.executor(flow::Executor::io);
    spec.option("layer", &Options::layer, "layer index").range(0).required();
    spec.option("rank", &Options::rank, "device of the expert store whose experts to compute").range(0);
  }
  explicit ExpertCardDispatch(Options options) : options_(options) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    store_ = opening.service(kExperts);
    cards_ = opening.service(kCards);
    if (options_.rank < store_->devices()) return {};
    return flow::errorf("rank {} does not exist; the expert store has {} devices", options_.rank,
                        store_->devices());
  }

  flow::Status process(flow::Context& context) override {
    FLOW_TRY(store_->check_guesses());
    const Activations& in = context.in(kX);
    const Routes& routes = context.in(kRoutes);
    const CardPass pass{
        .layer = options_.layer,
        .x = in.x,
        .routes = routes,
        .owns = [&](std::int32_t expert) { return store_->device_of(expert) == options_.rank; },
        .request = [&](const auto& experts) -> NextPage {
          return [pages = request(routes, experts)] { return pages->next(); };
        },
        .cancelled = [&] { return context.cancelled(); }};
    FLOW_ASSIGN(std::optional<ExpertOutputs> y, cards_->compute(options_.rank, pass, context.console()));
    if (!y) {
      FLOW_ASSIGN(y, compute_on_host(*model_, *request(routes, routes.experts.all()), in.x, routes, context));
    }
    context.emit(kY, *std::move(y));
    return {};
  }

 private:
  std::shared_ptr<ExpertRequest> request(const Routes& routes, std::span<const std::int32_t> experts) const {
    return store_->request(options_.layer, options_.rank, experts, phase_of(*routes.step));
  }

  Options options_;
  std::shared_ptr<Model> model_;
  std::shared_ptr<ExpertStore> store_;
  std::shared_ptr<ExpertCards> cards_;
};
FLOW_REGISTER_STAGE(ExpertCardDispatch);

}  // namespace dsv
