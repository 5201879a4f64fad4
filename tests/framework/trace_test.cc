// What a trace holds, and what is made of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <map>
#include <thread>

#include "framework/trace/chrome.h"
#include "framework/trace/dot.h"
#include "framework/trace/recorder.h"
#include "framework/trace/summary.h"
#include "tests/framework/test_graph.h"

namespace flow_test {
namespace {

namespace json = boost::json;
using flow::Trace;
using testing::Contains;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kMs = 1'000'000;

/// Node 0 computes, node 1 reads, node 2 joins both; times in milliseconds.
Trace example() {
  Trace trace;
  trace.begin = 1000 * kMs;
  trace.end = 1100 * kMs;
  trace.nodes = {{"layers.0.gate", "Gate", Executor::compute, {}},
                 {"layers.0.rows", "Rows", Executor::io, {}},
                 {"join", "Join", Executor::compute, {"x from layers.0.gate", "rows from layers.0.rows"}}};
  const auto span = [](std::uint64_t id, int node, std::int64_t begin, std::int64_t end) {
    flow::StageSpan s;
    s.id = id;
    s.node = node;
    s.begin = (1000 + begin) * kMs;
    s.end = (1000 + end) * kMs;
    return s;
  };
  flow::StageSpan joined = span(3, 2, 65, 85);
  joined.arrived = 1030 * kMs;
  joined.ready = 1060 * kMs;
  joined.last_edge = 1;
  joined.origins = {1, 2};
  trace.lanes.resize(2);
  trace.lanes[0].stages = {span(1, 0, 10, 30), joined};
  trace.lanes[0].scopes = {{"model", "read page", Executor::io, 1070 * kMs, 1080 * kMs}};
  trace.lanes[1].executor = Executor::io;
  trace.lanes[1].stages = {span(2, 1, 20, 60)};
  trace.levels = {{"cache.fill", 1050 * kMs, 0.5}};
  trace.totals = {{"layers.0.rows.bytes", 4e6}, {"cache.hits", 30}, {"cache.misses", 10}};
  return trace;
}

TEST(TraceSummary, CountsTimeCallsBytesAndWaits) {
  const auto rows = flow::summarize(example());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2].calls, 1u);
  EXPECT_DOUBLE_EQ(rows[2].total, 0.020);
  EXPECT_DOUBLE_EQ(rows[2].share, 0.20);
  EXPECT_DOUBLE_EQ(rows[2].join_wait, 0.030);
  EXPECT_DOUBLE_EQ(rows[2].queue_wait, 0.005);
  EXPECT_EQ(rows[2].waited_for, "rows from layers.0.rows");
  EXPECT_DOUBLE_EQ(rows[1].bytes, 4e6);
}

TEST(TraceSummary, Takes95thPercentileOfTheCalls) {
  Trace trace;
  trace.end = kMs;
  trace.nodes = {{"a", "A", Executor::compute, {}}};
  trace.lanes.resize(1);
  for (int i = 100; i >= 1; --i) {
    flow::StageSpan span;
    span.end = i * kMs;
    trace.lanes[0].stages.push_back(span);
  }
  EXPECT_DOUBLE_EQ(flow::summarize(trace)[0].p95, 0.095);
  EXPECT_DOUBLE_EQ(flow::summarize(trace)[0].mean, 0.0505);
}

TEST(TraceSummary, TellsHiddenReadingFromExposed) {
  const flow::Overlap o = flow::overlap(example());
  EXPECT_DOUBLE_EQ(o.wall, 0.100);
  EXPECT_NEAR(o.compute, 0.020 + 0.010, 1e-12);  // the join waits 10 ms for its page
  EXPECT_NEAR(o.io, 0.040 + 0.010, 1e-12);
  EXPECT_NEAR(o.hidden, 0.010, 1e-12);  // 20 to 30 ms
  EXPECT_NEAR(o.exposed(), 0.040, 1e-12);
}

TEST(TraceSummary, GroupsTheCopiesOfARepeatedStage) {
  Trace trace = example();
  trace.nodes.push_back({"layers.12.rows", "Rows", Executor::io, {"ids from hash"}});
  trace.lanes[1].stages.push_back(trace.lanes[1].stages[0]);
  trace.lanes[1].stages[1].node = 3;
  trace.totals["layers.12.rows.bytes"] = 1e6;
  const auto rows = flow::summarize(flow::grouped(trace));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].name, "layers.*.rows");
  EXPECT_EQ(rows[1].calls, 2u);
  EXPECT_DOUBLE_EQ(rows[1].total, 0.080);
  EXPECT_DOUBLE_EQ(rows[1].bytes, 5e6);
  EXPECT_EQ(rows[2].waited_for, "rows from layers.*.rows");
}

TEST(TraceSummary, ShowsRatesAndWaitsToPeople) {
  const std::string text = flow::summary_text(example());
  EXPECT_THAT(text, HasSubstr("layers.*.rows"));
  EXPECT_THAT(text, HasSubstr("3.8 MiB, 0.1 GB/s"));
  EXPECT_THAT(text, HasSubstr("waited 30.000 ms, most for rows from layers.*.rows"));
  EXPECT_THAT(text, HasSubstr("cache.hits 30 (75.0 % hit)"));
  EXPECT_THAT(text, Not(HasSubstr("rows.bytes"))) << "they are in the line of the stage";
  EXPECT_THAT(text, HasSubstr("reading 50.000 ms of which 10.000 ms hidden and 40.000 ms exposed"));
}

/// Events of the trace with this phase.
std::vector<json::object> events(const std::string& text, std::string_view phase) {
  std::vector<json::object> found;
  const json::value trace = json::parse(text);
  for (const json::value& event : trace.at("traceEvents").as_array()) {
    if (event.at("ph").as_string() == phase) found.push_back(event.as_object());
  }
  return found;
}

TEST(ChromeTrace, HasALaneForEachThreadAndTheNamesOfTheGraph) {
  const std::string text = flow::to_chrome(example());
  const auto names = events(text, "M");
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[1].at("args").at("name"), "compute 0");
  EXPECT_EQ(names[2].at("args").at("name"), "io 0");
  const auto spans = events(text, "X");
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(spans[0].at("name"), "layers.0.gate");
  EXPECT_EQ(spans[0].at("ts"), 10000.0);
  EXPECT_EQ(spans[0].at("dur"), 20000.0);
  EXPECT_EQ(spans[1].at("args").at("last input"), "rows from layers.0.rows");
  EXPECT_EQ(spans[2].at("name"), "model: read page");
}

TEST(ChromeTrace, PutsOverlappingReadsOfAThreadOnRowsOfTheirOwn) {
  Trace trace = example();
  trace.lanes[1].stages.clear();
  const auto read = [](const char* name, std::int64_t begin, std::int64_t end) {
    return flow::ScopeSpan{"store", name, Executor::io, (1000 + begin) * kMs, (1000 + end) * kMs};
  };
  trace.lanes[1].scopes = {read("a", 0, 20), read("b", 10, 30), read("c", 20, 40), read("in c", 25, 35)};
  std::map<std::string, boost::json::value> thread;
  for (const auto& span : events(flow::to_chrome(trace), "X")) {
    thread[std::string(span.at("name").as_string())] = span.at("tid");
  }
  EXPECT_EQ(thread["store: a"], 1);
  EXPECT_EQ(thread["store: b"], 2);
  EXPECT_EQ(thread["store: c"], 1);
  EXPECT_EQ(thread["store: in c"], 1);
  const auto names = events(flow::to_chrome(trace), "M");
  EXPECT_EQ(names.back().at("args").at("name"), "io 0, 1");
}

TEST(ChromeTrace, DrawsAnArrowFromEachSenderToTheUse) {
  const std::string text = flow::to_chrome(example());
  const auto from = events(text, "s"), to = events(text, "f");
  ASSERT_EQ(from.size(), 2u);
  ASSERT_EQ(to.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(from[i].at("id"), to[i].at("id"));
    EXPECT_EQ(to[i].at("ts"), 65000.0);
  }
  EXPECT_EQ(from[1].at("tid"), 1);
}

TEST(ChromeTrace, DrawsLevelsAsCurves) {
  const auto curves = events(flow::to_chrome(example()), "C");
  ASSERT_EQ(curves.size(), 1u);
  EXPECT_EQ(curves[0].at("name"), "cache.fill");
  EXPECT_EQ(curves[0].at("args").at("value"), 0.5);
}

/// source -> slow (I/O), join; the join counts and times something. It is fed before slow is.
Trace recorded() {
  TestGraph graph;
  graph.add_counter("source", 5)
      .add("join",
           {.process = [](Context& context) -> Status {
              const auto span = context.telemetry().span("think", Executor::compute);
              context.telemetry().add("bytes", 100);
              context.telemetry().level("depth", static_cast<double>(value(context, "a")));
              return {};
            },
            .outputs = {}},
           {{"a", "source.out"}, {"b", "slow.out"}})
      .add("slow",
           {.process = [](Context& context) -> Status {
              std::this_thread::sleep_for(std::chrono::milliseconds(2));
              send(context, 1);
              return {};
            },
            .executor = Executor::io},
           {{"in", "source.out"}});
  const auto recorder = std::make_shared<flow::Recorder>();
  flow::Runner runner(graph.plan(), {.recorder = recorder});
  const Status status = runner.run();
  EXPECT_TRUE(status.ok()) << status.message();
  return recorder->trace();
}
constexpr int kSource = 0, kJoin = 1, kSlow = 2;

TEST(Recorder, RecordsEveryInvocationWithItsSendersAndWaits) {
  const Trace trace = recorded();
  std::map<std::uint64_t, flow::StageSpan> spans;
  for (const auto& lane : trace.lanes) {
    for (const auto& span : lane.stages) spans[span.id] = span;
  }
  ASSERT_EQ(spans.size(), 15u);
  for (const auto& [id, span] : spans) {
    EXPECT_LE(span.begin, span.end);
    EXPECT_LE(trace.begin, span.begin);
    EXPECT_LE(span.end, trace.end);
    EXPECT_EQ(span.origins.size(), span.node == kSource ? 0u : span.node == kSlow ? 1u : 2u);
    for (const auto origin : span.origins) {
      ASSERT_TRUE(spans.contains(origin));
      EXPECT_EQ(spans[origin].stamp, span.stamp);
      EXPECT_LE(spans[origin].end, span.begin);
    }
    const int last = span.node == kSource ? -1 : span.node == kSlow ? 0 : 1;
    EXPECT_EQ(span.last_edge, last);
  }
}

TEST(Recorder, PutsComputeAndIoBodiesOnDifferentLanes) {
  for (const auto& lane : recorded().lanes) {
    for (const auto& span : lane.stages) EXPECT_EQ(span.node == kSlow, lane.executor == Executor::io);
  }
}

TEST(Recorder, CollectsWhatStagesCount) {
  const Trace trace = recorded();
  EXPECT_EQ(trace.totals.at("join.bytes"), 500);
  const auto depth = [](const flow::TraceLevel& level) { return level.name == "join.depth"; };
  EXPECT_EQ(std::count_if(trace.levels.begin(), trace.levels.end(), depth), 5);
  std::size_t scopes = 0;
  for (const auto& lane : trace.lanes) scopes += lane.scopes.size();
  EXPECT_EQ(scopes, 5u);
  const auto rows = flow::summarize(trace);
  EXPECT_EQ(rows[kJoin].waited_for, "b from slow");
  EXPECT_GE(rows[kSlow].mean, 0.002);
}

TEST(Recorder, WatchesTheMemoryOfTheProcess) {
  const Trace trace = recorded();
  const auto memory = [](const flow::TraceLevel& level) { return level.name == "process.memory"; };
  const auto found = std::find_if(trace.levels.begin(), trace.levels.end(), memory);
  ASSERT_NE(found, trace.levels.end());
  EXPECT_GT(found->value, 1 << 20);
}

TEST(Recorder, SumsWhatSeveralThreadsCount) {
  const auto recorder = std::make_shared<flow::Recorder>();
  const flow::Telemetry telemetry(recorder, "cache");
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 1000; ++n) telemetry.add("hits", 2);
      });
    }
  }
  EXPECT_EQ(recorder->trace().totals.at("cache.hits"), 8000);
}

TEST(Recorder, PutsAThreadThatOnlyReadsOnAnIoLane) {
  const auto recorder = std::make_shared<flow::Recorder>();
  const flow::Telemetry telemetry(recorder, "store");
  std::jthread([&] {
    telemetry.add("bytes", 1);
    const auto span = telemetry.span("read");
  }).join();
  ASSERT_EQ(recorder->trace().lanes.size(), 1u);
  EXPECT_EQ(recorder->trace().lanes[0].executor, Executor::io);
}

TEST(Dot, DrawsClustersTypesAndFeedback) {
  TestGraph graph;
  graph.add_counter("start", 1)
      .add("layers.0.loop", {.process = {}, .policy = InputPolicy::any},
           {{"start", "start.out"}, {"next", "layers.0.work.out", true}})
      .add("layers.0.work", {.process = {}, .executor = Executor::io}, {{"in", "layers.0.loop.out"}});
  const std::string dot = flow::to_dot(graph.plan());
  EXPECT_THAT(dot, HasSubstr("subgraph \"cluster_layers.0\""));
  EXPECT_THAT(dot, HasSubstr("n2 [label=\"layers.0.work\\nTest\", tooltip=\"test.yaml:3:5\", "
                             "style=\"filled,rounded\"];"));
  EXPECT_THAT(dot, HasSubstr("n1 -> n2 [label=\"Number\"];"));
  EXPECT_THAT(dot, HasSubstr("n2 -> n1 [label=\"Number\", style=dashed, constraint=false];"));
}

TEST(Dot, ColoursStagesByTheirTime) {
  TestGraph graph;
  graph.add_counter("source", 3);
  const auto recorder = std::make_shared<flow::Recorder>();
  flow::Runner runner(graph.plan(), {.recorder = recorder});
  ASSERT_TRUE(runner.run().ok());
  const Trace trace = recorder->trace();
  const std::string dot = flow::to_dot(graph.plan(), &trace);
  EXPECT_THAT(dot, HasSubstr("source\\nTest\\n3 x "));
  EXPECT_THAT(dot, HasSubstr("fillcolor=\"0.0 1.000 1.0\""));
}

}  // namespace
}  // namespace flow_test
