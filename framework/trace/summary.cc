#include "framework/trace/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "framework/core/units.h"

namespace flow {
namespace {

double seconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

/// The smallest element that at least 95 % do not exceed.
std::int64_t percentile95(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(values.size()))) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank), values.end());
  return values[rank];
}

std::vector<std::vector<const StageSpan*>> spans_by_node(const Trace& trace) {
  std::vector<std::vector<const StageSpan*>> spans(trace.nodes.size());
  for (const TraceLane& lane : trace.lanes) {
    for (const StageSpan& span : lane.stages) spans[static_cast<std::size_t>(span.node)].push_back(&span);
  }
  return spans;
}

void add_waits(StageSummary& row, const TracedNode& node, const std::vector<const StageSpan*>& spans) {
  std::vector<std::int64_t> lost(node.edges.size());
  for (const StageSpan* span : spans) {
    if (span->last_edge < 0) continue;
    lost[static_cast<std::size_t>(span->last_edge)] += span->ready - span->arrived;
    row.join_wait += seconds(span->ready - span->arrived);
    row.queue_wait += seconds(span->begin - span->ready);
  }
  const auto most = std::max_element(lost.begin(), lost.end());
  if (most != lost.end() && *most > 0) {
    row.waited_for = node.edges[static_cast<std::size_t>(most - lost.begin())];
  }
}

StageSummary summarize_node(const Trace& trace, const TracedNode& node,
                            const std::vector<const StageSpan*>& spans) {
  StageSummary row;
  row.name = node.name;
  row.type = node.type;
  row.calls = spans.size();
  std::vector<std::int64_t> times;
  for (const StageSpan* span : spans) {
    times.push_back(span->end - span->begin);
    row.total += seconds(times.back());
  }
  if (row.calls > 0) row.mean = row.total / static_cast<double>(row.calls);
  row.p95 = seconds(percentile95(std::move(times)));
  if (trace.end > trace.begin) row.share = row.total / trace.seconds();
  const auto bytes = trace.totals.find(node.name + ".bytes");
  if (bytes != trace.totals.end()) row.bytes = bytes->second;
  add_waits(row, node, spans);
  return row;
}

/// A change in the number of computing or reading activities.
struct Change {
  std::int64_t time;
  int compute, io;
};

struct Interval {
  std::int64_t begin, end;
};

/// Merges overlapping intervals.
std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> result;
  for (const Interval& next : intervals) {
    if (!result.empty() && next.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, next.end);
    } else {
      result.push_back(next);
    }
  }
  return result;
}

/// A lane of the compute workers computes but for its I/O scopes; another lane reads in bodies and scopes.
void add_changes(const TraceLane& lane, std::vector<Change>& changes) {
  const bool computes = lane.executor == Executor::compute;
  std::vector<Interval> reading;
  for (const ScopeSpan& scope : lane.scopes) {
    if (scope.kind == Executor::io) reading.push_back({scope.begin, scope.end});
  }
  for (const StageSpan& span : lane.stages) {
    if (!computes) {
      reading.push_back({span.begin, span.end});
      continue;
    }
    changes.push_back({span.begin, 1, 0});
    changes.push_back({span.end, -1, 0});
  }
  for (const Interval& interval : merged(std::move(reading))) {
    const int pause = computes ? 1 : 0;
    changes.push_back({interval.begin, -pause, 1});
    changes.push_back({interval.end, pause, -1});
  }
}

constexpr std::size_t kLineWidth = 100;

std::string stage_line(const StageSummary& row, std::size_t width) {
  std::string line = fmt::format("{:<{}} {:>8} {:>10.3f} {:>10.4f} {:>10.4f} {:>6.1f} %", row.name, width,
                                 row.calls, row.total * 1e3, row.mean * 1e3, row.p95 * 1e3, row.share * 100);
  if (row.bytes > 0) {
    line += fmt::format("  {}", bytes_text(static_cast<std::uint64_t>(row.bytes)));
    if (row.total > 0) line += fmt::format(", {:.3g} GB/s", row.bytes / row.total * 1e-9);
  }
  if (!row.waited_for.empty()) {
    const std::string wait =
        fmt::format("waited {:.3f} ms, most for {}", row.join_wait * 1e3, row.waited_for);
    line += line.size() + wait.size() + 2 <= kLineWidth ? "  " + wait : "\n    " + wait;
  }
  return line + "\n";
}

/// The name with a star for each part that is a number.
std::string pattern_of(std::string_view name) {
  std::string pattern;
  while (true) {
    const auto dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    pattern += number ? "*" : part;
    if (dot == std::string_view::npos) return pattern;
    pattern += '.';
    name.remove_prefix(dot + 1);
  }
}

/// Totals that the lines of the stages do not show.
std::string totals_text(const Trace& trace) {
  std::set<std::string> shown;
  for (const TracedNode& node : trace.nodes) shown.insert({node.name + ".bytes", node.name + ".items"});
  std::string text;
  for (const auto& [name, total] : trace.totals) {
    if (shown.contains(name)) continue;
    text += fmt::format(
        "{} {}", name,
        name.ends_with("bytes") ? bytes_text(static_cast<std::uint64_t>(total)) : fmt::format("{:g}", total));
    const auto misses = name.ends_with(".hits")
                            ? trace.totals.find(name.substr(0, name.size() - 4) + "misses")
                            : trace.totals.end();
    if (misses != trace.totals.end()) {
      text += fmt::format(" ({:.1f} % hit)", 100 * total / std::max(1.0, total + misses->second));
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::vector<StageSummary> summarize(const Trace& trace) {
  const auto spans = spans_by_node(trace);
  std::vector<StageSummary> rows;
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
    rows.push_back(summarize_node(trace, trace.nodes[i], spans[i]));
  }
  return rows;
}

Overlap overlap(const Trace& trace) {
  std::vector<Change> changes;
  for (const TraceLane& lane : trace.lanes) add_changes(lane, changes);
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  Overlap result;
  result.wall = trace.seconds();
  int compute = 0, io = 0;
  std::int64_t last = trace.begin;
  for (const Change& change : changes) {
    const std::int64_t time = std::clamp(change.time, trace.begin, trace.end);
    const double passed = seconds(time - last);
    if (compute > 0) result.compute += passed;
    if (io > 0) result.io += passed;
    if (compute > 0 && io > 0) result.hidden += passed;
    compute += change.compute;
    io += change.io;
    last = time;
  }
  return result;
}

Trace grouped(const Trace& trace) {
  Trace result = trace;
  result.nodes.clear();
  result.totals.clear();
  std::map<std::string, int> index;
  std::vector<int> group;
  for (const TracedNode& node : trace.nodes) {
    const auto [found, added] =
        index.try_emplace(pattern_of(node.name), static_cast<int>(result.nodes.size()));
    if (added) result.nodes.push_back({found->first, node.type, node.executor, {}});
    group.push_back(found->second);
    // Copies may differ in optional inputs; the longest list names them all.
    auto& edges = result.nodes[static_cast<std::size_t>(found->second)].edges;
    if (node.edges.size() > edges.size()) {
      edges.clear();
      for (const std::string& edge : node.edges) edges.push_back(pattern_of(edge));
    }
  }
  for (TraceLane& lane : result.lanes) {
    for (StageSpan& span : lane.stages) span.node = group[static_cast<std::size_t>(span.node)];
  }
  for (const auto& [name, total] : trace.totals) result.totals[pattern_of(name)] += total;
  return result;
}

std::string summary_text(const Trace& full) {
  const Trace trace = grouped(full);
  std::vector<StageSummary> rows = summarize(trace);
  std::erase_if(rows, [](const StageSummary& row) { return row.calls == 0; });
  std::stable_sort(rows.begin(), rows.end(),
                   [](const StageSummary& a, const StageSummary& b) { return a.total > b.total; });
  std::size_t width = 5;
  for (const StageSummary& row : rows) width = std::max(width, row.name.size());
  std::string text = fmt::format("{:<{}} {:>8} {:>10} {:>10} {:>10} {:>8}\n", "stage", width, "calls",
                                 "total ms", "mean ms", "p95 ms", "share");
  for (const StageSummary& row : rows) text += stage_line(row, width);
  const Overlap o = overlap(trace);
  text += fmt::format(
      "run {:.3f} ms: computing {:.3f} ms, reading {:.3f} ms of which {:.3f} ms hidden and "
      "{:.3f} ms exposed\n",
      o.wall * 1e3, o.compute * 1e3, o.io * 1e3, o.hidden * 1e3, o.exposed() * 1e3);
  return text + totals_text(trace);
}

}  // namespace flow
