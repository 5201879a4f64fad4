// Routed experts of the released shape on one card.
//
//   kernels        six experts, weights on the card: `of_memory` = their bytes over the card's bandwidth
//   pass/resident  the same as a pass of the dispatcher, with inputs and outputs over the link
//   pass/staged    a pass whose experts all have to be copied: `of_link` = their bytes over the link's
//                  bandwidth, `of_longest` = time over the longer of copying and computing
//
// The limits are measured in this run: a copy within the card, and a copy of pinned memory to it. Without a
// card the only benchmark fails with the reason. --emulated takes small experts on a card that the CPU
// emulates: it shows that this program works.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>

#include "bench/arguments.h"
#include "cuda/emulated_device.h"
#include "stages/moe/expert_card.h"

namespace dsv::bench {
namespace {

using flow::Result;
using flow::Status;

constexpr int kActive = 6, kLayers = 8;  // staged passes go round the layers, so that they find nothing

/// A card and the shape of the experts on it.
struct Bench {
  std::unique_ptr<cuda::Runtime> runtime;
  ExpertShape shape{5120, 2304, 10};
  std::size_t sample = std::size_t{256} << 20;  // bytes that a bandwidth is measured with
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Seconds that `enqueue` takes on `stream`, the best of five.
template <class F>
Result<double> best_time(cuda::Device& device, cuda::Stream stream, F enqueue) {
  FLOW_ASSIGN(const cuda::Event done, device.make_event());
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    FLOW_TRY(enqueue());
    FLOW_TRY(device.record(done, stream));
    FLOW_TRY(device.finish(done));
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

/// Bytes per second.
struct Limits {
  double memory = 0, link = 0;
};
Result<Limits> measure_limits(const Bench& bench) {
  FLOW_ASSIGN(const auto device, bench.runtime->open(0, {}));
  FLOW_ASSIGN(const cuda::Memory one, device->allocate(bench.sample));
  FLOW_ASSIGN(const cuda::Memory other, device->allocate(bench.sample));
  FLOW_ASSIGN(const cuda::Memory pinned, device->allocate_pinned(bench.sample));
  std::memset(pinned.get(), 1, bench.sample);
  const auto bytes = static_cast<double>(bench.sample);
  FLOW_ASSIGN(const double up, best_time(*device, cuda::Stream::copy, [&] {
                return device->upload(cuda::Stream::copy, one.get(), pinned.get(), bench.sample);
              }));
  FLOW_ASSIGN(const double within, best_time(*device, cuda::Stream::copy, [&] {
                return device->upload(cuda::Stream::copy, other.get(), one.get(), bench.sample);
              }));
  return Limits{2 * bytes / within, bytes / up};  // a copy reads and writes
}

/// Random packed experts in host memory.
class Pages {
 public:
  explicit Pages(const ExpertShape& shape) {
    const std::int64_t elements = std::int64_t{shape.dim} * shape.inter;
    const auto pool = std::make_shared<PagePool>(static_cast<std::size_t>(elements / 2 + elements / 32));
    std::mt19937 random(1);
    for (int e = 0; e < kActive; ++e) {
      auto page = std::make_shared<ExpertPage>();
      page->memory = pool->take();
      auto* codes = reinterpret_cast<std::uint8_t*>(page->memory.get());
      auto* scales = codes + elements / 2;
      for (std::int64_t i = 0; i < elements / 2; ++i) codes[i] = static_cast<std::uint8_t>(random());
      std::memset(scales, 121, static_cast<std::size_t>(elements / 32));
      page->w1 = page->w3 = {codes, scales, shape.inter, shape.dim};
      page->w2 = {codes, scales, shape.dim, shape.inter};
      pages_.push_back(std::move(page));
    }
  }
  NextPage next(const std::vector<std::int32_t>& experts) const {
    return [this, experts, at = std::size_t{0}]() mutable -> Result<std::optional<ExpertRequest::Ready>> {
      if (at == experts.size()) return std::optional<ExpertRequest::Ready>();
      const std::int32_t expert = experts[at++];
      return std::optional(ExpertRequest::Ready{expert, pages_[static_cast<std::size_t>(expert)]});
    };
  }

 private:
  std::vector<std::shared_ptr<const ExpertPage>> pages_;
};

/// Every token through all experts of a layer.
class Passes {
 public:
  Passes(const ExpertShape& shape, std::int64_t tokens)
      : x_(tokens, shape.dim),
        routes_{nullptr, Rows<std::int32_t>(tokens, kActive), Rows<float>(tokens, kActive)} {
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < tokens * shape.dim; ++i) x_.data()[i] = bf16(normal(random));
    for (std::int64_t i = 0; i < tokens * kActive; ++i) {
      routes_.experts.data()[i] = static_cast<std::int32_t>(i % kActive);
      routes_.weights.data()[i] = 0.2f;
    }
  }
  Status run(ExpertCard& card, const Pages& pages, int layer) const {
    const CardPass pass{.layer = layer,
                        .x = x_,
                        .routes = routes_,
                        .owns = [](std::int32_t) { return true; },
                        .request = [&](const auto& experts) { return pages.next(experts); },
                        .cancelled = [] { return false; }};
    ExpertCard::Result result;
    FLOW_TRY(card.compute(pass, result));
    return result.pages;
  }

 private:
  Rows<bf16> x_;
  Routes routes_;
};

double bytes_of_layer(const Bench& bench) {
  return static_cast<double>(CardLayout(bench.shape).bytes()) * kActive;
}

/// Seconds of a pass, the mean over `state`.
Result<double> time_passes(benchmark::State& state, const Bench& bench, std::size_t slots, int layers) {
  static const Pages pages(bench.shape);
  const Passes passes(bench.shape, state.range(0));
  FLOW_ASSIGN(auto device, bench.runtime->open(0, {}));
  FLOW_ASSIGN(const auto card, ExpertCard::open(std::move(device), bench.shape,
                                                slots * CardLayout(bench.shape).bytes(), slots));
  for (int layer = 0; layer < layers; ++layer) FLOW_TRY(passes.run(*card, pages, layer));
  int layer = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) FLOW_TRY(passes.run(*card, pages, layer++ % layers));
  return seconds_since(begin) / static_cast<double>(state.iterations());
}

void resident(benchmark::State& state, const Bench& bench, const Limits& limits) {
  const auto seconds = time_passes(state, bench, kActive, 1);
  if (!seconds.ok()) return state.SkipWithError(seconds.status().message().c_str());
  state.counters["GB/s"] = bytes_of_layer(bench) / *seconds * 1e-9;
  state.counters["of_memory"] = bytes_of_layer(bench) / *seconds / limits.memory;
}

void staged(benchmark::State& state, const Bench& bench, const Limits& limits, const double* computing) {
  const auto seconds = time_passes(state, bench, kActive, kLayers);
  if (!seconds.ok()) return state.SkipWithError(seconds.status().message().c_str());
  state.counters["GB/s"] = bytes_of_layer(bench) / *seconds * 1e-9;
  state.counters["of_link"] = bytes_of_layer(bench) / *seconds / limits.link;
  state.counters["of_longest"] = *seconds / std::max(bytes_of_layer(bench) / limits.link, *computing);
}

/// The ops of a layer with everything on the card.
class Kernels {
 public:
  static Result<Kernels> make(const Bench& bench, int tokens) {
    Kernels k;
    FLOW_ASSIGN(k.device_, bench.runtime->open(0, {}));
    const CardLayout layout(bench.shape);
    const auto rows = static_cast<std::size_t>(tokens * kActive),
               dim = static_cast<std::size_t>(bench.shape.dim),
               inter = static_cast<std::size_t>(bench.shape.inter);
    FLOW_ASSIGN(auto* x, k.room<bf16>(static_cast<std::size_t>(tokens) * dim));
    FLOW_ASSIGN(auto* digits, k.room<cuda::Digits>(static_cast<std::size_t>(tokens) * dim / cuda::kBlock));
    FLOW_ASSIGN(auto* token, k.room<std::int32_t>(rows));
    FLOW_ASSIGN(auto* weight, k.room<float>(rows));
    FLOW_ASSIGN(auto* hidden, k.room<bf16>(rows * inter));
    FLOW_ASSIGN(auto* hidden_digits, k.room<cuda::Digits>(rows * inter / cuda::kBlock));
    FLOW_ASSIGN(auto* y, k.room<bf16>(rows * dim));
    cuda::ExpertGroup group;
    for (int e = 0; e < kActive; ++e) {
      FLOW_ASSIGN(const auto* expert, k.room<std::byte>(layout.bytes()));
      group.experts[e] = layout.rows(expert);
      group.experts[e].first = e * tokens;
      group.experts[e].count = tokens;
    }
    group.size = kActive;
    const int dims = bench.shape.dim, inters = bench.shape.inter;
    k.ops_ = {cuda::Quantize{x, digits, tokens * dims / cuda::kBlock},
              cuda::GateUp{group, digits, token, weight, hidden, dims, inters, bench.shape.limit},
              cuda::Quantize{hidden, hidden_digits, tokens * kActive * inters / cuda::kBlock},
              cuda::Down{group, hidden_digits, y, dims, inters}};
    FLOW_ASSIGN(k.done_, k.device_->make_event());
    return k;
  }
  /// Many layers at once, so that starting them costs nothing.
  Status run(int times) {
    for (int i = 0; i < times; ++i) {
      for (const cuda::Op& op : ops_) FLOW_TRY(device_->launch(op));
    }
    FLOW_TRY(device_->record(done_, cuda::Stream::compute));
    return device_->finish(done_);
  }

 private:
  /// Zeros on the card: the time of the ops does not depend on values.
  template <class T>
  Result<T*> room(std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    FLOW_ASSIGN(const cuda::Memory zeros, device_->allocate_pinned(bytes));
    FLOW_ASSIGN(cuda::Memory memory, device_->allocate(bytes));
    std::memset(zeros.get(), 0, bytes);
    FLOW_ASSIGN(const cuda::Event copied, device_->make_event());
    FLOW_TRY(device_->upload(cuda::Stream::compute, memory.get(), zeros.get(), bytes));
    FLOW_TRY(device_->record(copied, cuda::Stream::compute));
    FLOW_TRY(device_->finish(copied));
    memory_.push_back(memory);
    return reinterpret_cast<T*>(memory.get());
  }

  std::vector<cuda::Memory> memory_;
  std::vector<cuda::Op> ops_;
  cuda::Event done_;
  std::unique_ptr<cuda::Device> device_;  // last: its work ends before the memory goes
};

void kernels(benchmark::State& state, const Bench& bench, const Limits& limits, double* computing) {
  constexpr int kTimes = 8;
  auto made = Kernels::make(bench, static_cast<int>(state.range(0)));
  if (!made.ok()) return state.SkipWithError(made.status().message().c_str());
  Status status = made->run(1);
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) status = status.ok() ? made->run(kTimes) : status;
  if (!status.ok()) return state.SkipWithError(status.message().c_str());
  const double seconds = seconds_since(begin) / static_cast<double>(state.iterations()) / kTimes;
  if (state.range(0) == 1) *computing = seconds;
  state.counters["layer_us"] = seconds * 1e6;
  state.counters["GB/s"] = bytes_of_layer(bench) / seconds * 1e-9;
  state.counters["of_memory"] = bytes_of_layer(bench) / seconds / limits.memory;
}

Result<Bench> make_bench(bool emulated) {
  Bench bench;
  if (emulated) {
    bench.runtime = std::make_unique<cuda::EmulatedRuntime>(cuda::EmulatedMachine{});
    bench.shape = {128, 64, 10};
    bench.sample = 1 << 20;
    return bench;
  }
  FLOW_ASSIGN(bench.runtime, cuda::cuda_runtime());
  FLOW_TRY(bench.runtime->devices().status());
  return bench;
}

/// Registers the benchmarks; what keeps them from being measured is the error of one.
void register_all(const Result<Bench>& bench, const Result<Limits>& limits, double* computing) {
  if (!limits.ok()) {
    benchmark::RegisterBenchmark("kernels", [reason = limits.status().message()](benchmark::State& state) {
      state.SkipWithError(reason.c_str());
    });
    return;
  }
  const auto add = [](const char* name, auto body, const std::vector<std::int64_t>& tokens) {
    auto* added = benchmark::RegisterBenchmark(name, body);
    added->ArgName("tokens")->Unit(benchmark::kMicrosecond)->UseRealTime();
    for (const std::int64_t n : tokens) added->Arg(n);
  };
  add("kernels", [&, computing](benchmark::State& s) { kernels(s, *bench, *limits, computing); },
      {1, 2, 4, 8, 64});
  add("pass/resident", [&](benchmark::State& s) { resident(s, *bench, *limits); }, {1, 8, 64});
  add("pass/staged", [&, computing](benchmark::State& s) { staged(s, *bench, *limits, computing); }, {1});
}

}  // namespace
}  // namespace dsv::bench

int main(int argc, char** argv) {
  using namespace dsv::bench;
  const Arguments arguments(argc, argv);
  const auto bench = make_bench(arguments.count() > 1 && std::string_view(arguments.own[1]) == "--emulated");
  const auto limits = bench.ok() ? measure_limits(*bench) : flow::Result<Limits>(bench.status());
  if (limits.ok()) {
    std::fprintf(stderr, "memory %.1f GB/s, link %.1f GB/s\n", limits->memory * 1e-9, limits->link * 1e-9);
  }
  double computing = 0;  // seconds of a layer for one token
  register_all(bench, limits, &computing);
  return run_benchmarks(arguments);
}
