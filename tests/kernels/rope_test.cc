// Rotary embedding against the reference: angles of both kinds of layer, and rotated rows.
#include "stages/kernels/rope.h"

#include <gtest/gtest.h>

#include "tests/golden/golden_file.h"
#include "tests/kernels/compare.h"

namespace dsv {
namespace {

using testing::golden_ops;

const RopeParams kWindow{.dim = 64, .theta = 10000};
const RopeParams kCompressed{.dim = 64, .theta = 160000, .factor = 16, .original_seq_len = 65536};
const RopeParams kYarnActive{.dim = 16, .theta = 160000, .factor = 16, .original_seq_len = 32};

TEST(Rope, CosinesAndSinesAreWithinOneUlpOfTheReference) {
  const std::pair<const char*, RopeParams> cases[] = {
      {"rope.window", kWindow}, {"rope.compressed", kCompressed}, {"rope.yarn_active", kYarnActive}};
  for (const auto& [name, params] : cases) {
    const auto& golden = golden_ops()[std::string(name) + ".cos"];
    const auto cosines = golden.as<float>(), sines = golden_ops()[std::string(name) + ".sin"].as<float>();
    const RopeTable table(params);
    ASSERT_EQ(table.dim() / 2, golden.dim(1)) << name;
    std::vector<float> cos_row(cosines.size()), sin_row(sines.size());
    for (std::int64_t p = 0; p < golden.dim(0); ++p) {
      table.angles(p, cos_row.data() + p * golden.dim(1), sin_row.data() + p * golden.dim(1));
    }
    EXPECT_TRUE(testing::near_relative(cos_row, cosines, 0x1p-23)) << name;
    EXPECT_TRUE(testing::near_relative(sin_row, sines, 0x1p-23)) << name;
  }
}

TEST(Rope, RowsAreRotatedAndTurnedBackAsByTheReference) {
  const auto& golden = golden_ops()["rope.apply.x"];
  const auto x = golden.as<bf16>();
  const std::int64_t positions = golden.dim(0), heads = golden.dim(1), dim = golden.dim(2);
  const RopeTable table(kYarnActive);
  for (const bool inverse : {false, true}) {
    auto rows = x;
    for (std::int64_t i = 0; i < positions * heads; ++i)
      table.apply(rows.data() + i * dim, i / heads, inverse);
    const auto expected = golden_ops()[inverse ? "rope.apply.inverse" : "rope.apply.out"].as<bf16>();
    EXPECT_TRUE(testing::near_bf16(rows, expected, 0, 0)) << "inverse " << inverse;
  }
}

TEST(Rope, AllHeadsOfATokenAreRotatedAsOneByOne) {
  const RopeTable table({.dim = 192, .theta = 10000});
  std::vector<bf16> one(3 * 200), all;
  for (std::size_t i = 0; i < one.size(); ++i) one[i] = bf16(static_cast<float>(i % 37) - 18.0f);
  all = one;
  for (const std::size_t head : {0u, 1u, 2u}) table.apply(one.data() + 200 * head + 8, 1234, true);
  table.apply(all.data() + 8, 3, 200, 1234, true);
  EXPECT_TRUE(testing::near_bf16(all, one, 0, 0));
}

TEST(Rope, FarPositionsKeepThePrecisionOfTheAngle) {
  const RopeTable table(kWindow);
  float cosines[32], sines[32];
  table.angles(1'000'000, cosines, sines);
  EXPECT_FLOAT_EQ(cosines[0], std::cos(1e6f));
  EXPECT_FLOAT_EQ(sines[0], std::sin(1e6f));
}

}  // namespace
}  // namespace dsv
