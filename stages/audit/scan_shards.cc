#include <chrono>
#include <thread>

#include "framework/core/registry.h"
#include "stages/audit/packets.h"
#include "stages/model/model.h"

namespace dsv {

/// Reads the headers of all shards of a folder, whole or not. A source of one packet; with `watch`, of one
/// packet each time when something arrived, until the checkpoint is complete.
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
    bool watch = false;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Reads the headers of a checkpoint's shards without reading a weight.");
    spec.output(kShards).executor(flow::Executor::io);
    spec.option("path", &Options::path, "checkpoint folder; 'demo' is the built-in one");
    spec.option("index", &Options::index, "index to use instead of the folder's own");
    spec.option("header_prefix", &Options::header_prefix,
                "accept files that end after their header, under any name");
    spec.option("watch", &Options::watch, "scan again as shards arrive, until all are there");
  }
  explicit ScanShards(Options options) : options_(std::move(options)) {}

  flow::Status process(flow::Context& context) override {
    const auto began = Clock::now();
    FLOW_ASSIGN(ShardSet shards, scan(context));
    const bool last = !options_.watch || shards.complete();
    if (last) context.finish();
    if (context.cancelled()) return {};
    std::string state = describe_state(shards);
    const bool anything = shards.index() || !shards.files().empty();
    const bool worth_a_report = last || (anything && state != seen_);
    seen_ = std::move(state);
    if (worth_a_report)
      context.emit(kShards, std::move(shards));
    else
      pause(context, Clock::now() - began);
    return {};
  }

 private:
  using Clock = std::chrono::steady_clock;

  flow::Result<ShardSet> scan(flow::Context& context) const {
    auto spoke = Clock::now();
    ShardSetOptions options{options_.header_prefix, options_.index, options_.watch, {}, {}};
    options.progress = [&](std::size_t done, std::size_t total) {
      if (Clock::now() - spoke < std::chrono::seconds(1)) return;
      spoke = Clock::now();
      context.console().note(fmt::format("headers: {} of {} files", done, total));
    };
    options.cancelled = [&] { return context.cancelled(); };
    return ShardSet::scan(resolve_checkpoint(options_.path), options);
  }

  /// What a report depends on: equal texts make equal reports, but for how much of a file has arrived.
  static std::string describe_state(const ShardSet& shards) {
    std::string text = shards.index() ? "index" : "";
    for (const ShardFile& file : shards.files())
      text += fmt::format("\n{} {} {}", file.path.string(), static_cast<int>(file.state),
                          file.state == ShardFile::State::Used ? file.header.fingerprint : 0);
    return text;
  }

  /// Waits half a second, or longer where scans take long, so that they take a tenth of the time at most.
  static void pause(const flow::Context& context, Clock::duration scan) {
    const auto until = Clock::now() + std::max<Clock::duration>(std::chrono::milliseconds(500), scan * 10);
    while (!context.cancelled() && Clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  Options options_;
  std::string seen_;
};
FLOW_REGISTER_STAGE(ScanShards);

}  // namespace dsv
