// One stage of a pipeline, repeated with its real inputs.
#include "framework/testing/stage_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/parallel.h"
#include "tests/framework/test_graph.h"

namespace flow_test {
namespace {

using flow::StageReplay;
using testing::ElementsAre;
using testing::HasSubstr;

/// Adds what comes to a total that outlives it, logs the total, counts bytes.
class Adding final : public flow::Stage {
 public:
  Adding(std::int64_t& total, Log<std::int64_t>& log) : total_(total), log_(log) {}
  Status process(Context& context) override {
    flow::parallel_for(8, 1, [](flow::Range) {});
    total_ += value(context);
    log_.add(total_);
    context.telemetry().add("bytes", 100);
    return value(context) == 13 ? Status::error("unlucky") : Status();
  }
  std::function<void()> saved(const Context&) const override {
    return [&total = total_, now = total_] { total = now; };
  }

 private:
  std::int64_t& total_;
  Log<std::int64_t>& log_;
};

class Replay : public testing::Test {
 protected:
  /// source (0 to 4) -> add.
  flow::GraphPlan plan(Executor executor = Executor::compute) {
    graph_.add_counter("source", 5).add("add", {.process = {}, .executor = executor}, {{"in", "source.out"}});
    flow::GraphPlan plan = graph_.plan();
    info_ = *plan.nodes[1].stage;
    info_.make = [this](const void*) { return std::make_unique<Adding>(total_, log_); };
    plan.nodes[1].stage = &info_;
    return plan;
  }
  TestGraph graph_;
  flow::StageInfo info_;
  std::int64_t total_ = 0;
  Log<std::int64_t> log_;
};

TEST_F(Replay, RepeatsAnInvocationWithItsInputsAndItsState) {
  auto replay = StageReplay::record(plan(), "add", 3);
  ASSERT_TRUE(replay.ok()) << replay.status().message();
  EXPECT_THAT(log_.items(), ElementsAre(0, 1, 3, 6, 10)) << "the run itself";
  ASSERT_EQ((*replay)->size(), 3u);
  EXPECT_EQ((*replay)->stamp(2), (Stamp{2, 0}));
  for (int i = 0; i < 2; ++i) {
    const auto timing = (*replay)->run(2);
    ASSERT_TRUE(timing.ok()) << timing.status().message();
    EXPECT_GT(timing->seconds, 0);
    EXPECT_EQ(timing->totals.at("bytes"), 100) << "of one repetition";
  }
  EXPECT_THAT(log_.items(), ElementsAre(0, 1, 3, 6, 10, 3, 3));
}

TEST_F(Replay, RunsIoStagesToo) {
  auto replay = StageReplay::record(plan(Executor::io), "add", 1);
  ASSERT_TRUE(replay.ok()) << replay.status().message();
  EXPECT_TRUE((*replay)->run(0).ok());
}

TEST_F(Replay, TellsWhichStageThereIs) {
  EXPECT_EQ(StageReplay::record(plan(), "ad", 1).status().message(), "no stage 'ad'; did you mean 'add'?");
}

TEST_F(Replay, PassesErrorsOfTheRunOn) {
  TestGraph graph;
  graph.add_counter("source", 1)
      .add("fail", {.process = [](Context&) { return Status::error("broken"); }}, {{"in", "source.out"}});
  EXPECT_THAT(StageReplay::record(graph.plan(), "source", 1).status().message(),
              HasSubstr("stage 'fail' (Test): broken"));
}

TEST_F(Replay, RefusesAStageThatHasNotRun) {
  TestGraph graph;
  graph.add("quiet", {.process = [](Context& context) -> Status {
              context.finish();
              return {};
            }});
  graph.add("unreached", {.process = {}}, {{"in", "quiet.out"}});
  EXPECT_EQ(StageReplay::record(graph.plan(), "unreached", 1).status().message(),
            "stage 'unreached' has not run");
}

}  // namespace
}  // namespace flow_test
