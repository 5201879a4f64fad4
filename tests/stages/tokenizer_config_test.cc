// tokenizer_config.json: which tokens frame a text.
#include "stages/text/tokenizer_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace dsv {
namespace {

flow::Result<TokenizerConfig> read(const std::string& json) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "tokenizer_config.json";
  std::ofstream(file) << json;
  return TokenizerConfig::load(file);
}

TEST(TokenizerConfig, ReadsTokensGivenAsTextsAndAsObjects) {
  const auto config = read(R"({"add_bos_token": true, "bos_token": "<s>",
                               "eos_token": {"__type": "AddedToken", "content": "</s>"}, "pad_token": null})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_TRUE(config->add_bos_token);
  EXPECT_FALSE(config->add_eos_token);
  EXPECT_EQ(config->bos_token, "<s>");
  EXPECT_EQ(config->eos_token, "</s>");
  EXPECT_EQ(config->pad_token, std::nullopt);
}

TEST(TokenizerConfig, ReadsTheFilesOfTheGoldenAndTheDemoCheckpoint) {
  for (const char* folder : {"/tests/golden/a/checkpoint/", "/pipelines/demo/"}) {
    const auto config =
        TokenizerConfig::load(std::string(DSV41_SOURCE_DIR) + folder + "tokenizer_config.json");
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->bos_token, "<｜begin▁of▁sentence｜>") << folder;
    EXPECT_EQ(config->eos_token, "<｜end▁of▁sentence｜>") << folder;
    EXPECT_EQ(config->pad_token, "<｜▁pad▁｜>") << folder;
    EXPECT_FALSE(config->add_bos_token) << folder;
  }
}

TEST(TokenizerConfig, NamesTheFileAndTheFaultyField) {
  const std::string file = testing::TempDir() + "tokenizer_config.json";
  EXPECT_EQ(read(R"({"eos_token": 7})").status().message(),
            file + ": eos_token: expected string, found whole number");
  EXPECT_EQ(read(R"({"eos_token": {}})").status().message(), file + ": eos_token: has no 'content'");
  EXPECT_EQ(read(R"({"add_bos_token": "yes"})").status().message(),
            file + ": add_bos_token: expected true or false, found string");
  EXPECT_EQ(read("[]").status().message(), file + ": expected object, found list");
}

}  // namespace
}  // namespace dsv
