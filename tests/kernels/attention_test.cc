// Sparse attention and index scores of every variant: against the reference, against fp64, and for any slice
// of heads.
#include <gtest/gtest.h>

#include "tests/golden/golden_file.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/samples.h"
#include "tests/kernels/variants.h"

namespace dsv {
namespace {

using testing::golden_ops;
using testing::Samples;

class Attention : public testing::VariantTest {
 protected:
  static std::vector<bf16> attend(const Kernels& k, AttentionQuery query, std::int64_t heads_at_once) {
    std::vector<bf16> out(static_cast<std::size_t>(query.heads * query.dim));
    std::vector<float> scratch(static_cast<std::size_t>(k.attention_scratch(query.dim)));
    query.out = out.data();
    for (std::int64_t h = 0; h < query.heads; h += heads_at_once) {
      k.attend(query, {h, std::min(h + heads_at_once, query.heads)}, scratch.data());
    }
    return out;
  }
};

TEST_P(Attention, OutputsEqualTheReferenceFor0To100Positions) {
  const auto q = golden_ops()["sparse_attn.q"].as<bf16>(), kv = golden_ops()["sparse_attn.kv"].as<bf16>();
  const auto sink = golden_ops()["sparse_attn.sink"].as<float>();
  const auto& index = golden_ops()["sparse_attn.idx"];
  const auto ids = index.as<std::int32_t>();
  const auto& shape = golden_ops()["sparse_attn.q"].shape;
  std::vector<bf16> out;
  for (std::int64_t i = 0; i < index.dim(0); ++i) {
    std::vector<const bf16*> rows;
    for (std::int64_t j = 0; j < index.dim(1); ++j) {
      const std::int32_t id = ids[static_cast<std::size_t>(i * index.dim(1) + j)];
      rows.push_back(id < 0 ? nullptr : kv.data() + id * shape[2]);
    }
    const auto one = attend(kernels(),
                            {.q = q.data() + i * shape[1] * shape[2],
                             .heads = shape[1],
                             .dim = shape[2],
                             .rows = rows,
                             .sink = sink.data(),
                             .scale = golden_ops()["sparse_attn.scale"].as<float>()[0]},
                            shape[1]);
    out.insert(out.end(), one.begin(), one.end());
  }
  EXPECT_TRUE(testing::near_bf16(out, golden_ops()["sparse_attn.out"].as<bf16>(), 1, 0.01));
}

/// A query over `count` list entries, every seventh unused.
struct SampleQuery {
  std::vector<bf16> q, kv;
  std::vector<float> sink;
  std::vector<const bf16*> rows;
  AttentionQuery query;
  SampleQuery(Samples& s, std::int64_t heads, std::int64_t dim, std::int64_t count)
      : q(s.bf16s(heads * dim)), kv(s.bf16s(count * dim)), sink(s.floats(heads)) {
    for (std::int64_t j = 0; j < count; ++j) rows.push_back(j % 7 == 3 ? nullptr : kv.data() + j * dim);
    query = {.q = q.data(), .heads = heads, .dim = dim, .rows = rows, .sink = sink.data(), .scale = 0.2f};
  }
};

std::vector<float> fp64_attention(const SampleQuery& s) {
  const auto& query = s.query;
  std::vector<float> out;
  for (std::int64_t h = 0; h < query.heads; ++h) {
    std::vector<double> sum(static_cast<std::size_t>(query.dim));
    double denominator = std::exp(static_cast<double>(s.sink[static_cast<std::size_t>(h)]));
    for (const bf16* row : query.rows) {
      if (row == nullptr) continue;
      double dot = 0;
      for (std::int64_t d = 0; d < query.dim; ++d)
        dot += double{static_cast<float>(query.q[h * query.dim + d])} * static_cast<float>(row[d]);
      const double p = std::exp(dot * query.scale);
      denominator += p;
      for (std::int64_t d = 0; d < query.dim; ++d)
        sum[static_cast<std::size_t>(d)] += p * static_cast<float>(row[d]);
    }
    for (const double v : sum) out.push_back(static_cast<float>(v / denominator));
  }
  return out;
}

TEST_P(Attention, OutputsAreRightAndTheSameForAnySliceOfHeads) {
  Samples samples(21);
  for (const auto& [heads, dim, count] : {std::tuple{1, 32, 1}, {3, 40, 66}, {8, 64, 130}, {5, 512, 200}}) {
    SCOPED_TRACE(::testing::Message() << heads << " heads of " << dim << ", " << count << " entries");
    SampleQuery s(samples, heads, dim, count);
    const auto out = attend(kernels(), s.query, heads);
    std::vector<float> values;
    for (const bf16 v : out) values.push_back(static_cast<float>(v));
    // Probabilities and the result are rounded to bf16, each by at most 2^-9 of a value below the largest |v|
    // of 5.
    EXPECT_TRUE(testing::near_relative(values, fp64_attention(s), 0x1p-8, 4.0));
    EXPECT_TRUE(testing::near_bf16(attend(kernels(), s.query, 1), out, 0, 0));
    EXPECT_TRUE(testing::near_bf16(attend(kernels(), s.query, 3), out, 0, 0));
    EXPECT_TRUE(testing::near_bf16(attend(portable(), s.query, heads), out, 0, 0));
  }
}

TEST_P(Attention, AQueryWithoutPositionsGivesZeros) {
  Samples samples(22);
  SampleQuery s(samples, 4, 64, 100);
  std::fill(s.rows.begin(), s.rows.end(), nullptr);
  s.query.rows = s.rows;
  for (const bf16 v : attend(kernels(), s.query, 4)) ASSERT_EQ(v.bits & 0x7fff, 0);
  s.query.rows = {};
  for (const bf16 v : attend(kernels(), s.query, 4)) ASSERT_EQ(v.bits & 0x7fff, 0);
}

class IndexScores : public testing::VariantTest {};

TEST_P(IndexScores, AreTheRoundedSumsAndTheSameForAnySliceOfKeys) {
  Samples samples(23);
  for (const auto& [heads, dim, count] : {std::tuple{1, 32, 3}, {5, 64, 37}, {64, 128, 100}}) {
    const auto cols = static_cast<std::int64_t>(heads) * dim;
    auto q = samples.bf16s(cols);
    std::vector<std::uint8_t> q_codes(static_cast<std::size_t>(cols / 2)),
        q_scales(static_cast<std::size_t>(cols / 32));
    kernels().quantize_fp4_e8m0(q.data(), cols, q_codes.data(), q_scales.data());
    kernels().dequantize_fp4_e8m0(q_codes.data(), q_scales.data(), cols, q.data());
    const auto w = samples.bf16s(heads);
    const auto keys = testing::fp4_weight(samples, count, dim);
    std::vector<float> scores(static_cast<std::size_t>(count)), sliced(scores), expected;
    kernels().index_scores(q.data(), w.data(), heads, dim, keys.codes.data(), keys.scales.data(), {0, count},
                           scores.data());
    for (std::int64_t j = 0, n = 1; j < count; j += n, n = n % 5 + 1) {
      kernels().index_scores(q.data(), w.data(), heads, dim, keys.codes.data(), keys.scales.data(),
                             {j, std::min<std::int64_t>(j + n, count)}, sliced.data());
    }
    for (std::int64_t j = 0; j < count; ++j) {
      float sum = 0;
      for (std::int64_t h = 0; h < heads; ++h) {
        double dot = 0;  // exact: a few small integers times powers of two
        for (std::int64_t d = 0; d < dim; ++d)
          dot += testing::weight_value(keys.matrix, j, d) *
                 static_cast<float>(q[static_cast<std::size_t>(h * dim + d)]);
        sum += round_bf16(std::max(round_bf16(static_cast<float>(dot)), 0.0f) *
                          static_cast<float>(w[static_cast<std::size_t>(h)]));
      }
      expected.push_back(round_bf16(sum));
    }
    EXPECT_EQ(scores, expected);
    EXPECT_EQ(sliced, expected);
  }
}

DSV_FOR_EVERY_VARIANT(Attention);
DSV_FOR_EVERY_VARIANT(IndexScores);

}  // namespace
}  // namespace dsv
