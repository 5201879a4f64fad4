#include <chrono>

#include "framework/core/registry.h"
#include "stages/audit/packets.h"
#include "stages/model/model.h"

namespace dsv {

/// Reads the headers of all shards of a folder, whole or not. A source of one packet.
///
/// Ports: -> shards (ShardSet). Memory: about 300 bytes a tensor.
///
///     - {name: shards, stage: ScanShards, options: {path: "${checkpoint}"}}
class ScanShards final : public flow::Stage {
 public:
  static constexpr flow::Out<ShardSet> kShards{"shards", "headers at hand, and what is missing"};
  struct Options {
    std::filesystem::path path = "demo";
    std::filesystem::path index;
    bool header_prefix = false;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Reads the headers of a checkpoint's shards without reading a weight.");
    spec.output(kShards).executor(flow::Executor::io);
    spec.option("path", &Options::path, "checkpoint folder; 'demo' is the built-in one");
    spec.option("index", &Options::index, "index to use instead of the folder's own");
    spec.option("header_prefix", &Options::header_prefix,
                "accept files that end after their header, under any name");
  }
  explicit ScanShards(Options options) : options_(std::move(options)) {}

  flow::Status process(flow::Context& context) override {
    using Clock = std::chrono::steady_clock;
    context.finish();
    auto spoke = Clock::now();
    ShardSetOptions options{options_.header_prefix, options_.index, {}};
    options.progress = [&](std::size_t done, std::size_t total) {
      if (Clock::now() - spoke < std::chrono::seconds(1)) return;
      spoke = Clock::now();
      context.console().note(fmt::format("headers: {} of {} files", done, total));
    };
    FLOW_ASSIGN(ShardSet shards, ShardSet::scan(resolve_checkpoint(options_.path), options));
    context.emit(kShards, std::move(shards));
    return {};
  }

 private:
  Options options_;
};
FLOW_REGISTER_STAGE(ScanShards);

}  // namespace dsv
