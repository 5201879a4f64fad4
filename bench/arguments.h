// Command lines of programs that also take the options of Google Benchmark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dsv::bench {

/// The program's own arguments, its name first, and those that begin with --benchmark_.
struct Arguments {
  std::vector<const char*> own;
  std::vector<std::string> google;

  Arguments(int argc, char** argv) {
    for (int i = 0; i < argc; ++i) {
      if (std::string_view(argv[i]).starts_with("--benchmark_")) {
        google.emplace_back(argv[i]);
      } else {
        own.push_back(argv[i]);
      }
    }
  }
  int count() const { return static_cast<int>(own.size()); }
};

/// Runs what is registered. Returns the exit code: 0 done, 1 no benchmark ran, 2 wrong options.
int run_benchmarks(const Arguments& arguments);

}  // namespace dsv::bench
