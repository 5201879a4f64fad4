// A plugin whose stage has the name of another one, for tests.
#include "framework/core/plugin_abi.h"
#include "framework/core/registry.h"

namespace {

class PluginStage final : public flow::Stage {
 public:
  struct Options {};
  static void describe(flow::StageSpec<Options>& s) { s.doc("Does nothing."); }
  explicit PluginStage(Options) {}
  flow::Status process(flow::Context&) override { return {}; }
};
FLOW_REGISTER_STAGE(PluginStage);

}  // namespace

FLOW_PLUGIN();
