// What the runtime itself costs: time a node visit, with bodies that do nothing.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "framework/core/parallel.h"
#include "framework/core/plan.h"
#include "framework/runtime/runner.h"

namespace {

struct Token {};

}  // namespace

FLOW_PACKET_TYPE(Token, "Token");

namespace {

using flow::Context;
using flow::Executor;
using flow::Status;

constexpr flow::ManyIn<Token> kIn{"in", "what came"};
constexpr flow::Out<Token> kOut{"out", "the same"};
constexpr std::uint64_t kTurns = 200;

/// Sends one packet for each that comes.
class Pass final : public flow::Stage {
 public:
  Status process(Context& context) override {
    context.emit(kOut, token_);
    return {};
  }

 private:
  const std::shared_ptr<const Token> token_ = std::make_shared<Token>();
};

/// Sends one packet and is done.
class Start final : public flow::Stage {
 public:
  Status process(Context& context) override {
    context.emit(kOut, Token());
    context.finish();
    return {};
  }
};

/// Sends a packet with the next stamp for each that comes, kTurns times.
class Turn final : public flow::Stage {
 public:
  Status process(Context& context) override {
    const flow::Stamp stamp = context.stamp();
    if (stamp.step < kTurns) {
      context.emit(kOut, std::make_shared<const Token>(), {stamp.sequence, stamp.step + 1});
    }
    return {};
  }
};

template <class T>
flow::StageInfo describe(flow::InputPolicy policy) {
  flow::StageInfo info;
  info.name = "Bench";
  info.policy = policy;
  info.inputs.push_back({std::string(kIn.name), "", &flow::packet_type<Token>(), flow::Arity::many});
  info.outputs.push_back({std::string(kOut.name), "", &flow::packet_type<Token>(), flow::Arity::one});
  info.make = [](const void*) { return std::make_unique<T>(); };
  return info;
}

/// start -> turn -> `depth` ranks of `width` stages, each fed by all of the rank before -> turn.
class Ladder {
 public:
  Ladder(int depth, int width, Executor executor, int threads) {
    plan_.runtime.threads = threads;
    add("start", start_, {});
    add("turn", turn_, {0});
    std::vector<int> rank{1};
    for (int d = 0; d < depth; ++d) {
      std::vector<int> next;
      for (int w = 0; w < width; ++w) {
        next.push_back(add(fmt::format("pass.{}.{}", d, w), pass_, rank));
        plan_.nodes.back().executor = executor;
      }
      rank = next;
    }
    const int last = add("last", pass_, rank);
    plan_.nodes[1].inputs.push_back({0, last, 0, true, {}});
  }
  const flow::GraphPlan& plan() const { return plan_; }
  /// Invocations in one run.
  std::int64_t visits() const { return static_cast<std::int64_t>(kTurns * (plan_.nodes.size() - 1)); }

 private:
  int add(const std::string& name, const flow::StageInfo& info, const std::vector<int>& producers) {
    flow::NodePlan& node = plan_.nodes.emplace_back();
    node.name = name;
    node.stage = &info;
    for (const int producer : producers) node.inputs.push_back({0, producer, 0, false, {}});
    return static_cast<int>(plan_.nodes.size()) - 1;
  }

  const flow::StageInfo start_ = describe<Start>(flow::InputPolicy::all);
  const flow::StageInfo turn_ = describe<Turn>(flow::InputPolicy::any);
  const flow::StageInfo pass_ = describe<Pass>(flow::InputPolicy::all);
  flow::GraphPlan plan_;
};

void run(benchmark::State& state, const Ladder& ladder, bool traced) {
  for (auto _ : state) {
    flow::RunOptions options;
    if (traced) options.recorder = std::make_shared<flow::Recorder>();
    flow::Runner runner(ladder.plan(), std::move(options));
    const Status status = runner.run();
    if (!status.ok()) state.SkipWithError(status.message().c_str());
  }
  state.SetItemsProcessed(state.iterations() * ladder.visits());
  state.counters["s/visit"] = benchmark::Counter(static_cast<double>(state.iterations() * ladder.visits()),
                                                 benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

/// A chain of 300 stages: args are threads and tracing.
void BM_Chain(benchmark::State& state) {
  run(state, Ladder(300, 1, Executor::compute, static_cast<int>(state.range(0))), state.range(1) != 0);
}
BENCHMARK(BM_Chain)
    ->ArgNames({"threads", "traced"})
    ->ArgsProduct({{1, 2}, {0, 1}})
    ->MeasureProcessCPUTime()
    ->UseRealTime();

/// 100 ranks of 3 stages with 3 inputs each.
void BM_Joins(benchmark::State& state) {
  run(state, Ladder(100, 3, Executor::compute, static_cast<int>(state.range(0))), state.range(1) != 0);
}
BENCHMARK(BM_Joins)
    ->ArgNames({"threads", "traced"})
    ->ArgsProduct({{1, 2}, {0, 1}})
    ->MeasureProcessCPUTime()
    ->UseRealTime();

/// A chain of stages on the I/O executor: every visit changes threads.
void BM_IoChain(benchmark::State& state) {
  run(state, Ladder(100, 1, Executor::io, 2), false);
}
BENCHMARK(BM_IoChain)->MeasureProcessCPUTime()->UseRealTime();

/// One parallel_for of 64 empty slices.
void BM_ParallelFor(benchmark::State& state) {
  for (auto _ : state) {
    flow::parallel_for(64, 1, [](flow::Range range) { benchmark::DoNotOptimize(range.begin); });
  }
}
BENCHMARK(BM_ParallelFor);

}  // namespace

BENCHMARK_MAIN();
