// Attention, index scores and the row operations around them, in every variant; data in the caches.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "stages/kernels/kernels.h"

namespace dsv::bench {
namespace {

std::vector<bf16> random_values(std::int64_t n) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<bf16> x;
  for (std::int64_t i = 0; i < n; ++i) x.emplace_back(normal(random));
  return x;
}

void attend(benchmark::State& state, const Kernels& kernels) {
  const std::int64_t heads = 64, dim = 512, positions = state.range(0);
  const auto q = random_values(heads * dim), kv = random_values(positions * dim);
  std::vector<bf16> out(q.size());
  std::vector<float> sink(static_cast<std::size_t>(heads)),
      scratch(static_cast<std::size_t>(kernels.attention_scratch(dim)));
  std::vector<const bf16*> rows;
  for (std::int64_t i = 0; i < positions; ++i) rows.push_back(kv.data() + i * dim);
  const AttentionQuery query{q.data(), heads, dim, rows, sink.data(), 0.044f, out.data()};
  for (auto _ : state) kernels.attend(query, {0, heads}, scratch.data());
  state.SetItemsProcessed(state.iterations() * 2 * heads * dim * positions);
}

void index_scores(benchmark::State& state, const Kernels& kernels) {
  const std::int64_t heads = 64, dim = 128, keys = state.range(0);
  const auto x = random_values(keys * dim), w = random_values(heads);
  auto q = random_values(heads * dim);
  std::vector<std::uint8_t> codes(x.size() / 2), scales(x.size() / 32);
  kernels.quantize_fp4_e8m0(q.data(), heads * dim, codes.data(), scales.data());
  kernels.dequantize_fp4_e8m0(codes.data(), scales.data(), heads * dim, q.data());
  kernels.quantize_fp4_e8m0(x.data(), keys * dim, codes.data(), scales.data());
  std::vector<float> scores(static_cast<std::size_t>(keys));
  for (auto _ : state) {
    kernels.index_scores(q.data(), w.data(), heads, dim, codes.data(), scales.data(), {0, keys},
                         scores.data());
  }
  state.SetItemsProcessed(state.iterations() * keys);
}

void quantize_activations(benchmark::State& state, const Kernels& kernels) {
  const std::int64_t cols = state.range(0);
  const auto x = random_values(cols);
  QuantizedActivations q;
  for (auto _ : state) q.assign(kernels, x.data(), 1, cols, cols);
  state.SetItemsProcessed(state.iterations() * cols);
}

void rms_norm(benchmark::State& state, const Kernels& kernels) {
  const std::int64_t cols = state.range(0);
  const auto x = random_values(cols);
  std::vector<bf16> y(x.size());
  for (auto _ : state) kernels.rms_norm(x.data(), x.data(), cols, 1e-6f, y.data());
  state.SetItemsProcessed(state.iterations() * cols);
}

void swiglu(benchmark::State& state, const Kernels& kernels) {
  const std::int64_t cols = state.range(0);
  const auto x = random_values(cols);
  std::vector<bf16> y(x.size());
  for (auto _ : state) kernels.swiglu(x.data(), x.data(), cols, 7.0f, 0.5f, y.data());
  state.SetItemsProcessed(state.iterations() * cols);
}

void expand(benchmark::State& state, const Kernels& kernels) {
  const std::int64_t copies = 4, dim = state.range(0);
  const auto h = random_values(copies * dim);
  const std::vector<float> weights(static_cast<std::size_t>(copies * copies), 0.25f);
  std::vector<bf16> y(h.size());
  for (auto _ : state)
    kernels.expand(h.data(), h.data(), weights.data(), weights.data(), copies, dim, y.data());
  state.SetItemsProcessed(state.iterations() * copies * dim);
}

struct Kind {
  const char* name;
  void (*run)(benchmark::State&, const Kernels&);
  std::vector<std::int64_t> sizes;
};

[[maybe_unused]] const bool registered = [] {
  const Kind kinds[] = {
      {"attend/positions", attend, {128, 640}},
      {"index_scores/keys", index_scores, {4096}},
      {"quantize/cols", quantize_activations, {5120}},
      {"rms_norm/cols", rms_norm, {5120}},
      {"swiglu/cols", swiglu, {2304}},
      {"expand/cols", expand, {5120}},
  };
  for (const Kernels* kernels : all_kernels()) {
    if (!can_run(*kernels)) continue;
    for (const Kind& kind : kinds) {
      const auto run = kind.run;
      const std::string name = std::string(kind.name) + "/" + std::string(kernels->name);
      auto* bench = benchmark::RegisterBenchmark(
          name.c_str(), [run, kernels](benchmark::State& state) { run(state, *kernels); });
      for (const std::int64_t size : kind.sizes) bench->Arg(size);
      bench->Unit(benchmark::kMicrosecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace dsv::bench
