// What a sequence keeps of its tokens.
#include "stages/model/kv_cache.h"

#include <gtest/gtest.h>

namespace dsv {
namespace {

TEST(KvCache, KeepsAsManyBytesATokenAsTheModelCardSaysBesideTheWindows) {
  const auto config = load_config(DSV41_SOURCE_DIR "/tests/golden/released");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const std::uint64_t windows = kv_cache_bytes(*config, 0);
  EXPECT_EQ(windows, 40u * 128u * (512u + 16u));
  EXPECT_EQ((kv_cache_bytes(*config, 65'536) - windows) / 65'536, 890u);
  EXPECT_EQ((kv_cache_bytes(*config, 1'048'576) - windows) / 1'048'576, 890u);
}

}  // namespace
}  // namespace dsv
