// A plugin with one stage, for tests.
#include "framework/core/plugin_abi.h"
#include "framework/core/registry.h"

namespace {

class PluginStage final : public flow::Stage {
 public:
  struct Options {
    std::string word = "hello";
  };
  static void describe(flow::StageSpec<Options>& s) {
    s.doc("Says a word.");
    s.option("word", &Options::word, "what to say");
  }
  explicit PluginStage(Options options) : options_(std::move(options)) {}
  flow::Status process(flow::Context& context) override {
    context.console().out(options_.word);
    context.finish();
    return {};
  }

 private:
  const Options options_;
};
FLOW_REGISTER_STAGE(PluginStage);

}  // namespace

FLOW_PLUGIN();
