// One table of several benchmark programs.
#include "bench/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace dsv::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kReport = R"({"context": {}, "benchmarks": [
  {"name": "fp4/w1", "run_type": "iteration", "iterations": 10, "real_time": 123.456, "cpu_time": 1,
   "time_unit": "us", "bytes_per_second": 2.5e10, "items_per_second": 1500, "of_bandwidth": 0.81234},
  {"name": "broken", "run_type": "iteration", "error_occurred": true, "error_message": "no weights"},
  {"name": "audit_BigO", "run_type": "aggregate", "cpu_coefficient": 1, "big_o": "N"}]})";

TEST(Summary, ShowsTimeRatesAndCountersOfEachBenchmark) {
  const auto rows = summary_rows("kernels_bench", kReport);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_THAT(*rows, ElementsAre(ElementsAre("kernels_bench", "fp4/w1", "123.5 us", "25 GB/s", "1.5 k/s",
                                             "of_bandwidth 0.812"),
                                 ElementsAre("kernels_bench", "broken", "failed", "", "", "no weights"),
                                 ElementsAre("kernels_bench", "audit_BigO", "", "", "", "")));
}

TEST(Summary, RefusesWhatIsNoReport) {
  EXPECT_THAT(summary_rows("x", "nonsense").status().message(), HasSubstr("x: its report is not"));
  EXPECT_THAT(summary_rows("x", "{}").status().message(), HasSubstr("x: its report is not"));
}

/// A folder with programs that print what a benchmark would.
class Programs : public testing::Test {
 protected:
  Programs() {
    folder_ = testing::TempDir() + "/summary_programs";
    std::filesystem::create_directories(folder_);
  }
  ~Programs() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& script) {
    const std::string path = folder_ / name;
    std::ofstream(path) << "#!/bin/sh\n" << script;
    ::chmod(path.c_str(), 0755);
  }
  std::filesystem::path folder_;
};

TEST_F(Programs, RunWithTheArgumentsAndMakeOneTable) {
  write("a", R"(echo "{\"benchmarks\": [{\"name\": \"$1 $2\", \"real_time\": 1, \"time_unit\": \"ns\"}]}")");
  write("b", "exit 0\n");
  const auto table = summarize_programs(folder_, {"a", "b"}, {"--benchmark_filter=x"});
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_THAT(*table, HasSubstr("a        --benchmark_format=json --benchmark_filter=x"));
}

TEST_F(Programs, ThatFailOrAreMissingAreNamed) {
  write("c", "exit 3\n");
  EXPECT_THAT(summarize_programs(folder_, {"c"}, {}).status().message(), HasSubstr("/c' failed with code 3"));
  EXPECT_THAT(summarize_programs(folder_, {"d"}, {}).status().message(), HasSubstr("/d' is not built"));
}

}  // namespace
}  // namespace dsv::bench
