// The scalar formats against the reference's own decodings, and their encoders against every code.
#include "stages/kernels/formats.h"

#include <gtest/gtest.h>

#include <cmath>

#include "stages/kernels/tables.h"
#include "tests/golden/golden_file.h"

namespace dsv {
namespace {

using testing::golden_ops;

void expect_same_float(float actual, float expected, int code) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << "code " << code;
  } else {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(actual), std::bit_cast<std::uint32_t>(expected))
        << "code " << code;
  }
}

TEST(Formats, EveryCodeHasTheValueOfTheReference) {
  const auto e4m3 = golden_ops()["formats.e4m3_value"].as<float>();
  const auto e8m0 = golden_ops()["formats.e8m0_value"].as<float>();
  const auto e2m1 = golden_ops()["formats.e2m1_value"].as<float>();
  ASSERT_EQ(e4m3.size(), 256u);
  ASSERT_EQ(e8m0.size(), 256u);
  ASSERT_EQ(e2m1.size(), 16u);
  for (int c = 0; c < 256; ++c) {
    const auto i = static_cast<std::size_t>(c);
    expect_same_float(e4m3_value(static_cast<std::uint8_t>(c)), e4m3[i], c);
    expect_same_float(kE4m3[i], e4m3[i], c);
    expect_same_float(e8m0_value(static_cast<std::uint8_t>(c)), e8m0[i], c);
  }
  for (int c = 0; c < 16; ++c) {
    expect_same_float(e2m1_value(static_cast<std::uint8_t>(c)), e2m1[static_cast<std::size_t>(c)], c);
  }
}

TEST(Formats, EncodingADecodedValueGivesItsCode) {
  for (int c = 0; c < 256; ++c) {
    if ((c & 0x7f) == 0x7f) continue;
    EXPECT_EQ(e4m3_code(e4m3_value(static_cast<std::uint8_t>(c))), c);
  }
  for (int c = 0; c < 16; ++c) EXPECT_EQ(e2m1_code(e2m1_value(static_cast<std::uint8_t>(c))), c);
  for (int c = 1; c < 255; ++c) EXPECT_EQ(e8m0_ceil_code(e8m0_value(static_cast<std::uint8_t>(c))), c);
}

TEST(Formats, TheMiddleBetweenTwoCodesGoesToTheEvenOne) {
  for (int c = 0; c < 0x7e; ++c) {
    const float low = kE4m3[static_cast<std::size_t>(c)], high = kE4m3[static_cast<std::size_t>(c + 1)];
    const float middle = (low + high) / 2;
    EXPECT_EQ(e4m3_code(middle), c + (c & 1)) << middle;
    EXPECT_EQ(e4m3_code(std::nextafter(middle, 0.0f)), c) << middle;
    EXPECT_EQ(e4m3_code(-std::nextafter(middle, 1e9f)), 0x80 | (c + 1)) << middle;
  }
  for (int c = 0; c < 7; ++c) {
    const float middle =
        (e2m1_value(static_cast<std::uint8_t>(c)) + e2m1_value(static_cast<std::uint8_t>(c + 1))) / 2;
    EXPECT_EQ(e2m1_code(middle), c + (c & 1)) << middle;
    EXPECT_EQ(e2m1_code(-std::nextafter(middle, 0.0f)), 8 | c) << middle;
    EXPECT_EQ(e2m1_code(std::nextafter(middle, 9.0f)), c + 1) << middle;
  }
}

TEST(Formats, LargeValuesSaturate) {
  EXPECT_EQ(e4m3_code(1e9f), 0x7e);
  EXPECT_EQ(e4m3_code(-464.0f), 0xfe);
  EXPECT_EQ(e2m1_code(-1e9f), 0xf);
  EXPECT_EQ(e8m0_ceil_code(std::nextafter(1.0f, 2.0f)), 128);
}

}  // namespace
}  // namespace dsv
