// The audit's report as text and as JSON.
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value_from.hpp>

#include "stages/audit/audit.h"

namespace dsv {

namespace json = boost::json;

namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

std::string check_line(const AuditCheck& check) {
  std::string line = fmt::format("  [{}] {}", verdict_name(check.verdict), check.title);
  if (!check.detail.empty()) line += fmt::format(" ({})", check.detail);
  if (!check.waits_for.empty()) line += fmt::format(" - waits for {}", fmt::join(check.waits_for, ", "));
  return line + '\n';
}

std::string coverage_table(const AuditReport& report) {
  std::string text = "\nLayers that are not entirely at hand\n";
  for (const LayerCoverage& layer : report.coverage)
    text += fmt::format(
        "  {:<12} {:>7} of {:>7} tensors{}\n", layer.layer, layer.at_hand, layer.expected,
        layer.waits_for.empty() ? "" : fmt::format(" - waits for {}", fmt::join(layer.waits_for, ", ")));
  return text;
}

std::string category_table(const AuditReport& report) {
  std::string text =
      fmt::format("\n  {:<34} {:>9} {:>18} {:>12} {:>7}\n", "category", "tensors", "bytes", "GiB", "share");
  const auto row = [&](std::string_view name, std::int64_t tensors, std::uint64_t bytes) {
    const double share =
        report.bytes > 0 ? 100.0 * static_cast<double>(bytes) / static_cast<double>(report.bytes) : 0;
    text += fmt::format("  {:<34} {:>9} {:>18} {:>12.2f} {:>6.1f}%\n", name, tensors, bytes,
                        static_cast<double>(bytes) / kGiB, share);
  };
  for (const CategoryRow& r : report.categories) row(category_name(r.category), r.tensors, r.bytes);
  row("total", report.tensors, report.bytes);
  return text;
}

json::array to_array(const std::vector<std::string>& lines) {
  return json::array(lines.begin(), lines.end());
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::Pass:
      return "pass";
    case Verdict::Fail:
      return "fail";
    case Verdict::Undecided:
      return "undecided";
  }
  return "fail";
}

std::string to_text(const AuditReport& report, bool require_complete) {
  std::string text = fmt::format("config {}\n  {}\n", report.config, report.shape);
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", note);
  std::string_view group;
  for (const AuditCheck& check : report.checks) {
    if (check.group != group) text += fmt::format("\n{}\n", check.group);
    group = check.group;
    text += check_line(check);
  }
  if (!report.coverage.empty()) text += coverage_table(report);
  text += category_table(report);
  text += fmt::format("\n{} shards, {} of {} tensors readable, {} bytes\n", report.shards, report.readable,
                      report.tensors, report.bytes);
  text += fmt::format("[{}] {} of {} checks passed, {} undecided, {} failed\n",
                      report.passed(require_complete) ? "ok" : "failed", report.count(Verdict::Pass),
                      report.checks.size(), report.count(Verdict::Undecided), report.count(Verdict::Fail));
  return text;
}

json::object to_json(const AuditReport& report, bool require_complete) {
  json::array checks, categories, coverage;
  for (const AuditCheck& c : report.checks)
    checks.push_back({{"group", c.group},
                      {"title", c.title},
                      {"status", json::string_view(verdict_name(c.verdict))},
                      {"detail", c.detail},
                      {"waits_for", to_array(c.waits_for)}});
  for (const CategoryRow& r : report.categories)
    categories.push_back({{"category", json::string_view(category_name(r.category))},
                          {"tensors", r.tensors},
                          {"bytes", r.bytes}});
  for (const LayerCoverage& l : report.coverage)
    coverage.push_back({{"layer", l.layer},
                        {"expected", l.expected},
                        {"at_hand", l.at_hand},
                        {"waits_for", to_array(l.waits_for)}});
  return {{"config", report.config},
          {"shape", report.shape},
          {"passed", report.passed(require_complete)},
          {"checks", std::move(checks)},
          {"pass", report.count(Verdict::Pass)},
          {"undecided", report.count(Verdict::Undecided)},
          {"fail", report.count(Verdict::Fail)},
          {"shards", report.shards},
          {"tensors", report.tensors},
          {"readable", report.readable},
          {"bytes", report.bytes},
          {"categories", std::move(categories)},
          {"coverage", std::move(coverage)},
          {"notes", to_array(report.notes)}};
}

std::string list_tensors(const ShardSet& shards, const std::string& pattern) {
  std::string text;
  for (const auto& [name, tensor] : shards.tensors()) {
    if (tensor == nullptr || ::fnmatch(pattern.c_str(), tensor->name.c_str(), 0) != 0) continue;
    const ShardFile& file = shards.file_of(*tensor);
    const auto unknown = file.header.unknown_dtypes.find(tensor->name);
    const bool known = unknown == file.header.unknown_dtypes.end();
    text += fmt::format("{}\t{}\t{}\t{}\t{}\n", name, known ? dtype_name(tensor->dtype) : unknown->second,
                        shape_text(tensor->shape), tensor->bytes(), file.path.filename().string());
  }
  return text;
}

}  // namespace dsv
