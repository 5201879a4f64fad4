// Which compute workers the calling thread belongs to. For the runtime and parallel_for only.
#pragma once

#include <oneapi/tbb/task_arena.h>

#include <atomic>
#include <cstdint>

namespace flow {

/// While alive, parallel_for on this thread uses `arena`, and each call of it adds to `beats`, so that the
/// watchdog sees a long body work.
class WorkerScope {
 public:
  WorkerScope(tbb::task_arena& arena, std::atomic<std::uint64_t>& beats);
  ~WorkerScope();
  WorkerScope(const WorkerScope&) = delete;
  WorkerScope& operator=(const WorkerScope&) = delete;

 private:
  tbb::task_arena* const outer_arena_;
  std::atomic<std::uint64_t>* const outer_beats_;
};

}  // namespace flow
