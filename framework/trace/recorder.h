// Recorder: what ran when, where, and what it had waited for.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/plan.h"
#include "framework/core/status.h"
#include "framework/core/telemetry.h"

namespace flow {

/// One invocation of a node. Times are nanoseconds of the steady clock.
struct StageSpan {
  std::uint64_t id = 0;  ///< 1, 2, ... in the order of starting
  int node = 0;          ///< index into GraphPlan::nodes
  Stamp stamp;
  std::int64_t arrived = 0;  ///< first packet came
  std::int64_t ready = 0;    ///< last packet came
  std::int64_t begin = 0, end = 0;
  int last_edge = -1;                  ///< index into NodePlan::inputs of the packet that came last
  std::vector<std::uint64_t> origins;  ///< spans that sent the packets
};

/// A scope that a stage or a service timed.
struct ScopeSpan {
  std::string owner, name;
  Executor kind = Executor::io;
  std::int64_t begin = 0, end = 0;
};

/// One row of the summary.
struct StageSummary {
  std::string name, type;
  std::uint64_t calls = 0;
  double total = 0, mean = 0, p95 = 0;  ///< seconds in the body
  double share = 0;                     ///< of the run's wall time; above 1 for bodies that run side by side
  double bytes = 0;                     ///< the stage's own total "bytes"
  double join_wait = 0;                 ///< seconds between an invocation's first packet and its last
  double queue_wait = 0;                ///< seconds between its last packet and its start
  std::string waited_for;               ///< "input from node": whose packets came last, by lost time
};

/// Time of reading against time of computing.
struct Overlap {
  double wall = 0;
  double compute = 0;  ///< seconds with at least one compute body running
  double io = 0;       ///< seconds with at least one I/O body or scope running
  double hidden = 0;   ///< seconds of both
  double exposed() const { return io - hidden; }
};

/// Everything a run's trace needs. One object for one run; thread-safe. Each thread writes to its own lane.
class Recorder final : public TelemetrySink {
 public:
  Recorder();
  ~Recorder() override;

  // Called by the runtime.
  void begin_run(const GraphPlan& plan);
  void end_run();
  std::uint64_t next_span();  ///< a fresh StageSpan::id
  void record(Executor executor, StageSpan span);

  // From stages and services, see Telemetry.
  void add(const std::string& owner, std::string_view name, double amount) override;
  void level(const std::string& owner, std::string_view name, double value) override;
  void span(const std::string& owner, std::string_view name, Executor kind, std::int64_t begin,
            std::int64_t end) override;

  /// Rows in the order of the graph; nodes that never ran included.
  std::vector<StageSummary> summary() const;
  Overlap overlap() const;
  /// Running totals of telemetry: "owner.name" and its sum.
  std::map<std::string, double> totals() const;
  /// summary(), overlap() and totals() as a table for people.
  std::string text() const;
  /// All stage spans, by start.
  std::vector<StageSpan> spans() const;
  /// Writes the Chrome trace event format (also read by Perfetto): a lane for each thread, spans with the
  /// nodes' names, arrows from a packet's sender to its use, curves of the levels.
  Status write_chrome(const std::string& path) const;

 private:
  struct Lane;
  struct Level {
    std::string name;
    std::int64_t time;
    double value;
  };
  Lane& lane(Executor kind);

  const std::uint64_t serial_;
  std::atomic<std::uint64_t> next_span_{1};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::string> names_, types_;
  std::vector<std::vector<std::string>> edges_;  ///< [node][edge] "input from node"
  std::map<std::string, double> totals_;
  std::vector<Level> levels_;
  std::int64_t begin_ = 0, end_ = 0;
};

}  // namespace flow
