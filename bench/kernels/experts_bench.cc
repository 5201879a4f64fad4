// The routed experts of one layer of the released model, 6 of 36 for each token, with weights that no cache
// holds. bench/peers times the same work in other engines.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/kernels/machine.h"
#include "stages/moe/expert_mlp.h"

namespace dsv::bench {
namespace {

constexpr std::int64_t kHidden = 5120, kInter = 2304, kExperts = 36, kUsed = 6;

struct Expert {
  Fp4Matrix w1, w3, w2;
};

Fp4Matrix cold_matrix(std::int64_t rows, std::int64_t cols) {
  static const std::vector<std::uint8_t> scales(static_cast<std::size_t>(kHidden * kInter / 32), 120);
  return {ColdMemory::instance().next(static_cast<std::size_t>(rows * cols / 2)), scales.data(), rows, cols};
}

/// tokens [expert] of a random choice of kUsed experts for each token.
std::vector<std::vector<std::int64_t>> route(std::int64_t tokens, std::mt19937& random) {
  std::vector<std::vector<std::int64_t>> chosen(kExperts);
  std::vector<std::size_t> order(kExperts);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i = 0; i < kUsed; ++i) chosen[order[i]].push_back(t);
  }
  return chosen;
}

/// y += the outputs of the experts, each for its tokens.
void run_experts(const Kernels& kernels, const std::vector<Expert>& experts, const Rows<bf16>& x,
                 const std::vector<std::vector<std::int64_t>>& chosen, std::vector<float>& y) {
  for (std::size_t e = 0; e < chosen.size(); ++e) {
    if (chosen[e].empty()) continue;
    Rows<bf16> own(static_cast<std::int64_t>(chosen[e].size()), kHidden);
    for (std::size_t i = 0; i < chosen[e].size(); ++i)
      std::copy_n(x.row(chosen[e][i]), kHidden, own.row(static_cast<std::int64_t>(i)));
    const auto& [w1, w3, w2] = experts[e];
    const Rows<bf16> out = expert_mlp(kernels, w1, w2, w3, quantize(kernels, own), nullptr, 10.0);
    for (std::size_t i = 0; i < chosen[e].size(); ++i) {
      for (std::int64_t c = 0; c < kHidden; ++c)
        y[static_cast<std::size_t>(chosen[e][i] * kHidden + c)] +=
            static_cast<float>(out.row(static_cast<std::int64_t>(i))[c]);
    }
  }
}

void experts(benchmark::State& state, const Kernels& kernels) {
  const std::int64_t tokens = state.range(0);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Rows<bf16> x(tokens, kHidden);
  for (std::int64_t i = 0; i < tokens * kHidden; ++i) x.data()[i] = bf16(normal(random));
  std::vector<Expert> all;
  for (std::int64_t e = 0; e < kExperts; ++e)
    all.push_back({cold_matrix(kInter, kHidden), cold_matrix(kInter, kHidden), cold_matrix(kHidden, kInter)});
  std::vector<float> y(static_cast<std::size_t>(tokens * kHidden));
  double best = 1e9;
  for (auto _ : state) {
    const auto chosen = route(tokens, random);
    const double begin = seconds(true);
    run_experts(kernels, all, x, chosen, y);
    best = std::min(best, seconds(true) - begin);
    benchmark::DoNotOptimize(y.data());
  }
  state.counters["best_ms"] = 1e3 * best;
}

[[maybe_unused]] const bool registered = [] {
  for (const Kernels* kernels : all_kernels()) {
    if (!can_run(*kernels)) continue;
    const std::string name = "experts/" + std::string(kernels->name) + "/tokens";
    benchmark::RegisterBenchmark(name.c_str(),
                                 [kernels](benchmark::State& state) { experts(state, *kernels); })
        ->Arg(1)
        ->Arg(8)
        ->Arg(64)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace dsv::bench
