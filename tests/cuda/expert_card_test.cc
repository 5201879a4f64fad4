// The experts of one rank on one card: what is copied, kept, computed and returned.
#include "stages/moe/expert_card.h"

#include <gmock/gmock.h>

#include <cstring>

#include "cuda/emulated_device.h"
#include "stages/moe/expert_mlp.h"
#include "tests/kernels/samples.h"

namespace dsv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kDim = 96, kInter = 64, kExperts = 6;
constexpr float kLimit = 2;

/// Pages of random experts, on a card with room for some.
class Card : public ::testing::Test {
 protected:
  Card() {
    testing::Samples samples(11);
    for (int e = 0; e < kExperts; ++e) {
      for (const auto& [rows, cols] : {std::pair{kInter, kDim}, {kDim, kInter}, {kInter, kDim}}) {
        weights_.push_back(testing::fp4_weight(samples, rows, cols));
      }
    }
    for (std::size_t e = 0; e < kExperts; ++e) {
      auto page = std::make_shared<ExpertPage>();
      page->w1 = weights_[3 * e].matrix;
      page->w2 = weights_[3 * e + 1].matrix;
      page->w3 = weights_[3 * e + 2].matrix;
      pages_.push_back(std::move(page));
    }
  }

  static constexpr ExpertShape kShape{kDim, kInter, kLimit};

  std::unique_ptr<ExpertCard> open(std::size_t slots, cuda::EmulatedMachine machine = {}) {
    runtime_ = std::make_unique<cuda::EmulatedRuntime>(std::move(machine));
    auto card = ExpertCard::open(*runtime_->open(0, {}), kShape, slots * CardLayout(kShape).bytes(), 100);
    EXPECT_TRUE(card.ok()) << card.status().message();
    return *std::move(card);
  }

  /// Sends every token through all of `experts`, and compares with the host.
  flow::Status pass(ExpertCard& card, const std::vector<std::int32_t>& experts, std::int64_t tokens = 1,
                    int layer = 0, int broken = -1) {
    testing::Samples samples(static_cast<unsigned>(tokens));
    Rows<bf16> x(tokens, kDim);
    const auto values = samples.bf16s(tokens * kDim);
    std::copy(values.begin(), values.end(), x.data());
    const auto k = static_cast<std::int64_t>(experts.size());
    Routes routes{nullptr, Rows<std::int32_t>(tokens, k), Rows<float>(tokens, k)};
    for (std::int64_t i = 0; i < tokens * k; ++i) {
      routes.experts.data()[i] = experts[static_cast<std::size_t>(i % k)];
      routes.weights.data()[i] = 0.1f * static_cast<float>(i % 7 + 1);
    }
    requested_.clear();
    const CardPass pass{
        .layer = layer,
        .x = x,
        .routes = routes,
        .owns = [](std::int32_t) { return true; },
        .request = [&](const std::vector<std::int32_t>& missing) -> NextPage {
          requested_ = missing;
          return [&, at = std::size_t{0}]() mutable -> flow::Result<std::optional<ExpertRequest::Ready>> {
            if (at == missing.size()) return std::optional<ExpertRequest::Ready>();
            const int expert = missing[missing.size() - ++at];  // they arrive in any order
            if (expert == broken) return flow::errorf("expert {} cannot be read", expert);
            return std::optional(ExpertRequest::Ready{expert, pages_[static_cast<std::size_t>(expert)]});
          };
        },
        .cancelled = [] { return false; }};
    ExpertCard::Result result;
    FLOW_TRY(card.compute(pass, result));
    FLOW_TRY(result.pages);
    expect_equal(result.outputs, x, routes);
    return {};
  }

  void expect_equal(const ExpertOutputs& outputs, const Rows<bf16>& x, const Routes& routes) {
    const Kernels& kernels = *all_kernels().front();
    const std::int64_t k = routes.experts.cols();
    ASSERT_EQ(outputs.y.rows(), x.rows() * k);
    for (std::int64_t i = 0; i < outputs.y.rows(); ++i) {
      const std::int32_t token = outputs.token[static_cast<std::size_t>(i)],
                         expert = outputs.expert[static_cast<std::size_t>(i)];
      const std::int32_t* chosen = routes.experts.row(token);
      const float weight = routes.weights.row(token)[std::find(chosen, chosen + k, expert) - chosen];
      const ExpertPage& page = *pages_[static_cast<std::size_t>(expert)];
      QuantizedActivations q;
      q.assign(kernels, x.row(token), 1, kDim, kDim);
      const Rows<bf16> y = expert_mlp(kernels, page.w1, page.w2, page.w3, q, &weight, kLimit);
      ASSERT_EQ(std::memcmp(y.data(), outputs.y.row(i), kDim * sizeof(bf16)), 0)
          << "token " << token << " expert " << expert;
    }
  }

  std::vector<testing::SampleWeight<Fp4Matrix>> weights_;
  std::vector<std::shared_ptr<const ExpertPage>> pages_;
  std::unique_ptr<cuda::EmulatedRuntime> runtime_;
  std::vector<std::int32_t> requested_;
};

TEST_F(Card, KeepsTheExpertsOfEachLayerThatWereUsedLast) {
  const auto card = open(3);
  ASSERT_TRUE(pass(*card, {0, 1, 2}).ok());
  EXPECT_THAT(requested_, ElementsAre(0, 1, 2));
  ASSERT_TRUE(pass(*card, {1}).ok());
  EXPECT_THAT(requested_, IsEmpty());
  ASSERT_TRUE(pass(*card, {1}, 1, 7).ok());
  EXPECT_THAT(requested_, ElementsAre(1)) << "expert 1 of another layer is another expert";
  ASSERT_TRUE(pass(*card, {0, 1, 2}).ok());
  EXPECT_THAT(requested_, ElementsAre(2)) << "pages had arrived from 2 to 0, so 2 was used least recently";
  EXPECT_EQ(card->counts().hits, 3u);
  EXPECT_EQ(card->counts().misses, 5u);
}

TEST_F(Card, GivesTheRowsOfTheHostForAnyNumberOfTokensWhileSlotsAreReused) {
  for (const std::size_t slots : {2, 3, 6}) {
    const auto card = open(slots, {.faults = {.copy_delay = std::chrono::microseconds(300)}});
    for (const std::int64_t tokens : {1, 2, 3, 9}) {
      const flow::Status status = pass(*card, {0, 2, 3, 4, 5}, tokens);
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }
}

TEST_F(Card, ComputesMoreExpertsThanOneLaunchTakes) {
  const auto card = open(100);
  for (int layer = 0; layer < 2; ++layer) {
    ASSERT_TRUE(pass(*card, {0, 1, 2, 3, 4, 5}, 3, layer).ok());
    ASSERT_TRUE(pass(*card, {0, 1, 2, 3, 4, 5}, 3, layer).ok());
  }
}

TEST_F(Card, AllocatesNothingInAWarmPassAndWaitsOnceForItsOutputs) {
  const auto card = open(6);
  ASSERT_TRUE(pass(*card, {0, 1, 2}, 4).ok());
  const cuda::EmulatedCounts& counts = runtime_->counts();
  const std::uint64_t allocations = counts.allocations, waits = counts.host_waits,
                      memory = counts.used_memory;
  for (const std::int64_t tokens : {4, 1, 2}) ASSERT_TRUE(pass(*card, {0, 1, 2}, tokens).ok());
  EXPECT_EQ(counts.allocations, allocations);
  EXPECT_EQ(counts.used_memory, memory);
  EXPECT_EQ(counts.host_waits, waits + 3);
}

TEST_F(Card, IsSentOneCopyOfEachTokenAndReturnsItsOutputRowsAlone) {
  const auto card = open(6);
  ASSERT_TRUE(pass(*card, {0, 1, 2}, 5).ok());
  const cuda::EmulatedCounts& counts = runtime_->counts();
  const std::uint64_t sent = counts.uploaded_bytes, returned = counts.downloaded_bytes;
  ASSERT_TRUE(pass(*card, {0, 1, 2}, 5).ok());
  EXPECT_EQ(counts.uploaded_bytes - sent, 5u * kDim * 2 + 5 * 3 * (4 + 4));
  EXPECT_EQ(counts.downloaded_bytes - returned, 5u * 3 * kDim * 2);
}

TEST_F(Card, StaysUsableAfterAPageThatCannotBeRead) {
  const auto card = open(4);
  EXPECT_EQ(pass(*card, {0, 1, 2}, 2, 0, 1).message(), "expert 1 cannot be read");
  const flow::Status status = pass(*card, {0, 1, 2}, 2);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(Card, WithoutRoomForTwoExpertsIsNotOpened) {
  runtime_ = std::make_unique<cuda::EmulatedRuntime>(cuda::EmulatedMachine{});
  const auto card = ExpertCard::open(*runtime_->open(0, {}), kShape, 2 * CardLayout(kShape).bytes() - 1, 100);
  ASSERT_FALSE(card.ok());
  EXPECT_THAT(card.status().message(), ::testing::StartsWith("too little memory: "));
}

TEST_F(Card, GivesItsMemoryBackWhenItIsClosed) {
  auto card = open(4);
  ASSERT_TRUE(pass(*card, {0, 1, 2}, 2).ok());
  EXPECT_GT(runtime_->counts().used_memory, 0u);
  card.reset();
  EXPECT_EQ(runtime_->counts().used_memory, 0u);
}

}  // namespace
}  // namespace dsv
