// dsv41-bench: stages of pipelines under Google Benchmark, and one table of all benchmark programs.
#include <filesystem>

#include "bench/arguments.h"
#include "bench/stage_bench.h"
#include "bench/summary.h"
#include "framework/cli/command_line.h"
#include "framework/cli/exit.h"
#include "framework/core/data_dirs.h"

namespace {

using namespace flow::cli;  // NOLINT: a tool of the command line like the others
using flow::Result;
using flow::Status;

constexpr OptionText kOptions[] = {
    {"pipeline", "FILE", true, "the pipeline of the stage, then its overlays"},
    {"stage", "NAME", false,
     "benchmark this stage with the inputs of a real run: its full name, a pattern with * for anything "
     "within a "
     "part, or the name with parts left out, as layers.3.experts"},
    {"set", "NAME=VALUE", true, "give a parameter of the pipeline a value, as dsv41-run takes it"},
    {"invocations", "N", false, "benchmark the first N invocations of the stage (default 2)"},
    {"disk", "FOLDER", false,
     "where the disk is measured for stages that read (default: the temporary folder)"},
    {"summary", nullptr, false, "run the benchmark programs and print one table; takes some minutes"},
    {"help", nullptr, false, "this text"},
};

std::string usage() {
  return "usage: dsv41-bench --pipeline FILE --stage NAME [options] [--benchmark_...]\n"
         "       dsv41-bench --summary [--benchmark_filter=...]\n\n" +
         option_list(kOptions) +
         "\nOptions that begin with --benchmark_ are those of Google Benchmark.\n"
         "Exit codes: 0 done, 1 a benchmark failed, 2 wrong usage or graph.\n";
}

Result<dsv::bench::StageBench> stage_bench(const CommandLine& line) {
  dsv::bench::StageBench bench;
  bench.graph.files = line.texts("pipeline");
  bench.graph.data_dirs = flow::data_dirs();
  bench.graph.read_set = value_reader();
  if (bench.graph.files.empty()) return flow::errorf("--stage needs --pipeline FILE");
  FLOW_ASSIGN(bench.graph.sets, line.pairs("set", "NAME=VALUE"));
  bench.stage = *line.text("stage");
  if (const auto text = line.text("invocations")) {
    FLOW_ASSIGN(const auto number, flow::parse_option(flow::OptionType::integer, *text).in("--invocations"));
    if (number.as_int64() < 1) return flow::errorf("--invocations: {} is not above 0", number.as_int64());
    bench.invocations = static_cast<std::size_t>(number.as_int64());
  }
  bench.folder = line.text("disk").value_or(std::filesystem::temp_directory_path().string());
  return bench;
}

int guarded_main(int argc, char** argv) {
  const dsv::bench::Arguments arguments(argc, argv);
  const auto line = CommandLine::parse(kOptions, arguments.count(), arguments.own.data());
  if (!line.ok()) return fail(kUsage, line.status());
  if (line->has("help")) return show(usage());
  if (line->has("summary")) {
    const auto root = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    const auto text = dsv::bench::summarize_programs(root, {DSV41_BENCHMARKS}, arguments.google);
    return text.ok() ? show(*text) : fail(kFailed, text.status());
  }
  if (!line->has("stage")) return fail(kUsage, Status::error("nothing to do; --help shows the usage"));
  const auto bench = stage_bench(*line);
  if (!bench.ok()) return fail(kUsage, bench.status());
  if (const Status status = dsv::bench::register_stages(*bench); !status.ok()) return fail(kUsage, status);
  return dsv::bench::run_benchmarks(arguments);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return guarded_main(argc, argv);
  } catch (const std::exception& e) {
    return fail(kFailed, flow::errorf("{}", e.what()));
  }
}
