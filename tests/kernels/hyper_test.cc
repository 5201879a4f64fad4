// Mixing weights of the hyper-connections against the reference.
#include "stages/kernels/hyper.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/golden/golden_file.h"
#include "tests/kernels/compare.h"

namespace dsv {
namespace {

using testing::golden_ops;
using testing::near_relative;

TEST(HyperConnections, MixingWeightsEqualTheReference) {
  const auto& golden = golden_ops()["sinkhorn.mixes"];
  const auto mixes = golden.as<float>(), scale = golden_ops()["sinkhorn.scale"].as<float>();
  const auto base = golden_ops()["sinkhorn.base"].as<float>();
  const auto rows = static_cast<std::size_t>(golden.dim(0));
  std::vector<float> pre(rows * 4), post(rows * 4), comb(rows * 16);
  for (std::size_t r = 0; r < rows; ++r) {
    sinkhorn(&mixes[r * 24], scale.data(), base.data(), 4, 20, 1e-6f, &pre[r * 4], &post[r * 4],
             &comb[r * 16]);
  }
  const double bound = 4e-6;  // 40 normalizations of 4 sums, each within a few ulp
  EXPECT_TRUE(near_relative(pre, golden_ops()["sinkhorn.pre"].as<float>(), bound));
  EXPECT_TRUE(near_relative(post, golden_ops()["sinkhorn.post"].as<float>(), bound));
  EXPECT_TRUE(near_relative(comb, golden_ops()["sinkhorn.comb"].as<float>(), bound));
}

TEST(HyperConnections, CombinationIsDoublyStochasticForAnyNumberOfCopies) {
  for (const int n : {1, 2, 3, 5}) {
    std::vector<float> mixes, base(static_cast<std::size_t>(n * (n + 2)));
    for (std::size_t i = 0; i < base.size(); ++i) mixes.push_back(static_cast<float>((i * 7) % 5) - 2.0f);
    std::vector<float> pre(static_cast<std::size_t>(n)), post(pre), comb(static_cast<std::size_t>(n * n));
    const float scale[3] = {1, 1, 1};
    sinkhorn(mixes.data(), scale, base.data(), n, 30, 1e-6f, pre.data(), post.data(), comb.data());
    for (int i = 0; i < n; ++i) {
      float row = 0, column = 0;
      for (int j = 0; j < n; ++j) {
        row += comb[static_cast<std::size_t>(i * n + j)];
        column += comb[static_cast<std::size_t>(j * n + i)];
      }
      EXPECT_NEAR(row, 1, 1e-4) << n << " copies, row " << i;
      EXPECT_NEAR(column, 1, 1e-4) << n << " copies, column " << i;
    }
  }
}

}  // namespace
}  // namespace dsv
