// Summaries of a trace: time per stage, waiting, reading against computing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/trace/recorder.h"

namespace flow {

/// One stage. Times are in seconds.
struct StageSummary {
  std::string name, type;
  std::uint64_t calls = 0;
  double total = 0, mean = 0, p95 = 0;  ///< in the body
  double share = 0;                     ///< of the run's time; above 1 for bodies that run side by side
  double bytes = 0;                     ///< the stage's telemetry total "bytes"
  double join_wait = 0;                 ///< between the first packet of an invocation and its last
  double queue_wait = 0;                ///< between the last packet and the start
  std::string waited_for;               ///< "input from node" that cost most of join_wait; may be empty
};

/// Rows in the order of the graph; nodes that never ran included.
std::vector<StageSummary> summarize(const Trace& trace);

/// Time of reading against time of computing, in seconds.
struct Overlap {
  double wall = 0;
  double compute = 0;  ///< at least one compute body runs, and is not waiting in an I/O scope
  double io = 0;       ///< at least one I/O body or scope runs
  double hidden = 0;   ///< both
  double exposed() const { return io - hidden; }
};

Overlap overlap(const Trace& trace);

/// The same trace with the copies of a repeated stage as one node: layers.0.gate, layers.1.gate, ... become
/// layers.*.gate, and their totals are summed.
Trace grouped(const Trace& trace);

/// Everything as a table for people: a line for each group of stages that ran, most time first, then
/// overlap and totals; "hits" and "misses" of one owner also as a rate.
std::string summary_text(const Trace& trace);

}  // namespace flow
