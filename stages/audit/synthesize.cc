#include <boost/json.hpp>
#include <chrono>

#include "framework/core/registry.h"
#include "stages/audit/packets.h"
#include "stages/audit/synth.h"

namespace dsv {

/// Writes a synthetic checkpoint of the config's geometry. See synth.h.
///
/// Ports: config (ModelConfig), reports (CheckReports, optional) -> reports.
///
///     - {name: write, stage: Synthesize, in: {config: config.config}, options: {folder: /tmp/x, payload:
///     random}}
class Synthesize final : public flow::Stage {
 public:
  static constexpr flow::In<ModelConfig> kConfig{"config", "geometry to write"};
  static constexpr flow::OptionalIn<CheckReports> kBefore{"reports", "reports so far"};
  static constexpr flow::Out<CheckReports> kReports{"reports", "with this one"};
  struct Options {
    std::filesystem::path folder;
    std::string payload = "sparse";
    std::int64_t seed = 1;
    bool index = true;
    std::vector<std::string> faults;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Writes a checkpoint in the released format: headers over holes, or random weights.");
    spec.input(kConfig).input(kBefore).output(kReports).executor(flow::Executor::io);
    spec.option("folder", &Options::folder, "where to write; must be empty or not there yet").required();
    spec.option("payload", &Options::payload, "none = headers only; sparse = holes; random = random weights")
        .choices({"none", "sparse", "random"});
    spec.option("seed", &Options::seed, "of the random weights").range(0);
    spec.option("index", &Options::index, "write model.safetensors.index.json");
    spec.option("faults", &Options::faults,
                "break it on purpose: 'drop NAME', 'lose NAME', 'reshape NAME 4,5', 'retype NAME BF16', "
                "'add NAME BF16 4,5', 'copy NAME', 'duplicate NAME', 'overlap NAME', 'short NAME', "
                "'truncate SHARD', 'omit SHARD'");
  }
  explicit Synthesize(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening&) override {
    synth_.payload = options_.payload == "none"     ? SynthPayload::None
                     : options_.payload == "random" ? SynthPayload::Random
                                                    : SynthPayload::Sparse;
    synth_.seed = static_cast<std::uint64_t>(options_.seed);
    synth_.index = options_.index;
    for (const std::string& text : options_.faults) {
      FLOW_ASSIGN(SynthFault fault, parse_synth_fault(text));
      synth_.faults.push_back(std::move(fault));
    }
    return {};
  }

  flow::Status process(flow::Context& context) override {
    using Clock = std::chrono::steady_clock;
    auto spoke = Clock::now();
    synth_.progress = [&](std::uint64_t done, std::uint64_t total) {
      if (Clock::now() - spoke < std::chrono::seconds(1)) return;
      spoke = Clock::now();
      context.console().note(fmt::format("written: {} of {} bytes", done, total));
    };
    FLOW_ASSIGN(const SynthReport made, synthesize(context.in(kConfig), options_.folder, synth_));
    CheckReport report{"synth",
                       fmt::format("wrote {} shards, {} tensors, {} bytes to {}\n", made.shards, made.tensors,
                                   made.bytes, options_.folder.string()),
                       {{"shards", made.shards}, {"tensors", made.tensors}, {"bytes", made.bytes}},
                       {}};
    context.emit(kReports, CheckReports::join(context.in(kBefore), std::move(report)));
    return {};
  }

 private:
  Options options_;
  SynthOptions synth_;
};
FLOW_REGISTER_STAGE(Synthesize);

}  // namespace dsv
