#include "framework/cli/comparison_text.h"

#include <algorithm>
#include <functional>
#include <map>

#include "framework/trace/summary.h"

namespace flow::cli {
namespace {

namespace json = boost::json;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Calls and median time of each group of stages that ran.
std::map<std::string, std::pair<std::uint64_t, double>> group_times(const ComparedSide& side) {
  std::map<std::string, std::vector<double>> totals;
  std::map<std::string, std::pair<std::uint64_t, double>> times;
  for (const Trace& trace : side.traces) {
    for (const StageSummary& row : summarize(grouped(trace))) {
      if (row.calls == 0 || row.type == "Tap") continue;
      totals[row.name].push_back(row.total);
      times[row.name].first = row.calls;
    }
  }
  for (auto& [name, time] : times) time.second = median(totals[name]);
  return times;
}

double overlap_median(const ComparedSide& side, const std::function<double(const Overlap&)>& part) {
  std::vector<double> values;
  for (const Trace& trace : side.traces) values.push_back(part(overlap(trace)));
  return median(std::move(values));
}

std::string milliseconds(double seconds, bool ran) {
  return ran ? fmt::format("{:.3f}", seconds * 1e3) : "-";
}

std::string ratio(const ComparedTime& row) {
  return row.a > 0 && row.b > 0 ? fmt::format("{:.3f}", row.b / row.a) : "-";
}

std::string time_line(const ComparedTime& row, std::size_t width, bool counted) {
  const bool a = !counted || row.calls_a > 0, b = !counted || row.calls_b > 0;
  const std::string calls = !counted                     ? ""
                            : row.calls_a == row.calls_b ? fmt::format("{}", row.calls_a)
                                                         : fmt::format("{}/{}", row.calls_a, row.calls_b);
  return fmt::format("{:<{}} {:>9} {:>12} {:>12} {:>8}\n", row.name, width, calls, milliseconds(row.a, a),
                     milliseconds(row.b, b), ratio(row));
}

std::string array_line(const ArrayDifference& array) {
  if (array.different == 0) {
    return fmt::format("{}: the same in {} packets\n", array.name, array.packets);
  }
  std::string line = fmt::format("{}: {} of {} packets differ", array.name, array.different, array.packets);
  if (!array.mismatch.empty()) line += fmt::format("; {}", array.mismatch);
  if (!array.first) return line + "\n";
  const ElementDifference& first = *array.first;
  line +=
      fmt::format("; first packet {} (stamp {}.{})", first.packet, first.stamp.sequence, first.stamp.step);
  if (array.integers) {
    line += fmt::format(", element {}: {} and {}", first.element, static_cast<std::int64_t>(first.a),
                        static_cast<std::int64_t>(first.b));
  } else {
    line += fmt::format("; largest distance {:.3g}, relative {:.3g}", array.max_abs, array.relative);
  }
  return line + "\n";
}

json::object time_json(const ComparedTime& row) {
  return {{"name", row.name},
          {"a", {{"calls", row.calls_a}, {"seconds", row.a}}},
          {"b", {{"calls", row.calls_b}, {"seconds", row.b}}}};
}

json::object array_json(const ArrayDifference& array) {
  json::object object = {{"array", array.name},
                         {"packets", array.packets},
                         {"different", array.different},
                         {"max_abs", array.max_abs},
                         {"relative", array.relative}};
  if (!array.mismatch.empty()) object["mismatch"] = array.mismatch;
  if (array.first) {
    object["first"] = {{"packet", array.first->packet},
                       {"sequence", array.first->stamp.sequence},
                       {"step", array.first->stamp.step},
                       {"element", array.first->element},
                       {"a", array.first->a},
                       {"b", array.first->b}};
  }
  return object;
}

}  // namespace

std::vector<ComparedTime> compared_stages(const ComparedSide& a, const ComparedSide& b) {
  std::map<std::string, ComparedTime> rows;
  for (const auto& [name, time] : group_times(a)) {
    rows[name].calls_a = time.first;
    rows[name].a = time.second;
  }
  for (const auto& [name, time] : group_times(b)) {
    rows[name].calls_b = time.first;
    rows[name].b = time.second;
  }
  std::vector<ComparedTime> sorted;
  for (auto& [name, row] : rows) {
    row.name = name;
    sorted.push_back(row);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const ComparedTime& x, const ComparedTime& y) {
    return std::max(x.a, x.b) > std::max(y.a, y.b);
  });
  return sorted;
}

std::vector<ComparedTime> compared_runs(const ComparedSide& a, const ComparedSide& b) {
  const std::pair<const char*, std::function<double(const Overlap&)>> parts[] = {
      {"run", [](const Overlap& o) { return o.wall; }},
      {"computing", [](const Overlap& o) { return o.compute; }},
      {"reading", [](const Overlap& o) { return o.io; }},
      {"reading, exposed", [](const Overlap& o) { return o.exposed(); }},
  };
  std::vector<ComparedTime> rows;
  for (const auto& [name, part] : parts) {
    rows.push_back(
        {name, a.traces.size(), b.traces.size(), overlap_median(a, part), overlap_median(b, part)});
  }
  return rows;
}

std::string comparison_text(const ComparedSide& a, const ComparedSide& b, const RunDifference& results) {
  const auto stages = compared_stages(a, b), runs = compared_runs(a, b);
  std::size_t width = 16;
  for (const ComparedTime& row : stages) width = std::max(width, row.name.size());
  std::string text = fmt::format("A: {}\nB: {}\n{:<{}} {:>9} {:>12} {:>12} {:>8}\n", a.name, b.name, "stage",
                                 width, "calls", "A ms", "B ms", "B/A");
  for (const ComparedTime& row : stages) text += time_line(row, width, true);
  for (const ComparedTime& row : runs) text += time_line(row, width, false);
  for (const ArrayDifference& array : results.arrays) text += array_line(array);
  if (results.skipped > 0) {
    text +=
        fmt::format("{} packets are not compared: what they follow from differs, or only one run sent them\n",
                    results.skipped);
  }
  return text;
}

json::object comparison_json(const ComparedSide& a, const ComparedSide& b, const RunDifference& results) {
  json::array stages, runs, arrays;
  for (const ComparedTime& row : compared_stages(a, b)) stages.push_back(time_json(row));
  for (const ComparedTime& row : compared_runs(a, b)) runs.push_back(time_json(row));
  for (const ArrayDifference& array : results.arrays) arrays.push_back(array_json(array));
  return {{"a", a.name},
          {"b", b.name},
          {"stages", std::move(stages)},
          {"runs", std::move(runs)},
          {"results", std::move(arrays)},
          {"skipped", results.skipped},
          {"equal", results.equal()}};
}

}  // namespace flow::cli
