// Distances between the results of two runs.
#include "framework/testing/difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/framework/test_graph.h"

namespace flow_test {

/// A result: a number that the run chose, and how sure it was.
struct Choice {
  std::int32_t id = 0;
  std::vector<float> scores;
};

}  // namespace flow_test

template <>
struct flow::PacketTraits<flow_test::Choice> {
  static constexpr std::string_view name = "Choice";
  static constexpr bool result = true;
  static std::vector<TensorRef> tensors(const flow_test::Choice& c) {
    if (c.scores.empty()) return {};
    return {
        {"id", "I32", {1}, std::as_bytes(std::span(&c.id, 1))},
        {"scores", "F32", {static_cast<std::int64_t>(c.scores.size())}, std::as_bytes(std::span(c.scores))}};
  }
};

namespace flow_test {
namespace {

using testing::ElementsAre;

constexpr flow::Out<Choice> kChoice{"choice", ""};

/// A log of a run whose only stage sends these packets, step by step.
std::shared_ptr<flow::PacketLog> log(const std::vector<Choice>& choices) {
  flow::StageInfo info;
  info.name = "Choose";
  info.outputs.push_back({"choice", "", &flow::packet_type<Choice>(), flow::Arity::one});
  const auto body = [&](Context& context) -> Status {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      context.emit(kChoice, std::make_shared<const Choice>(choices[i]), {0, i});
    }
    context.finish();
    return {};
  };
  info.make = [&](const void*) { return std::make_unique<LambdaStage>(Spec{.process = body}); };
  flow::GraphPlan plan;
  plan.nodes.emplace_back();
  plan.nodes[0].name = "choose";
  plan.nodes[0].stage = &info;
  const auto kept = std::make_shared<flow::PacketLog>();
  EXPECT_THAT(flow::result_ports(plan), ElementsAre("choose.choice"));
  flow::Runner runner(plan, {.probes = kept->probes(flow::result_ports(plan))});
  const Status status = runner.run();
  EXPECT_TRUE(status.ok()) << status.message();
  return kept;
}

TEST(Difference, OfEqualRunsIsNone) {
  const auto a = log({{1, {0.5f, 2}}, {2, {0.25f, 1}}}), b = log({{1, {0.5f, 2}}, {2, {0.25f, 1}}});
  const flow::RunDifference d = flow::difference(*a, *b);
  EXPECT_TRUE(d.equal());
  ASSERT_EQ(d.arrays.size(), 2u);
  EXPECT_EQ(d.arrays[0].name, "choose.choice: id");
  EXPECT_EQ(d.arrays[0].packets, 2u);
  EXPECT_FALSE(d.arrays[0].first);
}

TEST(Difference, MeasuresDistanceAndNamesTheFirstElement) {
  const auto a = log({{1, {3, 4}}, {2, {0, 5}}}), b = log({{1, {3, 4}}, {2, {0, 4.5f}}});
  const flow::RunDifference d = flow::difference(*a, *b);
  EXPECT_FALSE(d.equal());
  const flow::ArrayDifference& scores = d.arrays[1];
  EXPECT_EQ(scores.different, 1u);
  EXPECT_EQ(scores.max_abs, 0.5);
  EXPECT_DOUBLE_EQ(scores.relative, std::sqrt(0.25 / 50));
  EXPECT_EQ(scores.first->packet, 1u);
  EXPECT_EQ(scores.first->stamp, (Stamp{0, 1}));
  EXPECT_EQ(scores.first->element, 1u);
  EXPECT_EQ(scores.first->a, 5);
  EXPECT_EQ(scores.first->b, 4.5);
}

TEST(Difference, EndsWhereAnIntegerDiffersBecauseWhatFollowsHasOtherInputs) {
  const auto a = log({{1, {1}}, {2, {1}}, {3, {1}}}), b = log({{1, {1}}, {7, {9}}, {3, {100}}});
  const flow::RunDifference d = flow::difference(*a, *b);
  EXPECT_EQ(d.arrays[0].packets, 2u);
  EXPECT_EQ(d.arrays[0].first->b, 7);
  EXPECT_EQ(d.arrays[1].max_abs, 8) << "the packet of the difference itself counts";
  EXPECT_EQ(d.skipped, 1u);
}

TEST(Difference, PassesOverPacketsWithoutData) {
  const auto a = log({{0, {}}, {0, {}}, {1, {1}}}), b = log({{1, {1}}});
  EXPECT_TRUE(flow::difference(*a, *b).equal());
}

TEST(Difference, TellsOtherShapesAndMissingPackets) {
  const auto a = log({{1, {1, 2}}, {2, {1}}}), b = log({{1, {1, 2, 3}}});
  const flow::RunDifference d = flow::difference(*a, *b);
  EXPECT_EQ(d.arrays[1].mismatch, "F32 [2] and F32 [3]");
  EXPECT_EQ(d.skipped, 1u);
  EXPECT_FALSE(d.equal());
}

TEST(Difference, OfANumberToNotANumberIsInfinite) {
  const auto a = log({{1, {1}}}), b = log({{1, {std::nanf("")}}});
  EXPECT_TRUE(std::isinf(flow::difference(*a, *b).arrays[1].max_abs));
  EXPECT_EQ(flow::difference(*b, *b).arrays[1].max_abs, 0);
}

}  // namespace
}  // namespace flow_test
