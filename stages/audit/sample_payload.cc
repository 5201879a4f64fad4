#include <boost/json.hpp>
#include <chrono>

#include "framework/core/registry.h"
#include "framework/core/units.h"
#include "stages/audit/packets.h"
#include "stages/audit/payload.h"

namespace dsv {

/// Reads random tensors of each shard and reports NaN codes, empty tensors and missing bytes; see payload.h.
///
/// Ports: shards (ShardSet), reports (CheckReports, optional) -> reports. Memory: a few MiB.
///
///     - {name: sample, stage: SamplePayload, in: {shards: shards.shards}, options: {tensors: 4}}
class SamplePayload final : public flow::Stage {
 public:
  static constexpr flow::In<ShardSet> kShards{"shards", "headers at hand"};
  static constexpr flow::OptionalIn<CheckReports> kBefore{"reports", "reports so far"};
  static constexpr flow::Out<CheckReports> kReports{"reports", "with this one"};
  struct Options {
    int tensors = 4;
    int seed = 1;
    flow::Bytes bytes{256u << 20};
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Reads random tensors of each shard and reports NaN codes, empty tensors and missing bytes.");
    spec.input(kShards).input(kBefore).output(kReports).executor(flow::Executor::io);
    spec.option("tensors", &Options::tensors, "tensors to read of each shard").range(1);
    spec.option("seed", &Options::seed, "of the draw").range(0);
    spec.option("bytes", &Options::bytes,
                "most to read of one tensor; of a larger one, pieces from its start to its end");
  }
  explicit SamplePayload(Options options) : options_(std::move(options)) {}

  flow::Status process(flow::Context& context) override {
    using Clock = std::chrono::steady_clock;
    auto spoke = Clock::now();
    PayloadOptions options{
        options_.tensors, static_cast<std::uint64_t>(options_.seed), options_.bytes.count, {}, [&] {
          return context.cancelled();
        }};
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
      if (Clock::now() - spoke < std::chrono::seconds(1)) return;
      spoke = Clock::now();
      context.console().note(
          fmt::format("payload: {} of {}", flow::bytes_text(done), flow::bytes_text(total)));
    };
    const PayloadReport found = sample_payload(context.in(kShards), options);
    CheckReport report{"payload", to_text(found), to_json(found), {}};
    if (!found.faults.empty())
      report.failure = fmt::format("the payload sample has {} fault{}", found.faults.size(),
                                   found.faults.size() > 1 ? "s" : "");
    context.emit(kReports, CheckReports::join(context.in(kBefore), std::move(report)));
    return {};
  }

 private:
  Options options_;
};
FLOW_REGISTER_STAGE(SamplePayload);

}  // namespace dsv
