#include "framework/trace/chrome.h"

#include <algorithm>
#include <boost/json.hpp>
#include <numeric>
#include <unordered_map>

namespace flow {
namespace {

std::string json_text(std::string_view text) {
  return boost::json::serialize(boost::json::string(text));
}

/// Where a span can be found.
struct Place {
  std::size_t lane;
  const StageSpan* span;
};

/// Rows for the scopes of a thread that runs no bodies, such as a reader with several requests on their way:
/// the scopes of one row lie one after another or inside each other, as the format wants.
std::vector<std::size_t> rows_of(const std::vector<ScopeSpan>& scopes) {
  std::vector<std::size_t> order(scopes.size()), row(scopes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(scopes[a].begin, scopes[b].end) < std::pair(scopes[b].begin, scopes[a].end);
  });
  std::vector<std::vector<std::int64_t>> open;  // ends of the scopes around the last one, of each row
  for (const std::size_t i : order) {
    const auto fits = [&](std::vector<std::int64_t>& ends) {
      while (!ends.empty() && ends.back() <= scopes[i].begin) ends.pop_back();
      return ends.empty() || scopes[i].end <= ends.back();
    };
    auto found = std::find_if(open.begin(), open.end(), fits);
    if (found == open.end()) found = open.insert(found, std::vector<std::int64_t>());
    found->push_back(scopes[i].end);
    row[i] = static_cast<std::size_t>(found - open.begin());
  }
  return row;
}

/// Appends events, one a line.
class Writer {
 public:
  explicit Writer(const Trace& trace) : trace_(trace), next_thread_(trace.lanes.size()) {}

  std::string write() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    event("{{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{{\"name\":\"dsv41-run\"}}}}");
    for (std::size_t lane = 0; lane < trace_.lanes.size(); ++lane) write_lane(lane);
    write_arrows();
    for (const TraceLevel& level : trace_.levels) {
      event("{{\"ph\":\"C\",\"pid\":1,\"name\":{},\"ts\":{:.3f},\"args\":{{\"value\":{}}}}}",
            json_text(level.name), micros(level.time),
            boost::json::serialize(boost::json::value(level.value)));
    }
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  double micros(std::int64_t time) const { return static_cast<double>(time - trace_.begin) * 1e-3; }

  template <class... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    if (!first_) text_ += ",\n";
    first_ = false;
    text_ += fmt::format(format, std::forward<Args>(args)...);
  }

  void write_lane(std::size_t index) {
    const TraceLane& lane = trace_.lanes[index];
    const bool io = lane.executor == Executor::io;
    const std::string name = fmt::format("{} {}", io ? "io" : "compute", io ? io_lanes_++ : compute_lanes_++);
    write_thread(index, name);
    for (const StageSpan& span : lane.stages) {
      write_stage(index, span);
      places_[span.id] = {index, &span};
    }
    if (lane.stages.empty()) return write_rows(index, name);
    for (const ScopeSpan& scope : lane.scopes) write_scope(index, scope);
  }

  void write_rows(std::size_t index, const std::string& name) {
    const std::vector<ScopeSpan>& scopes = trace_.lanes[index].scopes;
    const std::vector<std::size_t> rows = rows_of(scopes);
    std::vector<std::size_t> threads = {index};
    for (std::size_t i = 0; i < scopes.size(); ++i) {
      while (rows[i] >= threads.size()) {
        write_thread(next_thread_, fmt::format("{}, {}", name, threads.size()));
        threads.push_back(next_thread_++);
      }
      write_scope(threads[rows[i]], scopes[i]);
    }
  }

  void write_thread(std::size_t thread, const std::string& name) {
    event("{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}}", thread,
          json_text(name));
  }

  void write_scope(std::size_t thread, const ScopeSpan& scope) {
    event("{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"cat\":\"scope\",\"name\":{},\"ts\":{:.3f},\"dur\":{:.3f}}}",
          thread, json_text(scope.owner + ": " + scope.name), micros(scope.begin),
          static_cast<double>(scope.end - scope.begin) * 1e-3);
  }

  void write_stage(std::size_t lane, const StageSpan& span) {
    const TracedNode& node = trace_.nodes[static_cast<std::size_t>(span.node)];
    std::string waits;
    if (span.last_edge >= 0) {
      waits = fmt::format(",\"last input\":{},\"join wait us\":{:.3f},\"queue wait us\":{:.3f}",
                          json_text(node.edges[static_cast<std::size_t>(span.last_edge)]),
                          static_cast<double>(span.ready - span.arrived) * 1e-3,
                          static_cast<double>(span.begin - span.ready) * 1e-3);
    }
    event(
        "{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"cat\":\"stage\",\"name\":{},\"ts\":{:.3f},\"dur\":{:.3f},"
        "\"args\":{{\"type\":{},\"stamp\":\"{}.{}\"{}}}}}",
        lane, json_text(node.name), micros(span.begin), static_cast<double>(span.end - span.begin) * 1e-3,
        json_text(node.type), span.stamp.sequence, span.stamp.step, waits);
  }

  /// An arrow leaves a span just before its end, where its packets were sent.
  void write_arrows() {
    std::uint64_t arrow = 0;
    for (std::size_t lane = 0; lane < trace_.lanes.size(); ++lane) {
      for (const StageSpan& span : trace_.lanes[lane].stages) {
        for (const std::uint64_t origin : span.origins) {
          const auto from = places_.find(origin);
          if (from != places_.end()) write_arrow(++arrow, from->second, {lane, &span});
        }
      }
    }
  }

  void write_arrow(std::uint64_t id, Place from, Place to) {
    constexpr auto kFormat =
        "{{\"ph\":\"{}\",\"pid\":1,\"tid\":{},\"cat\":\"packet\",\"name\":\"packet\",\"id\":{},\"ts\":{:.3f}{"
        "}}}";
    event(kFormat, 's', from.lane, id, micros(std::max(from.span->begin, from.span->end - 1)), "");
    event(kFormat, 'f', to.lane, id, micros(to.span->begin), ",\"bp\":\"e\"");
  }

  const Trace& trace_;
  std::unordered_map<std::uint64_t, Place> places_;
  std::string text_;
  bool first_ = true;
  int io_lanes_ = 0, compute_lanes_ = 0;
  std::size_t next_thread_;  // for rows of lanes
};

}  // namespace

std::string to_chrome(const Trace& trace) {
  return Writer(trace).write();
}

}  // namespace flow
