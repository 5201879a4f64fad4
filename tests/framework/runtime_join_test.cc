// When a stage runs, with which packets, in which order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/framework/test_graph.h"

namespace flow_test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<std::int64_t> numbers(std::int64_t count) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(i);
  return all;
}

/// Passes its input on.
Spec relay() {
  return {.process = [](Context& context) -> Status {
    send(context, value(context));
    return {};
  }};
}

/// Sleeps longer the smaller the number, so that numbers leave in another order than they came.
Spec reversing_relay() {
  return {.process = [](Context& context) -> Status {
            const std::int64_t n = value(context);
            std::this_thread::sleep_for(std::chrono::milliseconds(2 * (4 - n % 4)));
            send(context, n);
            return {};
          },
          .executor = Executor::io,
          .concurrency = 4};
}

TEST(RuntimeJoin, RunsAStageOnceForEachPacketOfItsOnlyInput) {
  Log<std::int64_t> log;
  TestGraph graph;
  graph.add_counter("source", 100).add("sink", sink(log), {{"in", "source.out"}});
  const Status status = run(graph);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(log.items(), ElementsAreArray(numbers(100)));
}

TEST(RuntimeJoin, JoinsPacketsOfEqualStampWhicheverComesFirst) {
  Log<std::int64_t> log;
  TestGraph graph;
  graph.runtime.io_threads = 4;
  graph.add_counter("source", 64)
      .add("reversed", reversing_relay(), {{"in", "source.out"}})
      .add("join",
           {.process = [&](Context& context) -> Status {
              EXPECT_EQ(value(context, "a"), value(context, "b"));
              EXPECT_EQ(value(context, "a"), static_cast<std::int64_t>(context.stamp().sequence));
              log.add(value(context, "a"));
              return {};
            },
            .outputs = {}},
           {{"a", "source.out"}, {"b", "reversed.out"}});
  const Status status = run(graph);
  ASSERT_TRUE(status.ok()) << status.message();
  auto seen = log.items();
  EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end())) << "the test did not reorder anything";
  std::sort(seen.begin(), seen.end());
  EXPECT_THAT(seen, ElementsAreArray(numbers(64)));
}

TEST(RuntimeJoin, GivesManyInputsInTheOrderOfTheirEdges) {
  TestGraph graph;
  Log<std::vector<std::int64_t>> log;
  const auto times = [](std::int64_t factor) {
    return Spec{.process = [factor](Context& context) -> Status {
      send(context, factor * value(context));
      return {};
    }};
  };
  graph.add_counter("source", 20)
      .add("slow", reversing_relay(), {{"in", "source.out"}})
      .add("ten", times(10), {{"in", "slow.out"}})
      .add("hundred", times(100), {{"in", "source.out"}})
      .add("join",
           {.process = [&](Context& context) -> Status {
              std::vector<std::int64_t> values;
              for (const Number* n : context.in(many_in("parts"))) values.push_back(n->value);
              log.add(std::move(values));
              return {};
            },
            .outputs = {}},
           {{"parts", "hundred.out"}, {"parts", "ten.out"}, {"parts", "source.out"}});
  ASSERT_TRUE(run(graph).ok());
  ASSERT_EQ(log.size(), 20u);
  for (const auto& parts : log.items()) {
    ASSERT_EQ(parts.size(), 3u);
    EXPECT_THAT(parts, ElementsAre(100 * parts[2], 10 * parts[2], parts[2]));
  }
}

TEST(RuntimeJoin, LeavesAnUnconnectedOptionalInputEmpty) {
  TestGraph graph;
  Log<bool> log;
  graph.add_counter("source", 3)
      .add("stage",
           {.process = [&](Context& context) -> Status {
              log.add(context.has(optional_in("extra")));
              EXPECT_EQ(context.in(optional_in("extra")), nullptr);
              return {};
            },
            .outputs = {},
            .optional_inputs = {"extra"}},
           {{"in", "source.out"}});
  ASSERT_TRUE(run(graph).ok());
  EXPECT_THAT(log.items(), ElementsAre(false, false, false));
}

TEST(RuntimeJoin, TellsUnderPolicyAnyWhichInputCame) {
  TestGraph graph;
  Log<std::string> log;
  graph.add_counter("a", 2).add_counter("b", 3).add("any",
                                                    {.process = [&](Context& context) -> Status {
                                                       EXPECT_NE(context.has(in("a")), context.has(in("b")));
                                                       log.add(context.has(in("a")) ? "a" : "b");
                                                       return {};
                                                     },
                                                     .outputs = {},
                                                     .policy = InputPolicy::any},
                                                    {{"a", "a.out"}, {"b", "b.out"}});
  ASSERT_TRUE(run(graph).ok());
  EXPECT_THAT(log.items(), UnorderedElementsAre("a", "a", "b", "b", "b"));
}

TEST(RuntimeJoin, GivesOnePacketToEveryConsumer) {
  Log<std::int64_t> first, second;
  TestGraph graph;
  graph.add_counter("source", 10)
      .add("first", sink(first), {{"in", "source.out"}})
      .add("second", sink(second), {{"in", "source.out"}});
  ASSERT_TRUE(run(graph).ok());
  EXPECT_THAT(first.items(), ElementsAreArray(numbers(10)));
  EXPECT_THAT(second.items(), ElementsAreArray(numbers(10)));
}

TEST(RuntimeJoin, KeepsOrderThroughSerialStagesOnAnyThreads) {
  Log<std::int64_t> log;
  TestGraph graph;
  graph.runtime.threads = 4;
  Spec io_relay = relay();
  io_relay.executor = Executor::io;
  graph.add_counter("source", 500)
      .add("compute", relay(), {{"in", "source.out"}})
      .add("io", io_relay, {{"in", "compute.out"}})
      .add("again", relay(), {{"in", "io.out"}})
      .add("sink", sink(log), {{"in", "again.out"}});
  ASSERT_TRUE(run(graph).ok());
  EXPECT_THAT(log.items(), ElementsAreArray(numbers(500)));
}

TEST(RuntimeJoin, NeverRunsASerialStageTwiceAtOnce) {
  for (const Executor executor : {Executor::compute, Executor::io}) {
    std::atomic<int> inside{0}, most{0};
    TestGraph graph;
    graph.runtime.threads = 4;
    graph.runtime.io_threads = 4;
    graph.add_counter("source", 50)
        .add("serial",
             {.process = [&](Context&) -> Status {
                most = std::max<int>(most, ++inside);
                std::this_thread::sleep_for(std::chrono::microseconds(200));
                --inside;
                return {};
              },
              .outputs = {},
              .executor = executor},
             {{"in", "source.out"}});
    ASSERT_TRUE(run(graph).ok());
    EXPECT_EQ(most, 1);
  }
}

TEST(RuntimeJoin, RunsAConcurrentStageAsOftenAtOnceAsItAllows) {
  for (const Executor executor : {Executor::compute, Executor::io}) {
    std::atomic<int> inside{0};
    Latch both;
    TestGraph graph;
    graph.runtime.threads = 3;
    graph.add_counter("source", 2)
        .add("pair",
             {.process = [&](Context&) -> Status {
                if (++inside == 2) both.open();
                EXPECT_TRUE(both.wait());
                return {};
              },
              .outputs = {},
              .executor = executor,
              .concurrency = 2},
             {{"in", "source.out"}});
    ASSERT_TRUE(run(graph).ok());
    EXPECT_EQ(inside, 2);
  }
}

TEST(RuntimeJoin, NamesTheStageAndTheInputOfAJoinThatStarves) {
  TestGraph graph;
  graph.add_counter("numbers", 4)
      .add("even", {.process = [](Context& context) -> Status {
             if (value(context) != 3) send(context, value(context));
             return {};
           }},
           {{"in", "numbers.out"}})
      .add("join", {.process = [](Context&) { return Status(); }, .outputs = {}},
           {{"a", "numbers.out"}, {"b", "even.out"}});
  EXPECT_EQ(run(graph).message(),
            "test.yaml:3:5: stage 'join' (Test): waits for input 'b' from stage 'even', which sent nothing "
            "for stamp 3.0; edge numbers.out -> join.a holds 1");
}

TEST(RuntimeJoin, RefusesTwoPacketsOfOneStampForAJoin) {
  TestGraph graph;
  graph.add_counter("numbers", 1)
      .add("twice", {.process = [](Context& context) -> Status {
             send(context, 1);
             send(context, 2);
             return {};
           }},
           {{"in", "numbers.out"}})
      .add("late",
           {.process = [](Context& context) -> Status {
              while (!context.cancelled()) std::this_thread::yield();
              return {};
            },
            .executor = Executor::io},
           {{"in", "numbers.out"}})
      .add("join", {.process = [](Context&) { return Status(); }, .outputs = {}},
           {{"a", "late.out"}, {"b", "twice.out"}});
  EXPECT_EQ(
      run(graph).message(),
      "test.yaml:4:5: stage 'join' (Test): edge twice.out -> join.b: carries a second packet for stamp 0.0");
}

TEST(RuntimeJoin, RefusesAnOutputThatIsNotDeclared) {
  TestGraph graph;
  graph.add("source", {.process = [](Context& context) -> Status {
              send(context, 1, "other");
              return {};
            }});
  EXPECT_THAT(run(graph).message(), HasSubstr("stage 'source' (Test): emits on an output"));
}

TEST(RuntimeJoin, RefusesAFloodThatAConsumerCannotFollow) {
  TestGraph graph;
  graph
      .add("flood", {.process = [](Context& context) -> Status {
             for (int i = 0; i < 10000; ++i) send(context, i);
             context.finish();
             return {};
           }})
      .add("slow",
           {.process = [](Context& context) -> Status {
              while (!context.cancelled()) std::this_thread::yield();
              return {};
            },
            .outputs = {}},
           {{"in", "flood.out"}});
  EXPECT_THAT(run(graph).message(), HasSubstr("stage 'slow' (Test): edge flood.out -> slow.in: holds 4096"));
}

}  // namespace
}  // namespace flow_test
