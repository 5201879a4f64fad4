// The arithmetic that cards share with the host gives the bytes of the kernel table.
#include "cuda/arithmetic.h"

#include <cmath>
#include <cstring>

#include "cuda/emulated_device.h"
#include "stages/kernels/kernels.h"
#include "tests/kernels/samples.h"
#include "tests/kernels/variants.h"

namespace dsv::cuda {
namespace {

using dsv::testing::Samples;

/// The integer of column `i`, in units of 2^-9.
std::int32_t units(const Digits& digits, int i) {
  const auto digit = [&](const std::uint32_t* words) {
    return static_cast<std::int8_t>(words[i / 4] >> (i % 4 * 8));
  };
  return digit(digits.coarse) * 2048 + digit(digits.middle) * 8 + digit(digits.fine);
}

/// Blocks that are hard to quantize: every magnitude, ties, zeros, what is not finite.
std::vector<std::vector<bf16>> hard_blocks() {
  std::vector<std::vector<bf16>> blocks;
  Samples samples(3);
  for (const float deviation : {1e-8f, 1e-4f, 1.0f, 300.0f, 1e6f, 1e30f}) {
    for (int i = 0; i < 50; ++i) blocks.push_back(samples.bf16s(kBlock, deviation));
  }
  blocks.emplace_back(kBlock, bf16(0.0f));
  for (int exponent = 0; exponent < 20; ++exponent) {  // one large value next to small ones: all digits count
    std::vector<bf16> block;
    for (int i = 0; i < kBlock; ++i) {
      block.emplace_back(std::ldexp(static_cast<float>(i % 16 + 8) * (i % 3 ? 1.0f : -1.0f), -exponent));
    }
    block[5] = bf16(448.0f);
    blocks.push_back(std::move(block));
  }
  for (const float odd : {INFINITY, -INFINITY, std::nanf("")}) {
    blocks.push_back(samples.bf16s(kBlock));
    blocks.back()[7] = bf16(odd);
  }
  return blocks;
}

TEST(CardArithmetic, DecodesEveryPairOfFp4CodesToTwiceTheirValuesInColumnOrder) {
  for (std::uint32_t codes = 0; codes < 0x10000; ++codes) {
    const std::uint32_t bytes = twice_e2m1(codes);
    for (int i = 0; i < 4; ++i) {
      const auto code = static_cast<std::uint8_t>(codes >> (4 * i) & 15);
      ASSERT_EQ(static_cast<float>(static_cast<std::int8_t>(bytes >> (8 * i))), 2 * e2m1_value(code))
          << "codes " << codes << " column " << i;
    }
  }
}

TEST(CardArithmetic, CountsEveryE4m3CodeInItsUnits) {
  for (int code = 0; code < 256; ++code) {
    const auto c = static_cast<std::uint8_t>(code);
    const float value = (c & 0x7f) == 0x7f ? 0.0f : e4m3_value(c);
    ASSERT_EQ(static_cast<float>(e4m3_units(c)), value * 512) << code;
  }
}

TEST(CardArithmetic, QuantizesActivationsToTheCodesAndScalesOfTheKernelTable) {
  const Kernels& portable = *all_kernels().front();
  for (const auto& block : hard_blocks()) {
    std::uint8_t codes[kBlock], scale = 0;
    portable.quantize_fp8(block.data(), kBlock, codes, &scale);
    const Digits digits = quantize_block(block.data());
    bool nan = false;
    for (int i = 0; i < kBlock; ++i) {
      ASSERT_EQ(units(digits, i), e4m3_units(codes[i]))
          << static_cast<float>(block[static_cast<std::size_t>(i)]);
      nan |= (codes[i] & 0x7f) == 0x7f;
    }
    if (nan) {
      EXPECT_TRUE(std::isnan(digits.scale));
    } else {
      EXPECT_EQ(digits.scale, e8m0_value(scale) * 0x1p-10f);
    }
  }
}

class CardKernels : public dsv::testing::VariantTest {};

TEST_P(CardKernels, GatesEveryBf16ValueAsTheKernelTableDoes) {
  Samples samples(5);
  const std::vector<bf16> up = samples.bf16s(0x10000, 4);
  std::vector<bf16> gate(0x10000), expected(0x10000);
  for (std::size_t i = 0; i < gate.size(); ++i) gate[i].bits = static_cast<std::uint16_t>(i);
  for (const float limit : {0.0f, 1.0f, 10.0f}) {
    kernels().swiglu(gate.data(), up.data(), 0x10000, limit, 0.37f, expected.data());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const bf16 actual = swiglu(gate[i], up[i], limit, 0.37f);
      if (std::isnan(static_cast<float>(expected[i]))) {
        ASSERT_TRUE(std::isnan(static_cast<float>(actual))) << i;
      } else {
        ASSERT_EQ(actual.bits, expected[i].bits)
            << "gate " << static_cast<float>(gate[i]) << " limit " << limit;
      }
    }
  }
}

/// One expert with random weights, and what the kernel table makes of some rows.
struct Expert {
  Expert(Samples& samples, std::int64_t dim, std::int64_t inter)
      : w1(testing::fp4_weight(samples, inter, dim)),
        w2(testing::fp4_weight(samples, dim, inter)),
        w3(testing::fp4_weight(samples, inter, dim)) {}
  std::vector<bf16> host(const Kernels& kernels, const std::vector<bf16>& x,
                         const std::vector<float>& weights, float limit) const {
    const auto tokens = static_cast<std::int64_t>(weights.size());
    const std::int64_t dim = w1.matrix.cols, inter = w1.matrix.rows;
    std::vector<bf16> g(static_cast<std::size_t>(tokens * inter)), u(g), hidden(g);
    std::vector<bf16> y(static_cast<std::size_t>(tokens * dim));
    QuantizedActivations q;
    q.assign(kernels, x.data(), tokens, dim, dim);
    kernels.fp4_product(w1.matrix, q, {0, inter}, g.data(), inter);
    kernels.fp4_product(w3.matrix, q, {0, inter}, u.data(), inter);
    for (std::int64_t t = 0; t < tokens; ++t) {
      kernels.swiglu(g.data() + t * inter, u.data() + t * inter, inter, limit,
                     weights[static_cast<std::size_t>(t)], hidden.data() + t * inter);
    }
    q.assign(kernels, hidden.data(), tokens, inter, inter);
    kernels.fp4_product(w2.matrix, q, {0, dim}, y.data(), dim);
    return y;
  }
  testing::SampleWeight<Fp4Matrix> w1, w2, w3;
};

/// Codes that begin at a multiple of 16 bytes.
struct Aligned {
  explicit Aligned(const std::vector<std::uint8_t>& codes) : words((codes.size() + 15) / 16) {
    std::memcpy(static_cast<void*>(words.data()), codes.data(), codes.size());
  }
  const std::uint8_t* data() const { return reinterpret_cast<const std::uint8_t*>(words.data()); }
  std::vector<PackedBlock> words;
};

TEST_P(CardKernels, ComputeExpertsToTheBitsOfTheKernelTable) {
  struct Shape {
    int dim, inter, tokens;
  };
  // Blocks and rows that fill no warp, more than one group of blocks, and every tile of tokens.
  for (const Shape s :
       {Shape{32, 32, 1}, {96, 64, 2}, {1088, 96, 3}, {160, 1056, 4}, {64, 96, 7}, {128, 64, 64}}) {
    Samples samples(static_cast<unsigned>(s.dim + s.tokens));
    const Expert experts[] = {{samples, s.dim, s.inter}, {samples, s.dim, s.inter}};
    const std::vector<bf16> x = samples.bf16s(std::int64_t{s.tokens} * s.dim);
    const std::vector<float> weights = samples.floats(2 * s.tokens);
    // Both experts take all tokens, the second in reverse.
    std::vector<std::int32_t> tokens;
    for (int t = 0; t < s.tokens; ++t) tokens.push_back(t);
    for (int t = s.tokens; t-- > 0;) tokens.push_back(t);
    std::vector<Aligned> codes;
    ExpertGroup group;
    for (const Expert& e : experts) {
      for (const auto* w : {&e.w1, &e.w2, &e.w3}) codes.emplace_back(w->codes);
      const Aligned* c = &codes[codes.size() - 3];
      group.experts[group.size] = {{c[0].data(), e.w1.scales.data()},
                                   {c[1].data(), e.w2.scales.data()},
                                   {c[2].data(), e.w3.scales.data()},
                                   group.size * s.tokens,
                                   s.tokens};
      ++group.size;
    }
    const auto pairs = static_cast<std::size_t>(2 * s.tokens), dim = static_cast<std::size_t>(s.dim),
               inter = static_cast<std::size_t>(s.inter);
    std::vector<Digits> digits(x.size() / kBlock), hidden_digits(pairs * inter / kBlock);
    std::vector<bf16> hidden(pairs * inter), y(pairs * dim);
    const float limit = 3;
    emulate(Quantize{x.data(), digits.data(), static_cast<int>(digits.size())});
    emulate(
        GateUp{group, digits.data(), tokens.data(), weights.data(), hidden.data(), s.dim, s.inter, limit});
    emulate(Quantize{hidden.data(), hidden_digits.data(), static_cast<int>(hidden_digits.size())});
    emulate(Down{group, hidden_digits.data(), y.data(), s.dim, s.inter});
    for (std::size_t e = 0; e < 2; ++e) {
      std::vector<bf16> rows;
      for (std::size_t i = 0; i < pairs / 2; ++i) {
        const auto row = x.begin() + tokens[e * pairs / 2 + i] * s.dim;
        rows.insert(rows.end(), row, row + s.dim);
      }
      const std::vector<float> share(weights.begin() + static_cast<std::ptrdiff_t>(e * pairs / 2),
                                     weights.begin() + static_cast<std::ptrdiff_t>((e + 1) * pairs / 2));
      const std::vector<bf16> expected = experts[e].host(kernels(), rows, share, limit);
      ASSERT_EQ(std::memcmp(y.data() + e * expected.size(), expected.data(), expected.size() * sizeof(bf16)),
                0)
          << s.dim << " x " << s.inter << ", " << s.tokens << " tokens, expert " << e;
    }
  }
}

DSV_FOR_EVERY_VARIANT(CardKernels);

}  // namespace
}  // namespace dsv::cuda
