// Whole runs on a real card give the tokens and logits of the host.
#include "cuda/device.h"
#include "tests/pipelines/card_run.h"

namespace dsv::testing {
namespace {

class GpuPipelines : public ::testing::TestWithParam<CardModel> {
 protected:
  void SetUp() override {
    const auto runtime = cuda::cuda_runtime();
    if (!runtime.ok()) GTEST_SKIP() << runtime.status().message();
    const auto cards = (*runtime)->devices();
    if (!cards.ok()) GTEST_SKIP() << cards.status().message();
  }
  static Sets on_card(int world, const char* vram) {
    return {{"expert_device", "cuda"},
            {"expert_world", std::to_string(world)},
            {"expert_oversubscribe", "true"},
            {"expert_vram", vram}};
  }
};

TEST_P(GpuPipelines, GiveTheTokensAndLogitsOfTheHostForEveryNumberOfRanks) {
  for (const int world : {1, 2, 4}) {
    const CardRun run(GetParam(), "", on_card(world, "64MiB"));
    expect_equal(run, GetParam(), fmt::format("{} ranks", world));
    EXPECT_TRUE(run.remarks().empty()) << run.notes;
  }
}

TEST_P(GpuPipelines, GiveTheSameWithRoomForTwoExperts) {
  const CardRun run(GetParam(), "", on_card(1, "27000"));
  expect_equal(run, GetParam(), "two slots");
  EXPECT_TRUE(run.remarks().empty()) << run.notes;
}

INSTANTIATE_TEST_SUITE_P(All, GpuPipelines, ::testing::Values(kGoldenA, kDemo),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace dsv::testing
