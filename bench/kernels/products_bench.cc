// Matrix products of every variant on shapes of the released model, with weights that no cache holds.
//
// Each figure is a ratio against limits measured around it, with the same threads: `of_bandwidth` = weight
// bytes per second over read bandwidth, `of_fma_peak` = multiply-adds over the fp32 FMA rate of the variant's
// vectors (8 lanes for portable and avx2, which stand for a machine without AVX-512; 16 for avx512 and amx).
// Both sides are the best of many passes; a single thread is timed by the time it ran, so other load disturbs
// little.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "bench/kernels/machine.h"
#include "stages/kernels/kernels.h"

namespace dsv::bench {
namespace {

struct Shape {
  const char* what;
  std::int64_t rows, cols;
};

/// Limits of one or of all threads.
struct Limits {
  double bandwidth = 0, flops = 0;
  void measure(bool all_threads, int lanes) {
    bandwidth = std::max(bandwidth, read_bandwidth(all_threads));
    flops = std::max(flops, peak_flops(all_threads, lanes));
  }
};

std::vector<bf16> random_rows(std::int64_t n) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<bf16> x;
  for (std::int64_t i = 0; i < n; ++i) x.emplace_back(normal(random));
  return x;
}

/// Scales of any weight up to 2^29 elements: E8M0 codes near 1.
const std::uint8_t* scales() {
  static const std::vector<std::uint8_t> codes = [] {
    std::mt19937 random(8);
    std::vector<std::uint8_t> c(std::size_t{1} << 24);
    for (auto& v : c) v = static_cast<std::uint8_t>(120 + random() % 8);
    return c;
  }();
  return codes.data();
}

struct Case {
  const Kernels* kernels;
  Shape shape;
  std::int64_t tokens;
  bool all_threads;
  int lanes() const { return kernels->name == "portable" || kernels->name == "avx2" ? 8 : widest_lanes(); }
};

/// One benchmark: `run(weight bytes, rows)` is called with cold weights until the clock is satisfied.
template <class Run>
void measure(benchmark::State& state, const Case& c, double bytes, Run run) {
  Limits limits;
  limits.measure(c.all_threads, c.lanes());
  scales();  // made before the clock starts
  const std::int64_t rows_per_slice = c.shape.rows < 256 ? 4 : 32;
  const std::int64_t slices = (c.shape.rows + rows_per_slice - 1) / rows_per_slice;
  double best = std::numeric_limits<double>::infinity();
  for (auto _ : state) {
    const std::uint8_t* weights = ColdMemory::instance().next(static_cast<std::size_t>(bytes));
    const double begin = seconds(c.all_threads);
    run_slices(c.all_threads, slices, [&](flow::Range r) {
      run(weights, flow::Range{r.begin * rows_per_slice, std::min(r.end * rows_per_slice, c.shape.rows)});
    });
    benchmark::ClobberMemory();
    best = std::min(best, seconds(c.all_threads) - begin);
  }
  limits.measure(c.all_threads, c.lanes());
  const double flops = 2.0 * static_cast<double>(c.shape.rows * c.shape.cols * c.tokens);
  state.counters["best_ms"] = 1e3 * best;
  state.counters["of_bandwidth"] = bytes / best / limits.bandwidth;
  state.counters["of_fma_peak"] = flops / best / limits.flops;
}

void fp4_product(benchmark::State& state, const Case& c) {
  const auto x = random_rows(c.tokens * c.shape.cols);
  QuantizedActivations q;
  q.assign(*c.kernels, x.data(), c.tokens, c.shape.cols, c.shape.cols);
  std::vector<bf16> y(static_cast<std::size_t>(c.tokens * c.shape.rows));
  const double bytes = static_cast<double>(c.shape.rows * c.shape.cols) * 17 / 32;
  measure(state, c, bytes, [&](const std::uint8_t* w, flow::Range rows) {
    c.kernels->fp4_product({w, scales(), c.shape.rows, c.shape.cols}, q, rows, y.data(), c.shape.rows);
  });
}

void fp8_product(benchmark::State& state, const Case& c) {
  const auto x = random_rows(c.tokens * c.shape.cols);
  QuantizedActivations q;
  q.assign(*c.kernels, x.data(), c.tokens, c.shape.cols, c.shape.cols);
  std::vector<bf16> y(static_cast<std::size_t>(c.tokens * c.shape.rows));
  const double bytes = static_cast<double>(c.shape.rows * c.shape.cols);
  measure(state, c, bytes, [&](const std::uint8_t* w, flow::Range rows) {
    c.kernels->fp8_product({w, scales(), c.shape.rows, c.shape.cols, 32}, q, rows, y.data(), c.shape.rows);
  });
}

void bf16_product(benchmark::State& state, const Case& c) {
  const auto x = random_rows(c.tokens * c.shape.cols);
  std::vector<float> y(static_cast<std::size_t>(c.tokens * c.shape.rows));
  const double bytes = 2.0 * static_cast<double>(c.shape.rows * c.shape.cols);
  measure(state, c, bytes, [&](const std::uint8_t* w, flow::Range rows) {
    const Bf16Matrix matrix{reinterpret_cast<const bf16*>(w), c.shape.rows, c.shape.cols};
    c.kernels->bf16_product(matrix, x.data(), c.tokens, c.shape.cols, rows, y.data(), c.shape.rows);
  });
}

void f32_product(benchmark::State& state, const Case& c) {
  const auto x = random_rows(c.tokens * c.shape.cols);
  std::vector<float> y(static_cast<std::size_t>(c.tokens * c.shape.rows));
  const double bytes = 4.0 * static_cast<double>(c.shape.rows * c.shape.cols);
  measure(state, c, bytes, [&](const std::uint8_t* w, flow::Range rows) {
    const F32Matrix matrix{reinterpret_cast<const float*>(w), c.shape.rows, c.shape.cols};
    c.kernels->f32_product(matrix, x.data(), c.tokens, c.shape.cols, rows, y.data(), c.shape.rows);
  });
}

struct Kind {
  const char* name;
  void (*run)(benchmark::State&, const Case&);
  std::vector<Shape> shapes;
};

[[maybe_unused]] const bool registered = [] {
  const Kind kinds[] = {
      {"fp4", fp4_product, {{"expert_w1", 2304, 5120}, {"expert_w2", 5120, 2304}}},
      {"fp8", fp8_product, {{"wq_b", 32768, 1280}, {"wo_b", 5120, 8192}}},
      {"bf16", bf16_product, {{"head", 129280, 5120}}},
      {"f32", f32_product, {{"hyper", 24, 20480}}},
  };
  for (const Kernels* kernels : all_kernels()) {
    if (!can_run(*kernels)) continue;
    for (const Kind& kind : kinds) {
      for (const Shape& shape : kind.shapes) {
        for (const std::int64_t tokens : {1, 8, 64, 512}) {
          for (const bool all : {false, true}) {
            const std::string name = std::string(kind.name) + "/" + shape.what + "/" +
                                     std::string(kernels->name) + "/tokens:" + std::to_string(tokens) +
                                     (all ? "/all_threads" : "/one_thread");
            benchmark::RegisterBenchmark(name.c_str(), kind.run, Case{kernels, shape, tokens, all})
                ->Unit(benchmark::kMicrosecond)
                ->UseRealTime();
          }
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace dsv::bench

BENCHMARK_MAIN();
