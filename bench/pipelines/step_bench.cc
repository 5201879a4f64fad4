// Whole steps of the model, prefill and decode, with every weight in memory: time, and the bound below which
// no step can be - the bytes that its stages touch over the read bandwidth measured in this run.
//
// Without options the demo checkpoint, which the caches hold: it shows the cost of the graph. With --layers
// and --experts a synthetic checkpoint of the released dims. A table for each stage goes to standard error.
#include <benchmark/benchmark.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <map>

#include "bench/arguments.h"
#include "bench/kernels/machine.h"
#include "bench/pipelines/reduced_checkpoint.h"
#include "framework/cli/command_line.h"
#include "framework/cli/exit.h"
#include "framework/config/load.h"
#include "framework/core/data_dirs.h"
#include "framework/runtime/runner.h"
#include "framework/trace/summary.h"

namespace dsv::bench {

namespace {

using namespace flow::cli;  // NOLINT: a tool of the command line like the others
using flow::Result;
using flow::Status;
using flow::Trace;

constexpr OptionText kOptions[] = {
    {"checkpoint", "FOLDER", false, "measure this checkpoint (default: the built-in demo)"},
    {"layers", "N", false,
     "write a synthetic checkpoint of the released dims with N layers and measure that"},
    {"experts", "N", false, "its routed experts a layer (default 8)"},
    {"keep", "FOLDER", false, "write it there and leave it"},
    {"prefill", "N,N,...", false, "lengths of the prompts (default 64,512)"},
    {"decode", "N", false, "tokens to decode (default 16)"},
    {"set", "NAME=VALUE", true, "give a parameter of greedy.yaml a value"},
    {"help", nullptr, false, "this text"},
};

using Sets = std::vector<std::pair<std::string, std::string>>;

/// One kind of step: a prompt of so many tokens, or tokens after a prompt of one.
struct StepKind {
  int prompt = 1;
  int decode = 0;
  int steps() const { return decode > 0 ? decode : 1; }
  int tokens() const { return decode > 0 ? decode : prompt; }
  /// Step numbers within a sequence: 1 is the prompt.
  bool measures(flow::Stamp stamp) const {
    return stamp.sequence == 1 && (decode > 0 ? stamp.step > 1 : stamp.step == 1);
  }
  /// Part of the work of the whole run: two sequences of equal steps.
  double share() const { return decode > 0 ? decode / (2.0 * (decode + 1)) : 0.5; }
};

Result<Trace> run(const StepKind& kind, Sets sets) {
  const std::vector<std::int32_t> continuation(static_cast<std::size_t>(kind.decode), 7);
  sets.emplace_back("tokens", std::to_string(kind.prompt));
  sets.emplace_back("max_new_tokens", "1");
  if (kind.decode > 0) {
    sets.emplace_back("continuation_ids", fmt::format("{}", fmt::join(continuation, ",")));
  }
  flow::LoadOutcome outcome =
      flow::load_graph({.files = {"greedy", DSV41_SOURCE_DIR "/bench/pipelines/step.yaml"},
                        .sets = std::move(sets),
                        .data_dirs = flow::data_dirs()});
  if (!outcome.plan) return Status::error(fmt::format("{}", fmt::join(outcome.errors, "\n")));
  const auto recorder = std::make_shared<flow::Recorder>();
  FLOW_TRY(flow::Runner(*std::move(outcome.plan), {.recorder = recorder}).run());
  return recorder->trace();
}

/// What a trace says of the steps that are measured, as a trace of its own.
Trace measured(Trace trace, const StepKind& kind) {
  std::int64_t begin = trace.end, end = trace.begin;
  for (flow::TraceLane& lane : trace.lanes) {
    std::erase_if(lane.stages, [&](const flow::StageSpan& span) { return !kind.measures(span.stamp); });
    for (const flow::StageSpan& span : lane.stages) {
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
    }
  }
  for (flow::TraceLane& lane : trace.lanes) {
    std::erase_if(lane.scopes, [&](const auto& s) { return s.end < begin || s.begin > end; });
  }
  // Stages do the same in each sequence; what services count, such as reads, belongs to the first.
  std::map<std::string, double> totals;
  for (const flow::TracedNode& node : trace.nodes) {
    for (const char* name : {".bytes", ".items"}) {
      const auto total = trace.totals.find(node.name + name);
      if (total != trace.totals.end()) totals[total->first] = total->second * kind.share();
    }
  }
  trace.totals = std::move(totals);
  trace.begin = begin;
  trace.end = end;
  return trace;
}

/// Bytes that stages on the compute workers touch; those of I/O stages are other memory.
double compute_bytes(const Trace& trace) {
  double bytes = 0;
  for (const flow::TracedNode& node : trace.nodes) {
    const auto total = trace.totals.find(node.name + ".bytes");
    if (node.executor == flow::Executor::compute && total != trace.totals.end()) bytes += total->second;
  }
  return bytes;
}

void measure(benchmark::State& state, const StepKind& kind, const Sets& sets) {
  static const double bandwidth = read_bandwidth(true);
  for (auto _ : state) {
    const auto whole = run(kind, sets);
    if (!whole.ok()) return state.SkipWithError(whole.status().message().c_str());
    const Trace trace = measured(*whole, kind);
    const double bytes = compute_bytes(trace), bound = bytes / bandwidth, steps = kind.steps();
    state.SetIterationTime(trace.seconds() / steps);
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes / steps));
    state.SetItemsProcessed(kind.tokens() / kind.steps());
    state.counters["bound_ms"] = bound / steps * 1e3;
    state.counters["bound/time"] = bound / trace.seconds();
    std::fprintf(stderr, "%d steps of %d tokens: %.3f ms each; bound %.3f ms (%.3f MB at %.2f GB/s)\n%s",
                 kind.steps(), kind.decode > 0 ? 1 : kind.prompt, trace.seconds() / steps * 1e3,
                 bound / steps * 1e3, bytes / steps * 1e-6, bandwidth * 1e-9,
                 flow::summary_text(trace).c_str());
  }
}

void add(const std::string& name, const StepKind& kind, const Sets& sets) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [kind, sets](benchmark::State& state) { measure(state, kind, sets); })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

Result<int> number(const CommandLine& line, const char* option, int otherwise) {
  const auto text = line.text(option);
  if (!text) return otherwise;
  FLOW_ASSIGN(const auto value,
              flow::parse_option(flow::OptionType::integer, *text).in(std::string("--") + option));
  if (value.as_int64() < 1 || value.as_int64() > 1 << 20) {
    return flow::errorf("--{}: {} is outside 1 to {}", option, value.as_int64(), 1 << 20);
  }
  return static_cast<int>(value.as_int64());
}

/// The checkpoint of the command line: null where it lies already.
Result<std::unique_ptr<ReducedCheckpoint>> write_checkpoint(const CommandLine& line) {
  if (!line.has("layers")) return std::unique_ptr<ReducedCheckpoint>();
  ReducedCheckpoint::Size size;
  FLOW_ASSIGN(size.layers, number(line, "layers", 0));
  FLOW_ASSIGN(size.experts, number(line, "experts", size.experts));
  std::fprintf(stderr, "writing %d layers of %d experts\n", size.layers, size.experts);
  return ReducedCheckpoint::write(DSV41_SOURCE_DIR "/tests/golden/released/inference/config.json",
                                  DSV41_SOURCE_DIR "/tests/golden/tokenizer/tokenizer.json", size,
                                  line.text("keep").value_or(""));
}

Status register_steps(const CommandLine& line, const ReducedCheckpoint* written) {
  FLOW_ASSIGN(Sets sets, line.pairs("set", "NAME=VALUE"));
  sets.emplace_back("checkpoint",
                    written ? written->path().string() : line.text("checkpoint").value_or("demo"));
  FLOW_ASSIGN(const auto lengths,
              flow::parse_option(flow::OptionType::integers, line.text("prefill").value_or("64,512"))
                  .in("--prefill"));
  for (const auto& length : lengths.as_array()) {
    const int tokens = static_cast<int>(length.as_int64());
    if (tokens < 1) return flow::errorf("--prefill: {} is no length", tokens);
    add(fmt::format("step/prefill:{}", tokens), {tokens, 0}, sets);
  }
  FLOW_ASSIGN(const int decode, number(line, "decode", 16));
  add("step/decode", {1, decode}, sets);
  return {};
}

int main_of(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const auto line = CommandLine::parse(kOptions, arguments.count(), arguments.own.data());
  if (!line.ok()) return fail(kUsage, line.status());
  if (line->has("help"))
    return show("usage: step_bench [options] [--benchmark_...]\n\n" + option_list(kOptions));
  const auto written = write_checkpoint(*line);
  if (!written.ok()) return fail(kFailed, written.status());
  if (const Status status = register_steps(*line, written->get()); !status.ok()) return fail(kUsage, status);
  return run_benchmarks(arguments);
}

}  // namespace
}  // namespace dsv::bench

int main(int argc, char** argv) {
  try {
    return dsv::bench::main_of(argc, argv);
  } catch (const std::exception& e) {
    return flow::cli::fail(flow::cli::kFailed, flow::errorf("{}", e.what()));
  }
}
