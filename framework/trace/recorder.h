// Recorder: collects what ran when, where, and what it had waited for.
#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/plan.h"
#include "framework/core/telemetry.h"

namespace flow {

/// One invocation of a node. Times are nanoseconds of the steady clock.
struct StageSpan {
  std::uint64_t id = 0;  ///< 1, 2, ... in the order of starting
  int node = 0;          ///< index into Trace::nodes
  Stamp stamp;
  std::int64_t arrived = 0;  ///< the first packet came; 0 for a source
  std::int64_t ready = 0;    ///< the last packet came; 0 for a source
  std::int64_t begin = 0, end = 0;
  int last_edge = -1;  ///< index into TracedNode::edges of the packet that came last
  boost::container::small_vector<std::uint64_t, 4> origins;  ///< ids of the spans that sent the packets
};

/// A scope that a stage or a service timed.
struct ScopeSpan {
  std::string owner, name;
  Executor kind = Executor::io;
  std::int64_t begin = 0, end = 0;
};

/// What one thread did, in the order of ending.
struct TraceLane {
  Executor executor = Executor::compute;  ///< of its last body; of its scopes when it ran none
  std::vector<StageSpan> stages;
  std::vector<ScopeSpan> scopes;
};

/// One point of a curve.
struct TraceLevel {
  std::string name;  ///< "owner.level"
  std::int64_t time = 0;
  double value = 0;
};

struct TracedNode {
  std::string name, type;
  Executor executor = Executor::compute;
  std::vector<std::string> edges;  ///< "input from node"
};

/// A finished recording.
struct Trace {
  std::vector<TracedNode> nodes;
  std::vector<TraceLane> lanes;
  std::vector<TraceLevel> levels;
  std::map<std::string, double> totals;  ///< "owner.name"
  std::int64_t begin = 0, end = 0;       ///< of the flow graph's run
  double seconds() const { return static_cast<double>(end - begin) * 1e-9; }
};

/// Bytes of the process that are in memory; 0 where the system does not tell.
std::uint64_t resident_memory();

/// One object for one run. Thread-safe; each thread writes to a lane of its own. The level "process.memory"
/// is the resident memory of the process, taken a hundred times a second while stages run.
class Recorder final : public TelemetrySink {
 public:
  Recorder();
  ~Recorder() override;

  // Called by the runtime.
  void begin_run(const GraphPlan& plan);
  void end_run();
  std::uint64_t next_span() { return next_span_.fetch_add(1, std::memory_order_relaxed); }
  void record(Executor executor, StageSpan span);

  // Called through Telemetry.
  void add(const std::string& owner, std::string_view name, double amount) override;
  void level(const std::string& owner, std::string_view name, double value) override;
  void span(const std::string& owner, std::string_view name, Executor kind, std::int64_t begin,
            std::int64_t end) override;

  /// A copy of what has been recorded. Of a run that has not ended, what there is until now.
  Trace trace() const;

 private:
  struct Lane;
  Lane& lane(Executor kind);
  void sample_memory(std::int64_t now);

  const std::uint64_t serial_;
  std::atomic<std::uint64_t> next_span_{1};
  mutable std::mutex mutex_;  // of all below
  std::vector<std::unique_ptr<Lane>> lanes_;
  Trace trace_;  // but for what the lanes hold
  std::atomic<std::int64_t> memory_due_{0};
};

}  // namespace flow
