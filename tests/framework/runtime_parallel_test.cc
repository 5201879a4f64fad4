// parallel_for: inside and outside of runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <thread>

#include "framework/core/parallel.h"
#include "tests/framework/test_graph.h"

namespace flow_test {
namespace {

using flow::parallel_for;
using flow::Range;

struct Case {
  std::int64_t count, grain;
};
class ParallelFor : public testing::TestWithParam<Case> {};

TEST_P(ParallelFor, CoversEachIndexOnceInSlicesOfAtLeastTheGrain) {
  const auto [count, grain] = GetParam();
  std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
  Log<std::int64_t> sizes;
  parallel_for(count, grain, [&](Range range) {
    sizes.add(range.size());
    for (auto i = range.begin; i < range.end; ++i) ++hits[static_cast<std::size_t>(i)];
  });
  for (std::size_t i = 0; i < hits.size(); ++i) ASSERT_EQ(hits[i], 1) << "index " << i;
  for (const auto size : sizes.items()) EXPECT_GE(size, std::min(grain, count));
}
INSTANTIATE_TEST_SUITE_P(Sizes, ParallelFor,
                         testing::Values(Case{0, 1}, Case{1, 1}, Case{7, 3}, Case{7, 100}, Case{1000, 1},
                                         Case{1000, 64}, Case{65536, 1000}, Case{3, 0}));

/// Runs `body` in a stage of a graph with `threads` compute threads.
void run_in_stage(int threads, Executor executor, const std::function<void()>& body) {
  TestGraph graph;
  graph.runtime.threads = threads;
  graph.add("stage", {.process = [&](Context& context) -> Status {
                        body();
                        context.finish();
                        return {};
                      },
                      .executor = executor});
  const Status status = run(graph);
  ASSERT_TRUE(status.ok()) << status.message();
}

TEST(ParallelForInRun, UsesAsManyThreadsAsTheGraphAllows) {
  for (const Executor executor : {Executor::compute, Executor::io}) {
    for (const int threads : {1, 2, 4}) {
      run_in_stage(threads, executor, [&] {
        EXPECT_EQ(flow::parallelism(), threads);
        std::mutex mutex;
        std::set<std::thread::id> seen;
        std::atomic<int> inside{0}, most{0};
        parallel_for(64, 1, [&](Range) {
          most = std::max<int>(most, ++inside);
          std::this_thread::sleep_for(std::chrono::microseconds(300));
          --inside;
          const std::lock_guard lock(mutex);
          seen.insert(std::this_thread::get_id());
        });
        EXPECT_LE(seen.size(), static_cast<std::size_t>(threads) + (executor == Executor::io ? 1 : 0));
        EXPECT_LE(most, threads);
      });
    }
  }
}

TEST(ParallelForInRun, TakesNoOtherBodyMeanwhile) {
  // While "outer" waits for its slices, its thread must not start "inner".
  thread_local bool inside = false;
  std::atomic<int> nested{0};
  TestGraph graph;
  graph.runtime.threads = 2;
  graph.add_counter("source", 50)
      .add("outer",
           {.process = [&](Context&) -> Status {
              inside = true;
              parallel_for(16, 1, [](Range) { std::this_thread::sleep_for(std::chrono::microseconds(50)); });
              inside = false;
              return {};
            },
            .outputs = {}},
           {{"in", "source.out"}})
      .add("inner",
           {.process = [&](Context&) -> Status {
              if (inside) ++nested;
              return {};
            },
            .outputs = {}},
           {{"in", "source.out"}});
  ASSERT_TRUE(run(graph).ok());
  EXPECT_EQ(nested, 0);
}

TEST(ParallelForInRun, CanBeNested) {
  run_in_stage(3, Executor::compute, [] {
    std::atomic<std::int64_t> sum{0};
    parallel_for(20, 1, [&](Range outer) {
      for (auto i = outer.begin; i < outer.end; ++i) {
        parallel_for(50, 1, [&](Range inner) { sum += inner.size(); });
      }
    });
    EXPECT_EQ(sum, 1000);
  });
}

TEST(ParallelForInRun, SeesWhatTheCallerWroteAndShowsWhatTheSlicesWrote) {
  run_in_stage(4, Executor::compute, [] {
    std::vector<std::int64_t> from(10000), to(10000);
    for (int round = 0; round < 50; ++round) {
      std::iota(from.begin(), from.end(), round);
      parallel_for(10000, 16, [&](Range range) {
        for (auto i = range.begin; i < range.end; ++i) {
          to[static_cast<std::size_t>(i)] = from[static_cast<std::size_t>(i)];
        }
      });
      ASSERT_EQ(from, to);
    }
  });
}

}  // namespace
}  // namespace flow_test
