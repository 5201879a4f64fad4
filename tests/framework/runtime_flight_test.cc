// What may be in flight at once: source invocations, turns of feedback loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/framework/test_graph.h"

namespace flow_test {
namespace {

using testing::ElementsAre;
using testing::Le;
using testing::UnorderedElementsAreArray;

/// Counts what is inside, and the most that ever was.
class Gauge {
 public:
  void enter() {
    const int now = ++inside_;
    int seen = most_;
    while (now > seen && !most_.compare_exchange_weak(seen, now)) {
    }
  }
  void leave() { --inside_; }
  int most() const { return most_; }

 private:
  std::atomic<int> inside_{0}, most_{0};
};

void nap() {
  std::this_thread::sleep_for(std::chrono::microseconds(300));
}

class InFlightLimit : public testing::TestWithParam<int> {};

TEST_P(InFlightLimit, BoundsTheSourceInvocationsThatAreAlive) {
  Gauge gauge;
  TestGraph graph;
  graph.runtime.max_in_flight = GetParam();
  graph.runtime.threads = 4;
  graph
      .add("source", {.process = [&](Context& context) -> Status {
             gauge.enter();
             send(context, 1);
             if (context.stamp().sequence == 39) context.finish();
             return {};
           }})
      .add("middle",
           {.process = [](Context& context) -> Status {
              nap();
              send(context, 1);
              return {};
            },
            .executor = Executor::io,
            .concurrency = 2},
           {{"in", "source.out"}})
      .add("sink",
           {.process = [&](Context&) -> Status {
              nap();
              gauge.leave();
              return {};
            },
            .outputs = {}},
           {{"in", "middle.out"}});
  ASSERT_TRUE(run(graph).ok());
  EXPECT_THAT(gauge.most(), Le(GetParam()));
  EXPECT_GE(gauge.most(), std::min(GetParam(), 2)) << "nothing overlapped";
}
INSTANTIATE_TEST_SUITE_P(Limits, InFlightLimit, testing::Values(1, 2, 4));

TEST(RuntimeFlight, FreesTheSourceWhenAStageSendsNothing) {
  Log<std::int64_t> log;
  TestGraph graph;
  graph.runtime.max_in_flight = 1;
  graph.add_counter("source", 10)
      .add("odd", {.process = [](Context& context) -> Status {
             if (value(context) % 2) send(context, value(context));
             return {};
           }},
           {{"in", "source.out"}})
      .add("sink", sink(log), {{"in", "odd.out"}});
  ASSERT_TRUE(run(graph).ok());
  EXPECT_THAT(log.items(), ElementsAre(1, 3, 5, 7, 9));
}

TEST(RuntimeFlight, NeverCallsASourceAgainAfterItFinished) {
  std::atomic<int> calls{0};
  TestGraph graph;
  graph.add("source", {.process = [&](Context& context) -> Status {
              ++calls;
              context.finish();
              return {};
            }});
  ASSERT_TRUE(run(graph).ok());
  EXPECT_EQ(calls, 1);
}

/// start -> loop -> work -> loop: the loop sends on what comes, with the next step, `turns` times.
Spec loop(int turns) {
  return {.process = [turns](Context& context) -> Status {
            const Stamp stamp = context.stamp();
            if (context.has(in("start"))) {
              send(context, value(context, "start"));
            } else if (stamp.step + 1 < static_cast<std::uint64_t>(turns)) {
              send_at(context, value(context, "next"), {stamp.sequence, stamp.step + 1});
            }
            return {};
          },
          .policy = InputPolicy::any};
}
const std::vector<Link> kLoopLinks = {{"start", "start.out"}, {"next", "work.out", true}};

TEST(RuntimeFlight, RunsAFeedbackLoopUntilItStopsSending) {
  Log<std::int64_t> log;
  TestGraph graph;
  graph.add_counter("start", 1)
      .add("loop", loop(5), kLoopLinks)
      .add("work", {.process = [&](Context& context) -> Status {
             log.add(value(context));
             send(context, value(context) + 10);
             return {};
           }},
           {{"in", "loop.out"}});
  ASSERT_TRUE(run(graph).ok());
  EXPECT_THAT(log.items(), ElementsAre(0, 10, 20, 30, 40));
}

TEST(RuntimeFlight, KeepsTwoSequencesInOneLoopApart) {
  Log<std::pair<std::uint64_t, std::int64_t>> log;
  TestGraph graph;
  graph.runtime.max_in_flight = 2;
  graph.runtime.threads = 3;
  graph.add_counter("start", 4)
      .add("loop", loop(20), kLoopLinks)
      .add("side",
           {.process = [](Context& context) -> Status {
              nap();
              send(context, value(context));
              return {};
            },
            .executor = Executor::io,
            .concurrency = 2},
           {{"in", "loop.out"}})
      .add("work",
           {.process = [&](Context& context) -> Status {
              EXPECT_EQ(value(context, "in"), value(context, "side"));
              log.add({context.stamp().sequence, value(context)});
              send(context, value(context) + 100);
              return {};
            },
            .concurrency = 2},
           {{"in", "loop.out"}, {"side", "side.out"}});
  const Status status = run(graph);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<std::pair<std::uint64_t, std::int64_t>> expected;
  for (std::uint64_t sequence = 0; sequence < 4; ++sequence) {
    for (std::int64_t turn = 0; turn < 20; ++turn) {
      expected.emplace_back(sequence, static_cast<std::int64_t>(sequence) + 100 * turn);
    }
  }
  EXPECT_THAT(log.items(), UnorderedElementsAreArray(expected));
}

TEST(RuntimeFlight, LetsALoopRunAheadOfASlowReaderByALimitedNumberOfTurns) {
  for (const int limit : {1, 3}) {
    Gauge turns;
    Log<std::int64_t> read;
    TestGraph graph;
    graph.runtime.max_in_flight = limit;
    graph.runtime.threads = 3;
    graph.add_counter("start", 1)
        .add("loop", loop(30), kLoopLinks)
        .add("work", {.process = [&](Context& context) -> Status {
               turns.enter();
               send(context, value(context) + 1);
               return {};
             }},
             {{"in", "loop.out"}})
        .add("reader",
             {.process = [&](Context& context) -> Status {
                nap();
                read.add(value(context));
                turns.leave();
                return {};
              },
              .outputs = {}},
             {{"in", "work.out"}});
    ASSERT_TRUE(run(graph).ok());
    EXPECT_EQ(read.size(), 30u);
    EXPECT_THAT(turns.most(), Le(limit + 1));  // those that are alive, and the one that starts
  }
}

TEST(RuntimeFlight, DoesNotStopALoopWhoseTurnsWaitForALaterOne) {
  // "pair" joins turn n with what turn n + 3 sends back to it, so that four turns must be alive at once.
  TestGraph graph;
  graph.runtime.max_in_flight = 2;
  std::atomic<int> pairs{0};
  graph.add_counter("start", 1)
      .add("loop", loop(8), kLoopLinks)
      .add("work",
           {.process = [](Context& context) -> Status {
              const Stamp stamp = context.stamp();
              send(context, value(context));
              if (stamp.step >= 3) send_at(context, value(context), {stamp.sequence, stamp.step - 3}, "late");
              return {};
            },
            .outputs = {"out", "late"}},
           {{"in", "loop.out"}})
      .add("early", {.process = [](Context& context) -> Status {
             if (context.stamp().step < 5) send(context, value(context));
             return {};
           }},
           {{"in", "loop.out"}})
      .add("pair",
           {.process = [&](Context&) -> Status {
              ++pairs;
              return {};
            },
            .outputs = {}},
           {{"a", "early.out"}, {"b", "work.late"}});
  const Status status = run(graph);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(pairs, 5);
}

TEST(RuntimeFlight, HoldsEverySourceThatAJoinDependsOn) {
  Gauge gauge;
  TestGraph graph;
  graph.runtime.max_in_flight = 1;
  const auto source = [&](bool counts) {
    return Spec{.process = [&gauge, counts](Context& context) -> Status {
      if (counts) gauge.enter();
      send(context, 1);
      if (context.stamp().sequence == 9) context.finish();
      return {};
    }};
  };
  graph.add("a", source(false))
      .add("b", source(true))
      .add("join", {.process = [](Context& context) -> Status {
             send(context, 1);
             return {};
           }},
           {{"a", "a.out"}, {"b", "b.out"}})
      .add("sink",
           {.process = [&](Context&) -> Status {
              nap();
              gauge.leave();
              return {};
            },
            .outputs = {}},
           {{"in", "join.out"}});
  ASSERT_TRUE(run(graph).ok());
  EXPECT_EQ(gauge.most(), 1);
}

}  // namespace
}  // namespace flow_test
