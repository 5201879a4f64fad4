// Routed experts on (emulated) cards: the tokens and logits of the host, whatever happens to the cards.
#include <gmock/gmock.h>

#include <fstream>

#include "stages/model/model.h"
#include "tests/pipelines/card_run.h"

namespace dsv::testing {
namespace {

using ::testing::HasSubstr;

class Cards : public ::testing::TestWithParam<CardModel> {};

TEST_P(Cards, GiveTheTokensAndLogitsOfTheHostForEveryNumberOfRanks) {
  for (const int world : {1, 2, 3, 4}) {
    const CardRun run(GetParam(), "", emulated(world));
    expect_equal(run, GetParam(), fmt::format("{} ranks", world));
    EXPECT_THAT(run.remarks(), ::testing::IsEmpty());
    for (int rank = 0; rank < world; ++rank) {
      EXPECT_TRUE(run.report.at("cards").at(static_cast<std::size_t>(rank)).at("on_card").as_bool());
      EXPECT_GT(run.count(static_cast<std::size_t>(rank), "hits"), 0u);
    }
  }
}

TEST_P(Cards, GiveTheSameWithRoomForTwoExpertsAndOnePageOnTheHost) {
  Sets sets = emulated(2);
  sets.insert(sets.end(), {{"expert_vram", "27000"}, {"expert_cache", "1"}});
  const CardRun run(GetParam(), "", sets);
  expect_equal(run, GetParam(), "two slots");
  EXPECT_GT(run.count(0, "misses"), 8 * run.count(0, "hits")) << "experts had to be copied again";
}

TEST_P(Cards, GiveTheSameWhenSlow) {
  const CardRun run(GetParam(), "emulated_copy_delay: 150, emulated_op_delay: 50", emulated(2));
  expect_equal(run, GetParam(), "slow cards");
}

TEST_P(Cards, GiveTheSameWhenRanksShareOne) {
  Sets sets = emulated(4);
  sets.emplace_back("expert_oversubscribe", "true");
  const CardRun run(GetParam(), "emulated_cards: 1", sets);
  expect_equal(run, GetParam(), "four ranks on one card");
  EXPECT_THAT(run.remarks(), ::testing::IsEmpty());
}

struct Fault {
  const char* options;
  std::size_t remarks;  // one for each rank that loses its card, one for a machine without
  const char* reason;
};

TEST_P(Cards, LeaveTheWorkToTheHostWithOneRemarkWhenTheyFail) {
  const Fault faults[] = {
      {"emulated_fault: no_driver", 1, "experts: on the host: there is no driver: injected"},
      {"emulated_fault: no_card", 1, "experts: on the host: there is no card"},
      {"emulated_memory: 20000", 2, "on the host: too little memory: "},
      {"emulated_fault: out_of_memory", 1, "rank 0 on the host: out of memory"},
      {"emulated_fault: out_of_memory, emulated_fault_at: 12", 1, "continues on the host: out of memory"},
      {"emulated_fault: failed_launch", 1, "continues on the host: launch of quantize failed: injected"},
      {"emulated_fault: failed_launch, emulated_fault_at: 77", 1, "continues on the host: launch of "},
      {"emulated_fault: lost_card", 1, "continues on the host: emulated card "},
      {"emulated_fault: lost_card, emulated_fault_at: 50", 1, "continues on the host: emulated card "},
  };
  for (const Fault& fault : faults) {
    const CardRun run(GetParam(), fault.options, emulated(2));
    expect_equal(run, GetParam(), fault.options);
    ASSERT_EQ(run.remarks().size(), fault.remarks) << fault.options << "\n" << run.notes;
    for (const std::string& remark : run.remarks())
      EXPECT_THAT(remark, HasSubstr(fault.reason)) << fault.options;
  }
}

TEST_P(Cards, ThatThisProgramOrMachineLacksLeaveTheWorkToTheHost) {
  Sets sets{{"expert_device", "cuda"}, {"expert_oversubscribe", "true"}, {"expert_world", "2"}};
  expect_equal(CardRun(GetParam(), "", sets), GetParam(), "cuda");
}

TEST_P(Cards, ReturnNoMoreThanTheOutputRowsOfTheirExperts) {
  const CardRun run(GetParam(), "", emulated(2));
  const GoldenFile golden(GetParam().golden);
  const auto config = load_config(resolve_checkpoint(GetParam().checkpoint));
  ASSERT_TRUE(config.ok()) << config.status().message();
  const std::uint64_t tokens =
      golden["prompt_ids"].as<std::int32_t>().size() + golden["decode.input_ids"].as<std::int32_t>().size();
  const auto row = static_cast<std::uint64_t>(config->dim) * sizeof(bf16);
  const auto experts = static_cast<std::uint64_t>(config->n_activated_experts * config->n_layers);
  const std::uint64_t returned = run.count(0, "returned_bytes") + run.count(1, "returned_bytes");
  EXPECT_LE(returned, tokens * experts * row);
  EXPECT_EQ(returned % (experts * row), 0u) << "every active expert returns one row a token";
  EXPECT_GT(returned, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, Cards, ::testing::Values(kGoldenA, kDemo),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(CardPlacement, OfMoreRanksThanCardsIsAnErrorUnlessTheyMayShare) {
  const CardRun run(kDemo, "emulated_cards: 2", emulated(4));
  EXPECT_THAT(run.status.message(), HasSubstr("service 'cards'"));
  EXPECT_THAT(
      run.status.message(),
      HasSubstr("the experts are split over 4 ranks, but there are 2 cards; split over fewer, or let ranks "
                "share cards (oversubscribe)"));
}

TEST(CardPlacement, IsShownByADryRun) {
  flow::LoadOutcome loaded = flow::load_graph(
      {.files = {source("pipelines/greedy.yaml")},
       .sets = {{"expert_device", "emulated"}, {"expert_world", "3"}, {"expert_vram", "102KiB"}},
       .data_dirs = flow::data_dirs()});
  ASSERT_TRUE(loaded.plan);
  const auto lines = flow::Runner(std::move(*loaded.plan), {}).dry_run();
  ASSERT_TRUE(lines.ok()) << lines.status().message();
  std::vector<std::string> ranks;
  for (const flow::PlanLine& line : *lines) {
    if (line.what.find("rank ") != std::string::npos) ranks.push_back(line.what);
  }
  EXPECT_THAT(ranks, ::testing::ElementsAre(
                         HasSubstr("rank 0 on emulated card 0: 8 of 48 experts, 102.0 KiB of its memory"),
                         HasSubstr("rank 1 on emulated card 1: 8 of 40 experts, 102.0 KiB of its memory"),
                         HasSubstr("rank 2 on emulated card 2: 8 of 40 experts, 102.0 KiB of its memory")));
}

TEST(CardTrace, ShowsCopiesUnderComputing) {
  const CardRun run(kDemo, "emulated_copy_delay: 500, emulated_op_delay: 500", emulated(1));
  ASSERT_TRUE(run.status.ok()) << run.status.message();
  std::vector<flow::ScopeSpan> copies, ops;
  for (const flow::TraceLane& lane : run.recorder->trace().lanes) {
    for (const flow::ScopeSpan& span : lane.scopes) {
      if (span.name == "upload") copies.push_back(span);
      if (span.name == "gate_up" || span.name == "down") ops.push_back(span);
    }
  }
  ASSERT_FALSE(copies.empty());
  std::size_t hidden = 0;
  for (const flow::ScopeSpan& copy : copies) {
    hidden += std::any_of(ops.begin(), ops.end(),
                          [&](const auto& op) { return op.begin < copy.end && copy.begin < op.end; });
  }
  EXPECT_GT(hidden, 0u) << "no copy ran while an expert was computed";
}

TEST(SharedCards, OfTwoSequencesAtOnceGiveTheTextsOfTheHost) {
  const std::string file = "pipelines/examples/two_prompts.yaml";
  const Outcome host = run_pipeline(file, {});
  const TemporaryFolder folder;
  std::ofstream(folder / "overlay.yaml")
      << "services: {experts: {devices: 2}, cards: {type: ExpertCards, device: emulated, vram: 40000}}\n"
         "stages: [{name: backbone, params: {expert_device: emulated, expert_world: 2}}]\n";
  flow::LoadOutcome loaded = flow::load_graph({.files = {source(file), folder / "overlay.yaml"},
                                               .sets = {{"prefill_chunk", "2"}},
                                               .data_dirs = flow::data_dirs()});
  ASSERT_TRUE(loaded.plan) << fmt::format("{}", fmt::join(loaded.errors, "\n"));
  auto console = std::make_shared<flow::CapturingConsole>();
  const flow::Status status = flow::Runner(std::move(*loaded.plan), {console, nullptr, {}, nullptr}).run();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(console->text(), host.text);
}

}  // namespace
}  // namespace dsv::testing
