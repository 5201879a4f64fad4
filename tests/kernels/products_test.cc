// Matrix products of every variant: against the reference, against fp64 sums, and under any split of the
// work.
#include <gtest/gtest.h>

#include <functional>

#include "tests/golden/golden_file.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/samples.h"
#include "tests/kernels/tile_sums.h"
#include "tests/kernels/variants.h"

namespace dsv {
namespace {

using testing::golden_ops;
using testing::Samples;

struct Shape {
  std::int64_t tokens, rows, cols;
};
// Odd counts of rows, tokens and blocks, and enough of them to pass every tile of every variant.
const Shape kShapes[] = {{1, 1, 32},   {1, 7, 64},     {2, 33, 96},  {3, 40, 160},
                         {5, 64, 512}, {17, 37, 1088}, {67, 70, 544}};

class Products : public testing::VariantTest {
 protected:
  static QuantizedActivations quantized(const Kernels& k, const std::vector<bf16>& x, std::int64_t tokens) {
    QuantizedActivations q;
    const auto cols = static_cast<std::int64_t>(x.size()) / tokens;
    q.assign(k, x.data(), tokens, cols, cols);
    return q;
  }
};

/// One kind of product over one sampled weight: y [tokens, rows] of x [tokens, cols] for a range of rows.
template <class Y>
using Run = std::function<void(const Kernels&, const bf16* x, std::int64_t tokens, Range rows, Y* y)>;

Run<bf16> run_of(const Fp8Matrix& w) {
  return [w](const Kernels& k, const bf16* x, std::int64_t tokens, Range rows, bf16* y) {
    QuantizedActivations q;
    q.assign(k, x, tokens, w.cols, w.cols);
    k.fp8_product(w, q, rows, y, w.rows);
  };
}
Run<bf16> run_of(const Fp4Matrix& w) {
  return [w](const Kernels& k, const bf16* x, std::int64_t tokens, Range rows, bf16* y) {
    QuantizedActivations q;
    q.assign(k, x, tokens, w.cols, w.cols);
    k.fp4_product(w, q, rows, y, w.rows);
  };
}
Run<bf16> run_bf16_input(const Fp8Matrix& w) {
  return [w](const Kernels& k, const bf16* x, std::int64_t tokens, Range rows, bf16* y) {
    k.fp8_bf16_product(w, x, tokens, w.cols, rows, y, w.rows);
  };
}
Run<float> run_of(const Bf16Matrix& w) {
  return [w](const Kernels& k, const bf16* x, std::int64_t tokens, Range rows, float* y) {
    k.bf16_product(w, x, tokens, w.cols, rows, y, w.rows);
  };
}
Run<float> run_of(const F32Matrix& w) {
  return [w](const Kernels& k, const bf16* x, std::int64_t tokens, Range rows, float* y) {
    k.f32_product(w, x, tokens, w.cols, rows, y, w.rows);
  };
}

template <class Y>
std::vector<Y> whole(const Run<Y>& run, const Kernels& k, const std::vector<bf16>& x, const Shape& s) {
  std::vector<Y> y(static_cast<std::size_t>(s.tokens * s.rows));
  run(k, x.data(), s.tokens, {0, s.rows}, y.data());
  return y;
}

template <class Y>
void expect_same_bits(const std::vector<Y>& actual, const std::vector<Y>& expected, const Shape& s) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(static_cast<float>(actual[i]), static_cast<float>(expected[i]))
        << "token " << i / static_cast<std::size_t>(s.rows) << " row " << i % static_cast<std::size_t>(s.rows)
        << " of " << s.tokens << " x " << s.rows << " x " << s.cols;
  }
}

/// Every token alone, and uneven slices of rows, give the bytes of the whole product.
template <class Y>
void expect_split_invariance(const Run<Y>& run, const Kernels& k, const std::vector<bf16>& x,
                             const Shape& s) {
  const auto expected = whole(run, k, x, s);
  std::vector<Y> single(expected.size()), sliced(expected.size());
  for (std::int64_t t = 0; t < s.tokens; ++t)
    run(k, x.data() + t * s.cols, 1, {0, s.rows}, single.data() + t * s.rows);
  for (std::int64_t r = 0, n = 1; r < s.rows; r += n, n = n % 6 + 1) {
    run(k, x.data(), s.tokens, {r, std::min(r + n, s.rows)}, sliced.data());
  }
  expect_same_bits(single, expected, s);
  expect_same_bits(sliced, expected, s);
}

/// What fp64 makes of one element, and the sum of the magnitudes of its terms.
struct Exact {
  double sum = 0, magnitude = 0;
  template <class Matrix>
  Exact(const Matrix& w, const std::vector<bf16>& x, std::int64_t t, std::int64_t r) {
    for (std::int64_t c = 0; c < w.cols; ++c) {
      const double term =
          testing::weight_value(w, r, c) * static_cast<float>(x[static_cast<std::size_t>(t * w.cols + c)]);
      sum += term, magnitude += std::fabs(term);
    }
  }
};

/// How often a term is rounded, at most: in a lane of sixteen, or in a chain of 16, in the sum of two chains,
/// in a tile of 512 columns and at the end.
std::int64_t lane_roundings(std::int64_t cols) {
  return cols / 16 + 8;
}
std::int64_t tile_roundings(std::int64_t cols) {
  return 16 + 1 + std::min<std::int64_t>(cols, 512) / 32 + 1;
}

/// |y - exact| stays within fp32's error of so many roundings of the terms and one rounding to Y.
template <class Y, class Matrix>
void expect_near_fp64(const std::vector<Y>& y, const Matrix& w, const std::vector<bf16>& x, const Shape& s,
                      std::int64_t roundings) {
  const double rounding = std::is_same_v<Y, bf16> ? 0x1p-8 : 0x1p-24;
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const Exact exact(w, x, t, r);
      const double bound =
          std::fabs(exact.sum) * rounding + exact.magnitude * 0x1p-24 * static_cast<double>(roundings);
      ASSERT_NEAR(static_cast<float>(y[static_cast<std::size_t>(t * s.rows + r)]), exact.sum, bound)
          << "token " << t << " row " << r << " of " << s.tokens << " x " << s.rows << " x " << s.cols;
    }
  }
}

/// Two orders of the same sums differ by what both round: at most half a bf16 step each, and fp32's errors.
void expect_near_other_order(const std::vector<bf16>& tiles, const std::vector<bf16>& lanes,
                             const Fp8Matrix& w, const std::vector<bf16>& x, const Shape& s) {
  const auto roundings = static_cast<double>(tile_roundings(s.cols) + lane_roundings(s.cols));
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    const float a = static_cast<float>(tiles[i]), b = static_cast<float>(lanes[i]);
    const double magnitude = Exact(w, x, place / s.rows, place % s.rows).magnitude;
    ASSERT_NEAR(a, b, (std::fabs(a) + std::fabs(b)) * 0x1p-8 + magnitude * 0x1p-24 * roundings)
        << "token " << place / s.rows << " row " << place % s.rows;
  }
}

/// Bf16 rows that their quantization leaves as they are.
std::vector<bf16> round_tripped(const Kernels& k, std::vector<bf16> x) {
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<std::uint8_t> codes(x.size()), scales(x.size() / 32);
  k.quantize_fp8(x.data(), n, codes.data(), scales.data());
  k.dequantize_fp8(codes.data(), scales.data(), n, x.data());
  return x;
}

template <class Y, class Matrix>
void check(const Run<Y>& run, const Kernels& k, const Kernels& portable, const Matrix& w,
           const std::vector<bf16>& x, const Shape& s) {
  const auto y = whole(run, k, x, s);
  expect_near_fp64(y, w, x, s, lane_roundings(s.cols));
  expect_same_bits(y, whole(run, portable, x, s), s);
  expect_split_invariance(run, k, x, s);
}

bool sums_fp8_in_tiles(const Kernels& k) {
  return k.name == "amx";
}

/// The same of an fp8 weight, whose sums have an order of their own in tiles.
void check_fp8(const Run<bf16>& run, const Kernels& k, const Kernels& portable, const Fp8Matrix& w,
               const std::vector<bf16>& x, const Shape& s) {
  if (!sums_fp8_in_tiles(k)) return check<bf16>(run, k, portable, w, x, s);
  const auto y = whole(run, k, x, s);
  expect_near_fp64(y, w, x, s, tile_roundings(s.cols));
  expect_near_other_order(y, whole(run, portable, x, s), w, x, s);
  expect_same_bits(y, testing::tile_product(w, x), s);
  expect_split_invariance(run, k, x, s);
}

TEST_P(Products, QuantizedProductsEqualTheReferenceWithinOneStep) {
  for (const std::string shape : {"1x96x160", "5x64x256"}) {
    for (const std::string format : {"fp8", "fp4"}) {
      const std::string name = format + "_gemm." + shape;
      SCOPED_TRACE(name);
      const auto &a = golden_ops()[name + ".a"], &out = golden_ops()[name + ".out"];
      const std::int64_t tokens = a.dim(0), cols = a.dim(1), rows = out.dim(1);
      const auto codes = a.as<std::uint8_t>(), scales = golden_ops()[name + ".a_scale"].as<std::uint8_t>();
      std::vector<bf16> x(codes.size()), y(static_cast<std::size_t>(tokens * rows));
      kernels().dequantize_fp8(codes.data(), scales.data(), tokens * cols, x.data());
      const auto w_scale = golden_ops()[name + ".w_scale"].as<std::uint8_t>();
      const auto w = golden_ops()[name + (format == "fp8" ? ".w" : ".w_packed")].as<std::uint8_t>();
      const auto run = format == "fp8" ? run_of(Fp8Matrix{w.data(), w_scale.data(), rows, cols, 32})
                                       : run_of(Fp4Matrix{w.data(), w_scale.data(), rows, cols});
      run(kernels(), x.data(), tokens, {0, rows}, y.data());
      EXPECT_TRUE(testing::near_bf16(y, out.as<bf16>(), 1, 0.01));
    }
  }
}

TEST_P(Products, Fp8SumsAreRightAndTheSameForAnySplit) {
  Samples samples(11);
  for (const Shape& s : kShapes) {
    const auto w = testing::fp8_weight(samples, s.rows, s.cols, s.cols % 64 ? 32 : 5);
    const auto x = round_tripped(portable(), samples.bf16s(s.tokens * s.cols));
    check_fp8(run_of(w.matrix), kernels(), portable(), w.matrix, x, s);
  }
}

TEST_P(Products, Fp8RowsAreTheSameForAnyNumberOfTokens) {
  Samples samples(17);
  const Shape all{70, 37, 1056};
  for (const std::int64_t block_rows : {1, 5, 32, 128}) {
    const auto w = testing::fp8_weight(samples, all.rows, all.cols, block_rows);
    const auto x = round_tripped(portable(), samples.bf16s(all.tokens * all.cols));
    const auto run = run_of(w.matrix);
    const auto expected = whole(run, kernels(), x, all);
    for (std::int64_t tokens = 1; tokens <= all.tokens; tokens += block_rows == 5 ? 1 : 23) {
      const Shape s{tokens, all.rows, all.cols};
      std::vector<bf16> y(static_cast<std::size_t>(tokens * s.rows));
      for (const Range rows : {Range{0, 1}, Range{1, 4}, Range{4, 21}, Range{21, 37}})
        run(kernels(), x.data(), tokens, rows, y.data());
      expect_same_bits(y, {expected.begin(), expected.begin() + tokens * s.rows}, s);
    }
  }
}

TEST_P(Products, Fp8SumsAreRightForEveryScaleAtWhichProductsAreNormal) {
  Samples samples(18);
  for (const int exponent : {-117, -100, -50, 50, 100, 118}) {
    for (const Shape& s : {Shape{1, 33, 96}, Shape{5, 33, 96}}) {
      auto w = testing::fp8_weight(samples, s.rows, s.cols);
      for (auto& scale : w.scales)
        scale = static_cast<std::uint8_t>(127 + exponent + samples.bytes(1)[0] % 2);
      auto x = samples.bf16s(s.tokens * s.cols);
      for (auto& v : x) v = bf16(std::ldexp(static_cast<float>(v), std::clamp(-exponent, -110, 110)));
      check_fp8(run_bf16_input(w.matrix), kernels(), portable(), w.matrix, x, s);
    }
  }
}

TEST_P(Products, TilesTakeProductsBelowTheNormalRangeAsZeros) {
  if (!sums_fp8_in_tiles(kernels())) GTEST_SKIP() << kernels().name << " keeps them";
  Samples samples(19);
  const Shape s{19, 33, 96};
  auto w = testing::fp8_weight(samples, s.rows, s.cols);
  for (auto& scale : w.scales) scale = static_cast<std::uint8_t>(127 - 110 - samples.bytes(1)[0] % 17);
  auto x = samples.bf16s(s.tokens * s.cols);
  for (auto& v : x) v = bf16(std::ldexp(static_cast<float>(v), -15));
  const auto run = run_bf16_input(w.matrix);
  expect_same_bits(whole(run, kernels(), x, s), testing::tile_product(w.matrix, x), s);
  expect_split_invariance(run, kernels(), x, s);
}

TEST_P(Products, Fp4SumsAreRightAndTheSameForAnySplit) {
  Samples samples(12);
  for (const Shape& s : kShapes) {
    const auto w = testing::fp4_weight(samples, s.rows, s.cols);
    const auto x = round_tripped(portable(), samples.bf16s(s.tokens * s.cols));
    check<bf16>(run_of(w.matrix), kernels(), portable(), w.matrix, x, s);
  }
}

TEST_P(Products, Fp4SumsAreExactForActivationsOfEveryCode) {
  Samples samples(16);
  for (const Shape& s : kShapes) {
    const auto w = testing::fp4_weight(samples, s.rows, s.cols);
    const auto n = s.tokens * s.cols;
    const auto codes = samples.e4m3(n), scales = samples.scales(n / 32);
    std::vector<bf16> x(static_cast<std::size_t>(n));
    portable().dequantize_fp8(codes.data(), scales.data(), n, x.data());
    check<bf16>(run_of(w.matrix), kernels(), portable(), w.matrix, x, s);
  }
}

TEST_P(Products, Fp8WeightsMeetBf16InputsUnquantized) {
  Samples samples(13);
  for (const Shape& s : kShapes) {
    const auto w = testing::fp8_weight(samples, s.rows, s.cols);
    check_fp8(run_bf16_input(w.matrix), kernels(), portable(), w.matrix, samples.bf16s(s.tokens * s.cols), s);
  }
}

TEST_P(Products, Bf16AndFp32SumsAreRightForAnyNumberOfColumns) {
  Samples samples(14);
  for (Shape s : kShapes) {
    for (const std::int64_t extra : {0, 1, 12, 31}) {
      s.cols += extra;
      const auto w = samples.bf16s(s.rows * s.cols);
      const auto v = samples.floats(s.rows * s.cols);
      const auto x = samples.bf16s(s.tokens * s.cols);
      const Bf16Matrix wide{w.data(), s.rows, s.cols};
      const F32Matrix full{v.data(), s.rows, s.cols};
      check<float>(run_of(wide), kernels(), portable(), wide, x, s);
      check<float>(run_of(full), kernels(), portable(), full, x, s);
    }
  }
}

TEST_P(Products, BlocksOfExtremeCodesAreSummedExactly) {
  // One block of 32: the largest products, the smallest, and both with alternating signs.
  for (const auto& [weight, low, high] : {std::tuple{0x77, 448.0f, 448.0f},
                                          {0xff, 448.0f, 448.0f},
                                          {0xf7, 448.0f, 448.0f},
                                          {0x7f, 0x1p-9f, 448.0f},
                                          {0x11, 0x1p-9f, 448.0f}}) {
    std::vector<bf16> x(32, bf16(low));
    x[31] = bf16(high);
    const std::vector<std::uint8_t> codes(16, static_cast<std::uint8_t>(weight)), scales{127};
    const Fp4Matrix w{codes.data(), scales.data(), 1, 32};
    double exact = 0;
    for (std::int64_t c = 0; c < 32; ++c)
      exact += testing::weight_value(w, 0, c) * static_cast<float>(x[static_cast<std::size_t>(c)]);
    bf16 y;
    run_of(w)(kernels(), x.data(), 1, {0, 1}, &y);
    EXPECT_EQ(y.bits, bf16(static_cast<float>(exact)).bits) << "weight byte " << weight << " " << low;
  }
}

TEST_P(Products, NanActivationsAndNanScalesShowInTheResult) {
  Samples samples(15);
  const std::int64_t cols = 160;
  auto w8 = testing::fp8_weight(samples, 3, cols);
  auto w4 = testing::fp4_weight(samples, 3, cols);
  auto x = samples.bf16s(cols);
  w4.scales[5 + 2] = 255;  // row 1 only
  std::vector<bf16> y(3);
  run_of(w4.matrix)(kernels(), x.data(), 1, {0, 3}, y.data());
  EXPECT_TRUE(std::isfinite(static_cast<float>(y[0])));
  EXPECT_FALSE(std::isfinite(static_cast<float>(y[1])));
  x[40] = bf16(std::nanf(""));
  run_of(w4.matrix)(kernels(), x.data(), 1, {0, 3}, y.data());
  EXPECT_TRUE(std::isnan(static_cast<float>(y[0])));
  run_of(w8.matrix)(kernels(), x.data(), 1, {0, 3}, y.data());
  EXPECT_TRUE(std::isnan(static_cast<float>(y[2])));
}

TEST_P(Products, NanScalesOfFp8WeightsShowInTheirRows) {
  Samples samples(20);
  for (const Shape& s : {Shape{1, 20, 1056}, Shape{6, 20, 1056}}) {
    auto w = testing::fp8_weight(samples, s.rows, s.cols, 7);
    w.scales[1 * 33 + 32] = 255;  // rows 7 .. 13
    const auto y = whole(run_of(w.matrix), kernels(), samples.bf16s(s.tokens * s.cols), s);
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(std::isfinite(static_cast<float>(y[i])), i % 20 < 7 || i % 20 > 13) << i;
  }
}

DSV_FOR_EVERY_VARIANT(Products);

}  // namespace
}  // namespace dsv
