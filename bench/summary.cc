#include "bench/summary.h"

#include <algorithm>
#include <boost/json.hpp>
#include <set>

#include "framework/cli/subprocess.h"

namespace dsv::bench {
namespace {

namespace json = boost::json;
using flow::Result;
using Row = std::vector<std::string>;

/// Fields that Google Benchmark writes for every benchmark; all others are counters.
const std::set<std::string_view> kFields = {"name",
                                            "family_index",
                                            "per_family_instance_index",
                                            "run_name",
                                            "run_type",
                                            "repetitions",
                                            "repetition_index",
                                            "threads",
                                            "iterations",
                                            "real_time",
                                            "cpu_time",
                                            "time_unit",
                                            "bytes_per_second",
                                            "items_per_second",
                                            "aggregate_name",
                                            "aggregate_unit",
                                            "label",
                                            "cpu_coefficient",
                                            "real_coefficient",
                                            "big_o",
                                            "rms",
                                            "error_occurred",
                                            "error_message"};

std::string scaled(double value, std::string_view unit) {
  for (const char* prefix : {"", "k", "M", "G"}) {
    if (value < 1000) return fmt::format("{:.3g} {}{}", value, prefix, unit);
    value /= 1000;
  }
  return fmt::format("{:.3g} T{}", value, unit);
}

std::string rate(const json::object& benchmark, std::string_view field, std::string_view unit) {
  const json::value* value = benchmark.if_contains(field);
  return value ? scaled(value->to_number<double>(), unit) : "";
}

std::string counters(const json::object& benchmark) {
  std::string text;
  for (const auto& [name, value] : benchmark) {
    if (!value.is_number() || kFields.contains(std::string_view(name))) continue;
    text += fmt::format("{}{} {:.3g}", text.empty() ? "" : ", ", std::string_view(name),
                        value.to_number<double>());
  }
  return text;
}

Row row_of(const std::string& program, const json::object& benchmark) {
  const std::string name(benchmark.at("name").as_string());
  if (benchmark.contains("error_occurred")) {
    return {program, name, "failed", "", "", std::string(benchmark.at("error_message").as_string())};
  }
  const json::value* time = benchmark.if_contains("real_time");
  if (!time) return {program, name, "", "", "", counters(benchmark)};  // a fit over other benchmarks
  return {program,
          name,
          fmt::format("{:.4g} {}", time->to_number<double>(),
                      std::string_view(benchmark.at("time_unit").as_string())),
          rate(benchmark, "bytes_per_second", "B/s"),
          rate(benchmark, "items_per_second", "/s"),
          counters(benchmark)};
}

std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      // Numbers are aligned at their units, to the right.
      line += i >= 2 && i <= 4 ? fmt::format("{:>{}}  ", row[i], widths[i])
                               : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

Result<std::vector<Row>> summary_rows(const std::string& program, const std::string& report) {
  try {
    std::vector<Row> rows;
    const json::value parsed = json::parse(report);
    for (const json::value& benchmark : parsed.at("benchmarks").as_array()) {
      rows.push_back(row_of(program, benchmark.as_object()));
    }
    return rows;
  } catch (const std::exception& e) {
    return flow::errorf("{}: its report is not that of a benchmark: {}", program, e.what());
  }
}

Result<std::string> summarize_programs(const std::filesystem::path& root,
                                       const std::vector<std::string>& programs,
                                       const std::vector<std::string>& arguments) {
  std::vector<Row> rows = {{"program", "benchmark", "time", "bytes", "items", "counters"}};
  for (const std::string& program : programs) {
    std::vector<std::string> command = {(root / program).string(), "--benchmark_format=json"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    FLOW_ASSIGN(const flow::cli::Finished finished, flow::cli::run_program(command, ""));
    if (finished.code == 127) return flow::errorf("'{}' is not built", command[0]);
    if (finished.code != 0) return flow::errorf("'{}' failed with code {}", command[0], finished.code);
    if (finished.output.empty()) continue;  // the filter left nothing
    FLOW_ASSIGN(const auto found, summary_rows(std::filesystem::path(program).filename(), finished.output));
    rows.insert(rows.end(), found.begin(), found.end());
  }
  return table(rows);
}

}  // namespace dsv::bench
