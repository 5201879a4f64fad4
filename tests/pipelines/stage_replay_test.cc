// Stages of the model repeated alone: the state of the sequence is put back, so every repetition is the
// first.
#include "framework/testing/stage_replay.h"

#include <cstring>

#include "tests/pipelines/pipeline_run.h"

namespace dsv::testing {
namespace {

/// Every stage type of greedy.yaml, with a name.
std::map<std::string, std::string> stages_by_type(const flow::GraphPlan& plan) {
  std::map<std::string, std::string> names;
  for (const flow::NodePlan& node : plan.nodes) names[node.stage->name] = node.name;
  return names;
}

flow::GraphPlan greedy() {
  auto loaded = load_pipeline({"pipelines/greedy.yaml"}, {});
  EXPECT_TRUE(loaded.plan);
  return *std::move(loaded.plan);
}

TEST(StageReplay, RepeatsEveryStageOfTheModel) {
  for (const auto& [type, name] : stages_by_type(greedy())) {
    auto replay = flow::StageReplay::record(greedy(), name, 2);
    ASSERT_TRUE(replay.ok()) << replay.status().message();
    for (std::size_t i = 0; i < (*replay)->size(); ++i) {
      const auto first = (*replay)->run(i), second = (*replay)->run(i);
      ASSERT_TRUE(first.ok()) << name << ": " << first.status().message();
      ASSERT_TRUE(second.ok()) << name << ": " << second.status().message();
      EXPECT_EQ(first->totals, second->totals) << name << " touches the same bytes each time";
    }
  }
}

TEST(StageReplay, StagesThatComputeOrReadSayWhatTheyTouch) {
  for (const auto& [type, name] : stages_by_type(greedy())) {
    if (type == "Tokenize" || type == "TokenLoop" || type == "DetokenizeToStdout" ||
        type == "ExpertPrefetch" || type == "EngramHash" || type == "ExpertPredict") {
      continue;  // texts and requests
    }
    auto replay = flow::StageReplay::record(greedy(), name, 1);
    ASSERT_TRUE(replay.ok()) << replay.status().message();
    const auto timing = (*replay)->run(0);
    ASSERT_TRUE(timing.ok()) << timing.status().message();
    ASSERT_TRUE(timing->totals.contains("bytes")) << name;
    EXPECT_GT(timing->totals.at("bytes"), 0) << name;
    EXPECT_GT(timing->totals.at("items"), 0) << name;
  }
}

}  // namespace
}  // namespace dsv::testing
