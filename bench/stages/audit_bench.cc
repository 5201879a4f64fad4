// The header audit of the released geometry, on one thread: reading all headers and running all checks, with
// fewer and with more routed experts, so that the growth with the number of tensors shows.
#include <benchmark/benchmark.h>

#include <boost/json/value.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "stages/audit/audit.h"
#include "stages/audit/synth.h"

namespace {

namespace fs = std::filesystem;

/// Sparse checkpoints of the released geometry, one for each number of routed experts.
class Checkpoints {
 public:
  Checkpoints() {
    std::string name = fs::temp_directory_path() / "dsv41-bench-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) folder_ = name;
  }
  ~Checkpoints() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }
  fs::path with(std::int64_t experts) {
    const fs::path path = folder_ / std::to_string(experts);
    auto config = dsv::read_config(DSV41_SOURCE_DIR "/tests/golden/released");
    if (folder_.empty() || !config.ok()) return {};
    if (fs::exists(path)) return path;
    const auto status = dsv::set_config_value(*config, "n_routed_experts", experts);
    return status.ok() && dsv::synthesize(*config, path).ok() ? path : fs::path();
  }

 private:
  fs::path folder_;
};

void BM_AuditHeaders(benchmark::State& state) {
  static Checkpoints checkpoints;
  const fs::path path = checkpoints.with(state.range(0));
  std::int64_t tensors = 0;
  for (auto _ : state) {
    const auto config = dsv::read_config(path);
    const auto shards = dsv::ShardSet::scan(path);
    if (!config.ok() || !shards.ok()) return state.SkipWithError("no checkpoint to audit");
    const auto report = dsv::audit(*config, *shards);
    if (!report.ok() || !report->passed(true)) return state.SkipWithError("the audit does not pass");
    tensors = report->tensors;
  }
  state.SetComplexityN(tensors);
  state.counters["tensors"] = static_cast<double>(tensors);
  state.counters["per_tensor"] =
      benchmark::Counter(static_cast<double>(tensors),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_AuditHeaders)
    ->Arg(24)
    ->Arg(96)
    ->Arg(384)
    ->Arg(1536)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

}  // namespace

BENCHMARK_MAIN();
