// Norms, expert activation and hyper-connection mixing of every variant: against fp64 and equal to the
// portable one.
#include <gtest/gtest.h>

#include "tests/kernels/compare.h"
#include "tests/kernels/samples.h"
#include "tests/kernels/variants.h"

namespace dsv {
namespace {

using testing::near_bf16;
using testing::Samples;

class Elementwise : public testing::VariantTest {};
const std::int64_t kWidths[] = {1, 31, 32, 40, 96, 1000};

std::vector<bf16> rounded(const std::vector<double>& x) {
  std::vector<bf16> y;
  for (const double v : x) y.emplace_back(static_cast<float>(v));
  return y;
}

TEST_P(Elementwise, RmsNormDividesByTheRootOfTheMeanSquare) {
  Samples samples(31);
  for (const std::int64_t cols : kWidths) {
    const auto x = samples.bf16s(cols), w = samples.bf16s(cols);
    std::vector<bf16> y(x), expected(x);
    kernels().rms_norm(x.data(), w.data(), cols, 1e-6f, y.data());
    portable().rms_norm(x.data(), w.data(), cols, 1e-6f, expected.data());
    EXPECT_TRUE(near_bf16(y, expected, 0, 0)) << cols;
    double squares = 0;
    for (const bf16 v : x) squares += double{static_cast<float>(v)} * static_cast<float>(v);
    EXPECT_NEAR(kernels().sum_of_squares(x.data(), cols), squares, squares * 1e-5);
    std::vector<double> exact;
    for (std::size_t i = 0; i < x.size(); ++i) {
      exact.push_back(static_cast<float>(w[i]) * static_cast<float>(x[i]) /
                      std::sqrt(squares / static_cast<double>(cols) + 1e-6));
    }
    EXPECT_TRUE(near_bf16(y, rounded(exact), 1, 0.03)) << cols;
  }
}

TEST_P(Elementwise, SwigluClampsGatesFromAboveAndValuesFromBothSides) {
  Samples samples(32);
  for (const std::int64_t cols : kWidths) {
    for (const float limit : {0.0f, 1.5f}) {
      auto g = samples.bf16s(cols, 3), u = samples.bf16s(cols, 3);
      g[0] = bf16(-200.0f);
      std::vector<bf16> y(g), expected(g);
      kernels().swiglu(g.data(), u.data(), cols, limit, 0.75f, y.data());
      portable().swiglu(g.data(), u.data(), cols, limit, 0.75f, expected.data());
      EXPECT_TRUE(near_bf16(y, expected, 0, 0)) << cols << " limit " << limit;
      std::vector<double> exact;
      for (std::size_t i = 0; i < g.size(); ++i) {
        double a = static_cast<float>(g[i]), b = static_cast<float>(u[i]);
        if (limit > 0) a = std::min<double>(a, limit), b = std::clamp<double>(b, -limit, limit);
        exact.push_back(0.75 * (a / (1 + std::exp(-a)) * b));
      }
      exact[0] = 0;  // the sigmoid underflows
      EXPECT_TRUE(near_bf16(y, rounded(exact), 1, 0.03)) << cols << " limit " << limit;
    }
  }
}

TEST_P(Elementwise, CollapseAndExpandMixTheCopiesAlongTheRightAxis) {
  Samples samples(33);
  for (const std::int64_t copies : {1, 2, 4}) {
    for (const std::int64_t dim : kWidths) {
      const auto h = samples.bf16s(copies * dim), x = samples.bf16s(dim);
      const auto mix = samples.floats(copies), post = samples.floats(copies),
                 comb = samples.floats(copies * copies);
      std::vector<bf16> collapsed(x), expanded(h), expected_collapsed(x), expected_expanded(h);
      kernels().collapse(h.data(), mix.data(), copies, dim, collapsed.data());
      kernels().expand(x.data(), h.data(), post.data(), comb.data(), copies, dim, expanded.data());
      portable().collapse(h.data(), mix.data(), copies, dim, expected_collapsed.data());
      portable().expand(x.data(), h.data(), post.data(), comb.data(), copies, dim, expected_expanded.data());
      EXPECT_TRUE(near_bf16(collapsed, expected_collapsed, 0, 0));
      EXPECT_TRUE(near_bf16(expanded, expected_expanded, 0, 0));
      const auto value = [&](std::int64_t c, std::int64_t d) {
        return double{static_cast<float>(h[static_cast<std::size_t>(c * dim + d)])};
      };
      for (std::int64_t d = 0; d < dim; ++d) {
        for (std::int64_t k = 0; k < copies; ++k) {
          double sum = post[static_cast<std::size_t>(k)] *
                       double{static_cast<float>(x[static_cast<std::size_t>(d)])},
                 size = std::fabs(sum);
          for (std::int64_t c = 0; c < copies; ++c) {
            sum += comb[static_cast<std::size_t>(c * copies + k)] * value(c, d);
            size += std::fabs(comb[static_cast<std::size_t>(c * copies + k)] * value(c, d));
          }
          ASSERT_NEAR(static_cast<float>(expanded[static_cast<std::size_t>(k * dim + d)]), sum,
                      std::fabs(sum) * 0x1p-8 + size * 0x1p-21);
        }
      }
    }
  }
}

DSV_FOR_EVERY_VARIANT(Elementwise);

}  // namespace
}  // namespace dsv
