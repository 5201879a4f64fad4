// plan_run: the memory, disk and reading that a checkpoint takes, from its config.
#include <boost/json.hpp>

#include "stages/audit/run_plan.h"
#include "stages/model/checkpoint.h"
#include "stages/model/model.h"
#include "tests/stages/checkpoint_fixture.h"

namespace dsv {
namespace {

using namespace dsv::test;
using ::testing::HasSubstr;

constexpr std::uint64_t kGiB = 1u << 30;

RunPlan plan(const fs::path& config, const fs::path& folder, const RunPlanOptions& options = {}) {
  const auto shards = ShardSet::scan(folder);
  EXPECT_TRUE(shards.ok()) << shards.status().message();
  const auto plan = plan_run(*read_config(config), *shards, options);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? *plan : RunPlan();
}

TEST(RunPlan, AddsUpWhatTheHeadersOfTheDemoSay) {
  std::uint64_t dense = 0, all = 0, experts = 0, tables = 0;
  const auto checkpoint = *Checkpoint::open(kDemo);
  for (const TensorInfo& tensor : checkpoint->tensors()) {
    all += tensor.bytes();
    if (is_dense(tensor.name)) dense += tensor.bytes();
    if (tensor.name.starts_with("layers.") && tensor.name.find(".experts.") != std::string::npos)
      experts += tensor.bytes();
    if (tensor.name.find(".engram.embed.") != std::string::npos) tables += tensor.bytes();
  }
  const RunPlan p = plan(kDemo, kDemo);
  EXPECT_EQ(p.dense, dense);
  EXPECT_EQ(p.checkpoint, all);
  EXPECT_EQ(p.at_hand, all);
  EXPECT_EQ(p.engram_table, tables);
  EXPECT_EQ(p.expert * static_cast<std::uint64_t>(p.layers * p.experts), experts);
}

TEST(RunPlan, KnowsTheReleasedModelWithoutAnyShard) {
  TempDir empty;
  const RunPlan p = plan(kReleased, empty.path());
  EXPECT_EQ(p.checkpoint, 510'286'023'000u);
  EXPECT_EQ(p.at_hand, 0u);
  const ModelConfig config = *read_config(kReleased);
  const auto codes =
      static_cast<std::uint64_t>(3 * config.dim) * static_cast<unsigned>(config.moe_inter_dim) / 2;
  EXPECT_EQ(p.expert, codes + codes / 16) << "a scale byte for 32 codes of half a byte";
  EXPECT_EQ(p.expert_read, 40 * 6 * p.expert);
  EXPECT_EQ(p.expert_memory(), 40 * 16 * p.expert);
  EXPECT_EQ(p.engram_read, 2u * 24 * (256 + 8));
  EXPECT_EQ(p.context, 1'048'576);
}

TEST(RunPlan, ReadsLessWithALargerCacheAndNothingWhenAllIsInMemory) {
  TempDir empty;
  const RunPlan half = plan(kReleased, empty.path(), {.expert_cache = 192});
  EXPECT_EQ(half.expert_read_spread, half.expert_read / 2);
  const RunPlan all = plan(kReleased, empty.path(), {.expert_cache = 1000, .resident_engram = true});
  EXPECT_EQ(all.cached, 384);
  EXPECT_EQ(all.expert_read_spread, 0u);
  EXPECT_EQ(all.engram_read, 0u);
  EXPECT_EQ(all.fixed_memory(), half.fixed_memory() + all.engram_table);
}

TEST(RunPlan, FindsTheLargestCacheThatFits) {
  RunPlan p;
  p.dense = 100;
  p.layers = 2;
  p.experts = 8;
  p.cached = 3;
  p.expert = 10;
  EXPECT_EQ(p.memory(), 160u);
  EXPECT_EQ(p.largest_cache(119), 0);
  EXPECT_EQ(p.largest_cache(120), 1);
  EXPECT_EQ(p.largest_cache(159), 2);
  EXPECT_EQ(p.largest_cache(100'000), 8) << "no more than there are";
}

TEST(RunPlan, SaysWhetherItFits) {
  TempDir empty;
  const RunPlan p = plan(kReleased, empty.path());
  EXPECT_THAT(to_text(p, {.memory = 64 * kGiB, .disk = kGiB}), HasSubstr("64.0 GiB available: fits"));
  EXPECT_THAT(to_text(p, {.memory = 12 * kGiB, .disk = kGiB}),
              HasSubstr("12.0 GiB available: does not fit; expert_cache up to 2 fits"));
  EXPECT_THAT(to_text(p, {.memory = kGiB, .disk = kGiB}), HasSubstr("no expert_cache fits"));
  EXPECT_EQ(to_json(p, {.memory = kGiB, .disk = kGiB}).at("fits"), false);
}

TEST(RunPlan, ReadsWhatThisMachineHas) {
  const Machine machine = this_machine(fs::temp_directory_path());
  EXPECT_GT(machine.memory, 1u << 20);
  EXPECT_GT(machine.disk, 0u);
}

TEST(RunPlan, RefusesAConfigThatContradictsItself) {
  TempDir empty;
  for (const std::vector<std::int64_t>& rows : {std::vector<std::int64_t>{384006168}, {0, 384016682}}) {
    ModelConfig config = *read_config(kReleased);
    config.engram_num_embeddings = rows;
    const auto plan = plan_run(config, *ShardSet::scan(empty.path()));
    EXPECT_THAT(plan.status().message(), HasSubstr("no plan for this config: "));
  }
}

}  // namespace
}  // namespace dsv
