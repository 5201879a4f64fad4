#include "framework/core/registry.h"
#include "stages/audit/packets.h"
#include "stages/model/json.h"
#include "stages/model/model.h"

namespace dsv {

/// Reads a config of either layout as it is: incomplete and contradictory ones too. A source of one packet,
/// or one packet for each shard set, so that a download's config is read again with its shards.
///
/// Ports: each (ShardSet, optional) -> config (ModelConfig).
///
///     - {name: config, stage: ReadConfig, options: {path: "${checkpoint}", set: ["n_routed_experts=8"]}}
class ReadConfig final : public flow::Stage {
 public:
  static constexpr flow::OptionalIn<ShardSet> kEach{"each", "read the config for each of these"};
  static constexpr flow::Out<ModelConfig> kConfig{"config", "the config, complete or not"};
  struct Options {
    std::filesystem::path path;
    std::filesystem::path fallback;
    std::vector<std::string> set;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Reads a model's config without demanding that it is complete.");
    spec.input(kEach).output(kConfig).executor(flow::Executor::io);
    spec.option("path", &Options::path, "config file, or checkpoint folder; 'demo' is the built-in one");
    spec.option("fallback", &Options::fallback, "read this when path is empty");
    spec.option("set", &Options::set, "fields to change after reading, as name=JSON under their flat names");
  }
  explicit ReadConfig(Options options) : options_(std::move(options)) {}

  flow::Status process(flow::Context& context) override {
    context.finish();
    const std::filesystem::path& path = options_.path.empty() ? options_.fallback : options_.path;
    FLOW_ASSIGN(ModelConfig config, read_config(resolve_checkpoint(path)));
    for (const std::string& change : options_.set) FLOW_TRY(apply(config, change).in("set"));
    context.emit(kConfig, std::move(config));
    return {};
  }

 private:
  static flow::Status apply(ModelConfig& config, const std::string& change) {
    const std::size_t equals = change.find('=');
    if (equals == change.npos) return flow::errorf("'{}' is not of the form name=value", change);
    FLOW_ASSIGN(const boost::json::value value, parse_json(std::string_view(change).substr(equals + 1)));
    return set_config_value(config, std::string_view(change).substr(0, equals), value);
  }

  Options options_;
};
FLOW_REGISTER_STAGE(ReadConfig);

}  // namespace dsv
