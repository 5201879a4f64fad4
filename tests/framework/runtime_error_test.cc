// How a run ends early, and what is closed then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "tests/framework/test_graph.h"

namespace flow_test {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::IsEmpty;

Status failing(Context&) {
  return Status::error("cannot go on");
}
Status throwing(Context&) {
  throw std::runtime_error("thrown");
}
Status throwing_int(Context&) {
  throw 7;
}
Status succeed(Context&) {
  return {};
}

struct Fault {
  const char* name;
  Status (*body)(Context&);
  const char* message;
};

/// source -> left, right -> join -> loop (feedback to the join's "any" neighbour); one stage is at fault.
class FaultAnywhere : public testing::TestWithParam<std::tuple<Fault, std::string, Executor>> {};

TEST_P(FaultAnywhere, EndsTheRunWithThePlaceAndTheCause) {
  const auto& [fault, position, executor] = GetParam();
  Log<std::string> closed;
  TestGraph graph;
  const auto stage = [&](const std::string& name, Body body, InputPolicy policy = InputPolicy::all) {
    Spec spec{.process = name == position ? Body(fault.body) : std::move(body), .policy = policy};
    spec.executor = name == position ? executor : Executor::compute;
    spec.close = [&closed, name]() -> Status {
      closed.add(name);
      return {};
    };
    return spec;
  };
  const auto forward = [](Context& context) -> Status {
    send(context, 1);
    return {};
  };
  const auto enter = [](Context& context) -> Status {
    const Stamp stamp = context.stamp();
    if (stamp.step < 3) send_at(context, 1, {stamp.sequence, stamp.step + 1});
    return {};
  };
  graph.add("source", stage("source", forward))
      .add("loop", stage("loop", enter, InputPolicy::any),
           {{"start", "source.out"}, {"next", "join.out", true}})
      .add("left", stage("left", forward), {{"in", "loop.out"}})
      .add("right", stage("right", forward), {{"in", "loop.out"}})
      .add("join", stage("join", forward), {{"a", "left.out"}, {"b", "right.out"}})
      .add("end", stage("end", succeed), {{"in", "join.out"}});
  const int line = graph.plan().node(position) + 1;
  EXPECT_EQ(run(graph).message(),
            fmt::format("test.yaml:{}:5: stage '{}' (Test): {}", line, position, fault.message));
  EXPECT_THAT(closed.items(), ElementsAre("end", "join", "right", "left", "loop", "source"));
}

INSTANTIATE_TEST_SUITE_P(Stages, FaultAnywhere,
                         testing::Combine(testing::Values(Fault{"error", failing, "cannot go on"},
                                                          Fault{"exception", throwing, "exception: thrown"},
                                                          Fault{"unknown_exception", throwing_int,
                                                                "exception of an unknown type"}),
                                          testing::Values("source", "loop", "left", "right", "join", "end"),
                                          testing::Values(Executor::compute, Executor::io)),
                         [](const auto& test) {
                           return fmt::format("{}_in_{}_{}", std::get<0>(test.param).name,
                                              std::get<1>(test.param),
                                              std::get<2>(test.param) == Executor::io ? "io" : "compute");
                         });

TEST(RuntimeError, KeepsTheFirstErrorAndStartsNoFurtherBody) {
  std::atomic<int> later{0};
  Latch failed;
  TestGraph graph;
  graph.add_counter("source", 1)
      .add("first", {.process = [](Context&) { return Status::error("first"); }, .executor = Executor::io},
           {{"in", "source.out"}})
      .add("second", {.process = [&](Context& context) -> Status {
             while (!context.cancelled()) std::this_thread::yield();
             send(context, 1);
             return Status::error("second");
           }},
           {{"in", "source.out"}})
      .add("later",
           {.process = [&](Context&) -> Status {
              ++later;
              return {};
            },
            .outputs = {}},
           {{"in", "second.out"}});
  EXPECT_EQ(run(graph).message(), "test.yaml:2:5: stage 'first' (Test): first");
  EXPECT_EQ(later, 0);
}

struct OpenFault {
  const char* name;
  std::function<Status(const flow::Opening&)> open;
  const char* message;
};
class OpenFails : public testing::TestWithParam<OpenFault> {};

TEST_P(OpenFails, ClosesWhatWasOpenedInReverseOrder) {
  Log<std::string> events;
  TestGraph graph;
  const auto stage = [&](const std::string& name) {
    Spec spec{.process = [&](Context&) -> Status {
      ADD_FAILURE() << "a body ran";
      return {};
    }};
    spec.open = [&events, name](const flow::Opening& opening) -> Status {
      EXPECT_EQ(opening.name(), name);
      events.add("open " + name);
      return name == "c" ? GetParam().open(opening) : Status();
    };
    spec.close = [&events, name]() -> Status {
      events.add("close " + name);
      return {};
    };
    return spec;
  };
  graph.add("a", stage("a")).add("b", stage("b")).add("c", stage("c")).add("d", stage("d"));
  EXPECT_EQ(run(graph).message(), fmt::format("test.yaml:3:5: stage 'c' (Test): {}", GetParam().message));
  EXPECT_THAT(events.items(), ElementsAre("open a", "open b", "open c", "close b", "close a"));
}
INSTANTIATE_TEST_SUITE_P(
    Faults, OpenFails,
    testing::Values(
        OpenFault{"error", [](const flow::Opening&) { return Status::error("no file"); }, "no file"},
        OpenFault{"exception", [](const flow::Opening&) -> Status { throw std::bad_alloc(); },
                  "out of memory"},
        OpenFault{"thread",
                  [](const flow::Opening&) -> Status {
                    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
                  },
                  "the system refuses another thread; raise the limit of threads or memory, or ask for "
                  "fewer in 'runtime'"}),
    [](const auto& test) { return test.param.name; });

TEST(RuntimeError, LocatesAnExceptionOfAConstructor) {
  TestGraph graph;
  graph.add("a", {.process = succeed, .construct = [] { throw std::runtime_error("no memory"); }});
  EXPECT_EQ(run(graph).message(), "test.yaml:1:5: stage 'a' (Test): exception: no memory");
}

TEST(RuntimeError, ReportsAnErrorOfCloseAndStillClosesTheOthers) {
  Log<std::string> closed;
  TestGraph graph;
  const auto closing = [&](const std::string& name, Status status) {
    return Spec{.process = [](Context& context) -> Status {
                  context.finish();
                  return {};
                },
                .close =
                    [&closed, name, status] {
                      closed.add(name);
                      return status;
                    }};
  };
  graph.add("a", closing("a", {}))
      .add("b", closing("b", Status::error("disk full")))
      .add("c", closing("c", {}));
  EXPECT_EQ(run(graph).message(), "test.yaml:2:5: stage 'b' (Test): disk full");
  EXPECT_THAT(closed.items(), ElementsAre("c", "b", "a"));
}

/// Logs its life.
class LoggedService final : public flow::Service {
 public:
  LoggedService(std::string name, Log<std::string>& log, Status open)
      : name_(std::move(name)), log_(log), open_(std::move(open)) {}
  ~LoggedService() override { log_.add("destroy " + name_); }
  Status open(const flow::Opening&) override {
    log_.add("open " + name_);
    return open_;
  }
  void close(flow::RunReport& report) override {
    log_.add("close " + name_);
    report.set(name_, 1);
  }
  flow::Result<std::vector<flow::PlanLine>> plan(const flow::Opening&) override {
    return std::vector<flow::PlanLine>{{"weights", 100, 50, 5}};
  }

 private:
  const std::string name_;
  Log<std::string>& log_;
  const Status open_;
};

flow::ServiceInfo logged_service(const std::string& name, Log<std::string>& log, Status open = {}) {
  flow::ServiceInfo info;
  info.name = "Logged";
  info.make = [&log, name, open](const void*) { return std::make_shared<LoggedService>(name, log, open); };
  return info;
}

Spec logged_stage(Log<std::string>& log) {
  return {.process = [](Context& context) -> Status {
            context.finish();
            return {};
          },
          .open = [&log](const flow::Opening&) -> Status {
            log.add("open stage");
            return {};
          },
          .close = [&log]() -> Status {
            log.add("close stage");
            return {};
          },
          .destroy = [&log] { log.add("destroy stage"); }};
}

TEST(RuntimeLifecycle, OpensServicesFirstAndDestroysThemLast) {
  Log<std::string> log;
  TestGraph graph;
  graph.add_service("one", logged_service("one", log)).add_service("two", logged_service("two", log));
  graph.add("stage", logged_stage(log));
  ASSERT_TRUE(run(graph).ok());
  EXPECT_THAT(log.items(), ElementsAre("open one", "open two", "open stage", "close stage", "close two",
                                       "close one", "destroy stage", "destroy two", "destroy one"));
}

TEST(RuntimeLifecycle, OpensNoStageWhenAServiceFails) {
  Log<std::string> log;
  TestGraph graph;
  graph.add_service("one", logged_service("one", log))
      .add_service("two", logged_service("two", log, Status::error("shard is missing")));
  graph.add("stage", logged_stage(log));
  EXPECT_EQ(run(graph).message(), "test.yaml:102:3: service 'two' (Logged): shard is missing");
  EXPECT_THAT(log.items(), ElementsAre("open one", "open two", "close one", "destroy stage", "destroy two",
                                       "destroy one"));
}

TEST(RuntimeLifecycle, AsksForNeedsInADryRunWithoutOpening) {
  Log<std::string> log;
  TestGraph graph;
  graph.add_service("one", logged_service("one", log));
  graph.add("stage", logged_stage(log));
  flow::Runner runner(graph.plan(), {});
  const auto lines = runner.dry_run();
  ASSERT_TRUE(lines.ok());
  ASSERT_EQ(lines->size(), 2u);
  EXPECT_EQ(lines->front().what, "one: weights");
  EXPECT_EQ(lines->front().resident_bytes, 100u);
  EXPECT_EQ(lines->back().what, "program");
  EXPECT_GT(lines->back().resident_bytes, 1u << 20) << "of this process";
  EXPECT_THAT(log.items(), ElementsAre("destroy stage", "destroy one"));
}

TEST(RuntimeLifecycle, RunsOnceForEachRunner) {
  TestGraph graph;
  graph.add_counter("source", 1);
  flow::Runner runner(graph.plan(), {});
  EXPECT_TRUE(runner.run().ok());
  EXPECT_EQ(runner.run().message(), "this run has been started already");
  EXPECT_TRUE(run(graph).ok()) << "another Runner for the same graph";
}

TEST(RuntimeLifecycle, RunsTwoGraphsSideBySide) {
  TestGraph graph;
  Log<std::int64_t> log;
  graph.add_counter("source", 200).add("sink", sink(log), {{"in", "source.out"}});
  Status other;
  std::thread thread([&] { other = run(graph); });
  const Status mine = run(graph);
  thread.join();
  EXPECT_TRUE(mine.ok() && other.ok());
  EXPECT_EQ(log.size(), 400u);
}

}  // namespace
}  // namespace flow_test
