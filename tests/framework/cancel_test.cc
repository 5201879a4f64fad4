// Cancelling a run at every state, and running again in the same process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "framework/runtime/control.h"
#include "tests/framework/test_graph.h"

namespace flow_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// A graph that runs for ever, and calls hooks at its states.
class CancelAt : public testing::TestWithParam<std::string> {};

/// Whether the same graph, shortened, runs to its end afterwards.
void expect_next_run_succeeds() {
  Log<std::int64_t> log;
  TestGraph graph;
  graph.add_counter("source", 10).add("sink", sink(log), {{"in", "source.out"}});
  const Status status = run(graph);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(log.size(), 10u);
}

TEST_P(CancelAt, EndsAtOnceClosesAllAndCanRunAgain) {
  const std::string state = GetParam();
  flow::Runner* runner = nullptr;
  std::atomic<int> opened{0}, closed{0}, bodies_after{0};
  const auto reach = [&](const std::string& name) {
    if (name == state) runner->cancel();
  };
  const auto stage = [&](const std::string& name, Body body, Executor executor, InputPolicy policy) {
    Spec spec{.process = [&, name, body](Context& context) -> Status {
                if (context.cancelled()) ++bodies_after;
                reach("body of " + name);
                return body(context);
              },
              .policy = policy,
              .executor = executor};
    spec.open = [&, name](const flow::Opening& opening) -> Status {
      ++opened;
      reach("open of " + name);
      EXPECT_EQ(opening.cancelled(), state == "open of " + name);
      return {};
    };
    spec.close = [&, name]() -> Status {
      ++closed;
      reach("close of " + name);
      return {};
    };
    return spec;
  };
  const auto pass = [](Context& context) -> Status {
    send(context, 1);
    return {};
  };
  const auto turn = [](Context& context) -> Status {
    send_at(context, 1, {context.stamp().sequence, context.stamp().step + 1});
    return {};
  };
  TestGraph graph;
  graph.add("source", stage("source", pass, Executor::compute, InputPolicy::all))
      .add("loop", stage("loop", turn, Executor::compute, InputPolicy::any),
           {{"start", "source.out"}, {"next", "io.out", true}})
      .add("io", stage("io", pass, Executor::io, InputPolicy::all), {{"in", "loop.out"}});
  flow::Runner owner(graph.plan(), {});
  runner = &owner;
  reach("start");
  std::thread later([&] {
    if (state != "some time") return;
    std::this_thread::sleep_for(20ms);
    owner.cancel();
  });
  const auto begin = Clock::now();
  const Status status = owner.run();
  later.join();
  EXPECT_EQ(status.message(), "the run was cancelled");
  EXPECT_TRUE(owner.cancelled());
  EXPECT_LT(Clock::now() - begin, 5s);
  EXPECT_EQ(opened, closed);
  EXPECT_LE(bodies_after, 2)
      << "only the bodies that the other two stages had begun may see the cancellation";
  expect_next_run_succeeds();
}

INSTANTIATE_TEST_SUITE_P(States, CancelAt,
                         testing::Values("start", "open of source", "open of io", "body of source",
                                         "body of loop", "body of io", "some time"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(Cancel, IsSeenByABodyThatAsks) {
  for (const Executor executor : {Executor::compute, Executor::io}) {
    Latch inside;
    TestGraph graph;
    graph.add("long", {.process = [&](Context& context) -> Status {
                         inside.open();
                         while (!context.cancelled()) std::this_thread::sleep_for(1ms);
                         return {};
                       },
                       .executor = executor});
    flow::Runner runner(graph.plan(), {});
    std::thread canceller([&] {
      inside.wait();
      runner.cancel();
    });
    const Status status = runner.run();
    canceller.join();
    EXPECT_EQ(status.message(), "the run was cancelled");
  }
}

TEST(Cancel, DoesNotHideAnErrorThatCameBefore) {
  flow::Runner* runner = nullptr;
  TestGraph graph;
  graph.add("source", {.process = [](Context&) { return Status::error("broken"); },
                       .close = [&]() -> Status {
                         runner->cancel();
                         return {};
                       }});
  flow::Runner owner(graph.plan(), {});
  runner = &owner;
  EXPECT_EQ(owner.run().message(), "test.yaml:1:5: stage 'source' (Test): broken");
  EXPECT_FALSE(owner.cancelled());
}

TEST(Cancel, DropsAnErrorThatComesAfter) {
  flow::Runner* runner = nullptr;
  TestGraph graph;
  graph.add("source", {.process = [&](Context&) -> Status {
              runner->cancel();
              return Status::error("interrupted read");
            }});
  flow::Runner owner(graph.plan(), {});
  runner = &owner;
  EXPECT_EQ(owner.run().message(), "the run was cancelled");
  EXPECT_TRUE(owner.cancelled());
}

TEST(Cancel, ChangesNothingAfterTheEnd) {
  TestGraph graph;
  graph.add_counter("source", 1);
  flow::Runner runner(graph.plan(), {});
  EXPECT_TRUE(runner.run().ok());
  runner.cancel();
  EXPECT_FALSE(runner.cancelled());
}

TEST(Cancel, IsNeverSeenWithoutItsCause) {
  for (int round = 0; round < 5000; ++round) {
    flow::RunControl control(nullptr, nullptr, nullptr);
    std::thread canceller([&] { control.cancel(); });
    while (!control.stopped()) {
    }
    const bool clean = control.status().ok();
    canceller.join();
    ASSERT_FALSE(clean) << "round " << round;
  }
}

flow::Runner* signalled = nullptr;

TEST(Cancel, WorksFromASignalHandler) {
  TestGraph graph;
  graph.add("source", {.process = [](Context& context) -> Status {
              send(context, 1);
              if (context.stamp().sequence == 100) std::raise(SIGUSR1);
              return {};
            }});
  flow::Runner runner(graph.plan(), {});
  signalled = &runner;
  std::signal(SIGUSR1, [](int) { signalled->cancel(); });
  EXPECT_EQ(runner.run().message(), "the run was cancelled");
  std::signal(SIGUSR1, SIG_DFL);
}

}  // namespace
}  // namespace flow_test
