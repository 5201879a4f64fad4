#include "bench/arguments.h"

#include <benchmark/benchmark.h>

#include "framework/cli/exit.h"

namespace dsv::bench {

int run_benchmarks(const Arguments& arguments) {
  std::vector<std::string> words = arguments.google;
  words.insert(words.begin(), arguments.own.front());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  int argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  if (benchmark::ReportUnrecognizedArguments(argc, argv.data())) return flow::cli::kUsage;
  if (benchmark::RunSpecifiedBenchmarks() > 0) return flow::cli::kDone;
  return flow::cli::fail(flow::cli::kFailed, flow::Status::error("no benchmark ran"));
}

}  // namespace dsv::bench
