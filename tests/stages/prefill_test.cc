// Which positions of a prompt each layer computes.
#include "stages/model/prefill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dsv {
namespace {

using ::testing::Each;

class PrefillBegins : public ::testing::Test {
 protected:
  void SetUp() override {
    auto config = load_config(DSV41_SOURCE_DIR "/tests/golden/released");
    ASSERT_TRUE(config.ok()) << config.status().message();
    config_ = *std::move(config);
    last_source_ = static_cast<std::size_t>(config_.kv_source_layers.back());
  }
  ModelConfig config_;
  std::size_t last_source_ = 0;
};

TEST_F(PrefillBegins, AreATriangleOfWindowsAfterTheLastKvSource) {
  const auto begins = prefill_begins(config_, Prefill::exact, 10'000);
  ASSERT_EQ(begins.size(), static_cast<std::size_t>(config_.n_layers) + 1);
  EXPECT_EQ(10'000 - begins[40], 1);
  EXPECT_EQ(10'000 - begins[39], 128);
  EXPECT_EQ(10'000 - begins[21], 2'414);
  for (std::size_t l = 0; l <= last_source_; ++l) EXPECT_EQ(begins[l], 0) << "layer " << l;
}

TEST_F(PrefillBegins, AreTheStartOfAPromptThatIsShorterThanTheTriangle) {
  const auto begins = prefill_begins(config_, Prefill::exact, 300);
  EXPECT_EQ(begins[39], 300 - 128);
  EXPECT_EQ(begins[38], 300 - 255);
  EXPECT_EQ(begins[37], 0);
}

TEST_F(PrefillBegins, AreZeroInAFullPrefill) {
  EXPECT_THAT(prefill_begins(config_, Prefill::full, 10'000), Each(0));
}

TEST_F(PrefillBegins, AreOneWindowBeforeTheEndInABoundedPrefill) {
  const auto begins = prefill_begins(config_, Prefill::bounded, 10'000);
  EXPECT_EQ(begins[last_source_], 0);
  for (std::size_t l = last_source_ + 1; l < 40; ++l) EXPECT_EQ(10'000 - begins[l], config_.window_size);
  EXPECT_EQ(10'000 - begins[40], 1);
}

TEST_F(PrefillBegins, LookAtTheRolesAlone) {
  config_.kv_source_layers = {2, 39};
  EXPECT_EQ(prefill_begins(config_, Prefill::exact, 1'000)[39], 0);
  EXPECT_EQ(prefill_begins(config_, Prefill::exact, 1'000)[40], 999);
}

}  // namespace
}  // namespace dsv
