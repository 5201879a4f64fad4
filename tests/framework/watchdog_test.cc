// What happens when nothing happens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "framework/core/parallel.h"
#include "framework/testing/stage_runner.h"
#include "tests/framework/test_graph.h"

namespace flow_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

constexpr double kLimit = 0.15;  // seconds
constexpr double kPatience = 1;  // of runs that go on for longer in small steps: a busy machine may pause one

/// Hangs until it is told to return; destroyed after the run has let go of it.
struct Hang {
  Latch entered, release, destroyed;
  Spec spec(Executor executor) {
    return {.process = [this](Context& context) -> Status {
              entered.open();
              release.wait();
              context.console().note("late word");
              send(context, 1);
              return {};
            },
            .executor = executor,
            .destroy = [this] { destroyed.open(); }};
  }
  ~Hang() {
    release.open();
    destroyed.wait();
  }
};

class HungBody : public testing::TestWithParam<std::tuple<Executor, int>> {};

TEST_P(HungBody, IsNamedAndLeftBehind) {
  const auto [executor, threads] = GetParam();
  TestGraph graph;
  Hang hang;
  graph.runtime.watchdog = kLimit;
  graph.runtime.threads = threads;
  graph.add_counter("source", 1)
      .add("hung", hang.spec(executor), {{"in", "source.out"}})
      .add("join", {.process = [](Context&) { return Status(); }, .outputs = {}},
           {{"a", "source.out"}, {"b", "hung.out"}});
  const auto begin = Clock::now();
  flow::Runner runner(graph.plan(), {});
  const Status status = runner.run();
  EXPECT_TRUE(runner.left_behind());
  EXPECT_LT(Clock::now() - begin, 5s);
  EXPECT_EQ(status.message(),
            "test.yaml:2:5: stage 'hung' (Test): no progress for 0.15 s; in its body: 'hung' with stamp 0.0; "
            "stage 'join' waits for input 'b' from stage 'hung', which sent nothing for stamp 0.0; edge "
            "source.out -> join.a holds 1");
  // The process goes on.
  Log<std::int64_t> log;
  TestGraph next;
  next.add_counter("source", 10).add("sink", sink(log), {{"in", "source.out"}});
  EXPECT_TRUE(run(next).ok());
  EXPECT_EQ(log.size(), 10u);
}
INSTANTIATE_TEST_SUITE_P(Executors, HungBody,
                         testing::Combine(testing::Values(Executor::compute, Executor::io),
                                          testing::Values(1, 3)),
                         [](const auto& test) {
                           return fmt::format("{}_with_{}_threads",
                                              std::get<0>(test.param) == Executor::io ? "io" : "compute",
                                              std::get<1>(test.param));
                         });

TEST(Watchdog, ClosesEverythingWhenTheBodyReturnsOnRequest) {
  std::atomic<bool> closed{false};
  TestGraph graph;
  graph.runtime.watchdog = kLimit;
  graph.add("stuck", {.process = [](Context& context) -> Status {
                        while (!context.cancelled()) std::this_thread::sleep_for(1ms);
                        return {};
                      },
                      .close = [&]() -> Status {
                        closed = true;
                        return {};
                      }});
  flow::Runner runner(graph.plan(), {});
  EXPECT_THAT(runner.run().message(), HasSubstr("stage 'stuck' (Test): no progress for 0.15 s"));
  EXPECT_FALSE(runner.left_behind());
  EXPECT_TRUE(closed);
}

TEST(Watchdog, LetsARunGoOnWhileBodiesStartAndEnd) {
  TestGraph graph;
  graph.runtime.watchdog = kPatience;
  graph.runtime.max_in_flight = 1;
  graph.add_counter("source", 40)
      .add("slow",
           {.process = [](Context&) -> Status {
              std::this_thread::sleep_for(30ms);
              return {};
            },
            .outputs = {}},
           {{"in", "source.out"}});
  const Status status = run(graph);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Watchdog, TakesParallelForInALongBodyAsASignOfLife) {
  TestGraph graph;
  graph.runtime.watchdog = kPatience;
  graph.add("long", {.process = [](Context& context) -> Status {
              for (int i = 0; i < 60; ++i) {
                std::this_thread::sleep_for(20ms);
                flow::parallel_for(8, 1, [](flow::Range) {});
              }
              context.finish();
              return {};
            }});
  const Status status = run(graph);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Watchdog, SaysWhatRunsWhenTheRunIsSilentForASecond) {
  const auto console = std::make_shared<flow::CapturingConsole>();
  TestGraph graph;
  graph.add("slow", {.process = [](Context& context) -> Status {
              std::this_thread::sleep_for(2500ms);
              context.finish();
              return {};
            }});
  flow::Runner runner(graph.plan(), {.console = console});
  ASSERT_TRUE(runner.run().ok());
  EXPECT_THAT(console->notes(), testing::StartsWith("running: slow\n"));
}

TEST(Watchdog, DoesNotWatchOpening) {
  TestGraph graph;
  graph.runtime.watchdog = kLimit;
  graph.add("slow to open", {.process = [](Context& context) -> Status {
                               context.finish();
                               return {};
                             },
                             .open = [](const flow::Opening&) -> Status {
                               std::this_thread::sleep_for(400ms);
                               return {};
                             }});
  const Status status = run(graph);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Watchdog, CanBeTurnedOff) {
  TestGraph graph;
  graph.runtime.watchdog = 0;
  graph.add("slow", {.process = [](Context& context) -> Status {
              std::this_thread::sleep_for(300ms);
              context.finish();
              return {};
            }});
  EXPECT_TRUE(run(graph).ok());
}

TEST(Watchdog, NamesTheBodyThatDoesNotReturnAfterACancellation) {
  TestGraph graph;
  Hang hang;
  graph.runtime.watchdog = kLimit;
  graph.add("hung", hang.spec(Executor::io));
  flow::Runner runner(graph.plan(), {});
  std::thread canceller([&] {
    hang.entered.wait();
    runner.cancel();
  });
  const Status status = runner.run();
  canceller.join();
  EXPECT_THAT(status.message(), HasSubstr("stage 'hung' (Test): no progress for 0.15 s"));
  EXPECT_TRUE(runner.cancelled());
}

}  // namespace
}  // namespace flow_test
