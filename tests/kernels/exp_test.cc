// The exponential that all variants share, here in the portable lanes. That the other lanes give the same
// bits is part of what the tests of attention and of the expert activation compare.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "stages/kernels/tables.h"

namespace dsv::portable {
namespace {

// clang-format off
#include "stages/kernels/lanes_portable.inc"
#include "stages/kernels/generic_exp.inc"
// clang-format on

TEST(Exponential, IsWithinOneUlpOverItsWholeRange) {
  double worst = 0;
  float at = 0;
  for (float x = -87.0f; x <= 88.0f; x += 0.000731f) {
    const double exact = std::exp(double{x});
    const float rounded = static_cast<float>(exact);
    const double error = std::fabs(exp_scalar(x) - exact) / (std::nextafter(rounded, 3e38f) - rounded);
    if (error > worst) worst = error, at = x;
  }
  EXPECT_LE(worst, 1.0) << "at " << at;
}

TEST(Exponential, EndsInZeroAndInfinityAndKeepsNan) {
  EXPECT_EQ(exp_scalar(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(exp_scalar(-87.5f), 0.0f);
  EXPECT_EQ(exp_scalar(-1e30f), 0.0f);
  EXPECT_EQ(exp_scalar(0.0f), 1.0f);
  EXPECT_EQ(exp_scalar(88.5f), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(exp_scalar(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace dsv::portable
