#include "framework/core/parallel.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <atomic>

#include "framework/runtime/workers.h"

namespace flow {

/// One parallel_for. The atomics order the slices with the caller also in the eyes of ThreadSanitizer,
/// which does not see how an uninstrumented library hands tasks over.
struct ParallelLoop {
  const std::int64_t count, slices;
  const RangeBody& body;
  std::atomic<std::int64_t> done{0};

  void run(std::int64_t begin, std::int64_t end) {
    done.load(std::memory_order_acquire);
    for (std::int64_t i = begin; i < end; ++i) body({i * count / slices, (i + 1) * count / slices});
    done.fetch_add(end - begin, std::memory_order_release);
  }
};

/// What the library copies from thread to thread. Has external linkage for the sake of its name in tools.
struct ParallelTask {
  ParallelLoop* loop;
  void operator()(const tbb::blocked_range<std::int64_t>& range) const {
    loop->run(range.begin(), range.end());
  }
};

static void run_slices(std::int64_t count, std::int64_t slices, const RangeBody& body) {
  ParallelLoop loop{count, slices, body};
  loop.done.store(0, std::memory_order_release);
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, slices, 1), ParallelTask{&loop},
                      tbb::simple_partitioner());
  });
  loop.done.load(std::memory_order_acquire);
}

/// A loop that a thread outside the arena asks for: a worker may start it in that thread's place. Ordered and
/// named for the same reasons.
struct ArenaLoop {
  const std::int64_t count, slices;
  const RangeBody& body;
  mutable std::atomic<bool> ended{false};

  void operator()() const {
    ended.load(std::memory_order_acquire);
    run_slices(count, slices, body);
    ended.store(true, std::memory_order_release);
  }
};

namespace {

constexpr std::int64_t kSlicesPerThread = 4;  // lets a fast thread take over from a slow one

thread_local tbb::task_arena* current_arena = nullptr;
thread_local std::atomic<std::uint64_t>* current_beats = nullptr;

bool is_worker() {
  return tbb::this_task_arena::current_thread_index() != tbb::task_arena::not_initialized;
}

/// For callers outside any run.
tbb::task_arena& default_arena() {
  static tbb::task_arena arena;
  return arena;
}

tbb::task_arena& home() {
  return current_arena ? *current_arena : default_arena();
}

}  // namespace

WorkerScope::WorkerScope(tbb::task_arena& arena, std::atomic<std::uint64_t>& beats)
    : outer_arena_(current_arena), outer_beats_(current_beats) {
  current_arena = &arena;
  current_beats = &beats;
}

WorkerScope::~WorkerScope() {
  current_arena = outer_arena_;
  current_beats = outer_beats_;
}

int parallelism() {
  return is_worker() ? tbb::this_task_arena::max_concurrency() : home().max_concurrency();
}

void heartbeat() {
  if (current_beats) current_beats->fetch_add(1, std::memory_order_relaxed);
}

void parallel_for(std::int64_t count, std::int64_t grain, const RangeBody& body) {
  if (count <= 0) return;
  heartbeat();
  const int threads = parallelism();
  const std::int64_t slices =
      std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, kSlicesPerThread * threads);
  if (slices == 1 || threads == 1) return body({0, count});
  if (is_worker()) return run_slices(count, slices, body);
  ArenaLoop loop{count, slices, body};
  loop.ended.store(false, std::memory_order_release);
  home().execute(loop);
  loop.ended.load(std::memory_order_acquire);
}

}  // namespace flow
