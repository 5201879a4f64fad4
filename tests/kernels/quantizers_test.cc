// The activation quantizers and their inverses, bit for bit against the reference, in every variant.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/golden/golden_file.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/variants.h"

namespace dsv {
namespace {

using testing::golden_ops;

/// One format: its kernels and the golden tensors it must reproduce.
struct Format {
  const char *codes, *scales, *roundtrip;
  int group, codes_per_byte;
  decltype(Kernels::quantize_fp8) Kernels::*quantize;
  decltype(Kernels::dequantize_fp8) Kernels::*dequantize;
};

const Format kFormats[] = {
    {"quant.fp8_values", "quant.fp8_scales", "quant.fp8_roundtrip", 32, 1, &Kernels::quantize_fp8,
     &Kernels::dequantize_fp8},
    {"quant.fp4_e8m0_packed", "quant.fp4_e8m0_scales", "quant.fp4_e8m0_roundtrip", 32, 2,
     &Kernels::quantize_fp4_e8m0, &Kernels::dequantize_fp4_e8m0},
    {"quant.fp4_e4m3_packed", "quant.fp4_e4m3_scales", "quant.fp4_e4m3_roundtrip", 16, 2,
     &Kernels::quantize_fp4_e4m3, &Kernels::dequantize_fp4_e4m3},
};

class Quantizers : public testing::VariantTest {
 protected:
  /// Codes, scales and round trip of one row.
  struct Row {
    std::vector<std::uint8_t> codes, scales;
    std::vector<bf16> values;
  };
  static Row quantize(const Kernels& k, const Format& f, std::span<const bf16> x) {
    const auto cols = static_cast<std::int64_t>(x.size());
    Row row{std::vector<std::uint8_t>(x.size() / static_cast<std::size_t>(f.codes_per_byte)),
            std::vector<std::uint8_t>(x.size() / static_cast<std::size_t>(f.group)),
            std::vector<bf16>(x.size())};
    (k.*f.quantize)(x.data(), cols, row.codes.data(), row.scales.data());
    (k.*f.dequantize)(row.codes.data(), row.scales.data(), cols, row.values.data());
    return row;
  }
};

template <class T>
std::vector<T> row_of(const std::vector<T>& all, std::int64_t row, std::int64_t rows) {
  const auto width = static_cast<std::ptrdiff_t>(all.size()) / rows;
  return {all.begin() + row * width, all.begin() + (row + 1) * width};
}

TEST_P(Quantizers, CodesScalesAndRoundTripsEqualTheReference) {
  const auto& x = golden_ops()["quant.x"];
  const auto values = x.as<bf16>();
  for (const Format& f : kFormats) {
    const auto codes = golden_ops()[f.codes].as<std::uint8_t>();
    const auto scales = golden_ops()[f.scales].as<std::uint8_t>();
    const auto roundtrip = golden_ops()[f.roundtrip].as<bf16>();
    for (std::int64_t r = 0; r < x.dim(0); ++r) {
      SCOPED_TRACE(std::string(f.codes) + " row " + std::to_string(r));
      const Row row = quantize(kernels(), f, row_of(values, r, x.dim(0)));
      EXPECT_EQ(row.codes, row_of(codes, r, x.dim(0)));
      EXPECT_EQ(row.scales, row_of(scales, r, x.dim(0)));
      EXPECT_TRUE(testing::near_bf16(row.values, row_of(roundtrip, r, x.dim(0)), 0, 0));
    }
  }
}

TEST_P(Quantizers, EveryBf16ValueIsEncodedAsByThePortableVariant) {
  std::mt19937 random(1);
  std::vector<bf16> x(std::size_t{1} << 16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<std::uint16_t>(i * 40503u);
  for (const Format& f : kFormats) {
    const Row actual = quantize(kernels(), f, x), expected = quantize(portable(), f, x);
    EXPECT_EQ(actual.scales, expected.scales) << f.scales;
    EXPECT_EQ(actual.codes, expected.codes) << f.codes;
  }
  for (bf16& v : x)
    v = bf16(std::ldexp(static_cast<float>(random() % 4001) - 2000.0f, static_cast<int>(random() % 20) - 16));
  for (const Format& f : kFormats) {
    const Row actual = quantize(kernels(), f, x), expected = quantize(portable(), f, x);
    EXPECT_EQ(actual.scales, expected.scales) << f.scales;
    EXPECT_EQ(actual.codes, expected.codes) << f.codes;
    EXPECT_TRUE(testing::near_bf16(actual.values, expected.values, 0, 0)) << f.codes;
  }
}

TEST_P(Quantizers, EveryCodeIsDecodedAsByThePortableVariant) {
  std::vector<std::uint8_t> codes(256 * 32), scales(256 * 32 / 16);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::uint8_t>(i * 37);
  for (const Format& f : kFormats) {
    std::vector<bf16> actual(codes.size() * static_cast<std::size_t>(f.codes_per_byte)),
        expected(actual.size());
    const auto cols =
        static_cast<std::int64_t>(std::min(actual.size(), scales.size() * static_cast<std::size_t>(f.group)));
    (kernels().*f.dequantize)(codes.data(), scales.data(), cols, actual.data());
    (portable().*f.dequantize)(codes.data(), scales.data(), cols, expected.data());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::isnan(static_cast<float>(expected[i]))) {
        ASSERT_TRUE(std::isnan(static_cast<float>(actual[i]))) << f.codes << " element " << i;
      } else {
        ASSERT_EQ(actual[i].bits, expected[i].bits) << f.codes << " element " << i;
      }
    }
  }
}

TEST_P(Quantizers, ANanInABlockIsNotLost) {
  std::vector<bf16> x(32, bf16(1.0f));
  x[5] = bf16(std::numeric_limits<float>::quiet_NaN());
  const Row row = quantize(kernels(), kFormats[0], x);
  EXPECT_TRUE(std::isnan(static_cast<float>(row.values[5])));
  EXPECT_EQ(static_cast<float>(row.values[6]), 1.0f);
}

DSV_FOR_EVERY_VARIANT(Quantizers);

}  // namespace
}  // namespace dsv
