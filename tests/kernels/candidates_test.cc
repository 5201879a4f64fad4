// Selections over index scores: the reference's blocks, and the rules for ties and for -inf.
#include "stages/kernels/candidates.h"

#include <gmock/gmock.h>

#include <limits>

#include "stages/kernels/formats.h"
#include "tests/golden/golden_file.h"

namespace dsv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
constexpr float kNone = -std::numeric_limits<float>::infinity();

TEST(Candidates, BlocksEqualTheReference) {
  constexpr int kBlock = 4, kKeep = 3;
  const auto& golden = testing::golden_ops()["candidates.scores"];
  const auto bf16_scores = golden.as<bf16>();
  const auto lengths = testing::golden_ops()["candidates.lens"].as<std::int32_t>();
  const auto expected = testing::golden_ops()["candidates.keep_3_of_4"].as<std::uint8_t>();
  const auto positions = static_cast<std::size_t>(golden.dim(2));
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    std::vector<float> scores;
    for (std::size_t i = 0; i < positions; ++i)
      scores.push_back(static_cast<float>(bf16_scores[row * positions + i]));
    std::vector<std::uint8_t> kept(positions);
    for (const int b : select_candidate_blocks(scores, lengths[row], kBlock, kKeep)) {
      for (std::size_t i = 0; i < kBlock && static_cast<std::size_t>(b) * kBlock + i < positions; ++i) {
        kept[static_cast<std::size_t>(b) * kBlock + i] = 1;
      }
    }
    const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(row * positions);
    EXPECT_EQ(kept, std::vector<std::uint8_t>(begin, begin + static_cast<std::ptrdiff_t>(positions)))
        << "row " << row;
  }
}

TEST(Candidates, BestPositionsComeInAscendingOrder) {
  EXPECT_THAT(top_k_positions(std::vector<float>{1, 5, 3, 4}, 2), ElementsAre(1, 3));
}

TEST(Candidates, OfEqualScoresTheLowestPositionWins) {
  EXPECT_THAT(top_k_positions(std::vector<float>{2, 3, 2, 2, 3}, 3), ElementsAre(0, 1, 4));
  EXPECT_THAT(top_k_positions(std::vector<float>{0.0f, -0.0f, 0.0f}, 1), ElementsAre(0));
}

TEST(Candidates, MinusInfinityIsNeverSelected) {
  EXPECT_THAT(top_k_positions(std::vector<float>{kNone, 1, kNone}, 3), ElementsAre(1));
  EXPECT_THAT(top_k_positions(std::vector<float>{kNone, kNone}, 1), IsEmpty());
  EXPECT_THAT(top_k_positions(std::vector<float>{}, 1), IsEmpty());
}

TEST(Candidates, TheNewestBlockIsPinnedAndEmptyOnesAreLeftOut) {
  EXPECT_THAT(select_candidate_blocks(std::vector<float>{9, 8, 7, 6, 5}, 5, 2, 2), ElementsAre(0, 2));
  EXPECT_THAT(select_candidate_blocks(std::vector<float>{kNone, kNone, 1, 1, kNone}, 5, 2, 3),
              ElementsAre(1, 2));
  EXPECT_THAT(select_candidate_blocks(std::vector<float>{4, 4, 4, 4, 0, 0}, 6, 2, 2), ElementsAre(0, 2));
  EXPECT_THAT(select_candidate_blocks(std::vector<float>{1, 2}, 0, 2, 2), IsEmpty());
}

}  // namespace
}  // namespace dsv
