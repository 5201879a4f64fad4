#include "framework/core/parallel.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <atomic>

#include "framework/runtime/workers.h"

namespace flow {
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

/// The atomics order the slices with the caller: ThreadSanitizer cannot see how the library hands tasks
/// over when the library is not instrumented.
void run_slices(std::int64_t count, std::int64_t slices, const std::function<void(Range)>& body) {
  std::atomic<std::int64_t> done{0};
  const auto run = [&](const tbb::blocked_range<std::int64_t>& range) {
    done.load(std::memory_order_acquire);
    for (std::int64_t i = range.begin(); i < range.end(); ++i) {
      body({i * count / slices, (i + 1) * count / slices});
    }
    done.fetch_add(range.end() - range.begin(), std::memory_order_release);
  };
  done.store(0, std::memory_order_release);
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, slices, 1), run, tbb::simple_partitioner());
  });
  done.load(std::memory_order_acquire);
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

void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(Range)>& body) {
  if (count <= 0) return;
  if (current_beats) current_beats->fetch_add(1, std::memory_order_relaxed);
  const int threads = parallelism();
  const std::int64_t slices =
      std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, kSlicesPerThread * threads);
  if (slices == 1 || threads == 1) return body({0, count});
  if (is_worker()) return run_slices(count, slices, body);
  home().execute([&] { run_slices(count, slices, body); });
}

}  // namespace flow
