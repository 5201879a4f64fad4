#include "stages/model/packets.h"
#include "stages/moe/expert_packets.h"
#include "stages/moe/expert_store.h"

namespace dsv {

/// Asks for the experts of a pass as soon as its routes are known, so that missing ones are read while the
/// shared expert and other stages compute. Does not wait for them.
///
/// Ports: routes -> pages (a request that delivers pages as they arrive).
///
///     - {name: prefetch, stage: ExpertPrefetch, in: {routes: gate.routes}, options: {layer: 3, device: 0}}
class ExpertPrefetch final : public flow::Stage {
 public:
  static constexpr flow::In<Routes> kRoutes{"routes", "experts of each token"};
  static constexpr flow::Out<ExpertPages> kPages{"pages",
                                                 "pages of this device's experts, loaded or on their way"};
  struct Options {
    int layer = 0;
    int device = 0;
    std::string when = "routed";
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Requests a pass's routed experts from the expert store as soon as the routes are known.");
    spec.input(kRoutes).output(kPages).uses(kExperts);
    spec.option("layer", &Options::layer, "layer index").range(0).required();
    spec.option("device", &Options::device, "device whose share of the experts to fetch").range(0);
    spec.option("when", &Options::when,
                "missing experts are read: routed = all as soon as the routes are known; needed = each when "
                "it is "
                "computed, without prefetch, for comparison")
        .choices({"routed", "needed"});
  }
  explicit ExpertPrefetch(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening& opening) override {
    store_ = opening.service(kExperts);
    if (options_.device < store_->devices()) return {};
    return flow::errorf("device {} does not exist; the expert store has {}", options_.device,
                        store_->devices());
  }

  flow::Status process(flow::Context& context) override {
    FLOW_TRY(store_->check_guesses());
    const Routes& routes = context.in(kRoutes);
    const Reading reading = options_.when == "needed" ? Reading::needed : Reading::ahead;
    context.emit(kPages, ExpertPages{store_->request(options_.layer, options_.device, routes.experts.all(),
                                                     phase_of(*routes.step), reading)});
    return {};
  }

 private:
  Options options_;
  std::shared_ptr<ExpertStore> store_;
};
FLOW_REGISTER_STAGE(ExpertPrefetch);

}  // namespace dsv
