// Streamed text: whole characters only, and together exactly the decoded text.
#include <random>

#include "tests/stages/tokenizer_golden.h"

namespace dsv {
namespace {

std::shared_ptr<const Tokenizer> small() {
  static const auto tokenizer = golden_tokenizer(kSmallTokenizer);
  return tokenizer;
}

/// The token of each byte.
std::vector<std::int32_t> byte_tokens(const std::string& bytes) {
  std::vector<std::int32_t> ids;
  for (const char byte : bytes)
    for (std::int32_t id = 0; id < small()->vocab_size(); ++id)
      if (small()->bytes(id) == std::string(1, byte)) ids.push_back(id);
  return ids;
}

/// Texts that come out after each byte and at the end.
std::vector<std::string> stream(const std::string& bytes) {
  StreamDecoder decoder(small(), false);
  std::vector<std::string> texts;
  for (const std::int32_t id : byte_tokens(bytes)) texts.push_back(decoder.push(id));
  texts.push_back(decoder.flush());
  return texts;
}

using Texts = std::vector<std::string>;

TEST(StreamDecoder, HoldsTheBytesOfACharacterUntilItIsComplete) {
  EXPECT_EQ(stream("aé🙂b"), (Texts{"a", "", "é", "", "", "", "🙂", "b", ""}));
}

TEST(StreamDecoder, ReplacesBytesAsSoonAsNothingCanCompleteThem) {
  EXPECT_EQ(stream("\xFFx"), (Texts{"\uFFFD", "x", ""}));
  EXPECT_EQ(stream("\xC3x"), (Texts{"", "\uFFFDx", ""}));
  EXPECT_EQ(stream("\xF0\x9F\xC3\xA9"), (Texts{"", "", "\uFFFD", "é", ""}));
  EXPECT_EQ(stream("\xED\xA0\x80"), (Texts{"", "\uFFFD\uFFFD", "\uFFFD", ""}));
}

TEST(StreamDecoder, ReplacesAnUnfinishedCharacterAtTheEnd) {
  EXPECT_EQ(stream("a\xF0\x9F\x99"), (Texts{"a", "", "", "", "\uFFFD"}));
}

TEST(StreamDecoder, StartsAfreshAfterTheEnd) {
  StreamDecoder decoder(small(), false);
  decoder.push(byte_tokens("\xC3")[0]);
  EXPECT_EQ(decoder.flush(), "\uFFFD");
  EXPECT_EQ(decoder.push(byte_tokens("x")[0]), "x");
  EXPECT_EQ(decoder.flush(), "");
}

TEST(StreamDecoder, EqualsDecodingAllIdsAtOnce) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::int32_t> ids(random() % 24);
    for (std::int32_t& id : ids)
      id = static_cast<std::int32_t>(random() % 514) - 1;  // ids without a token too
    for (const bool skip_special : {false, true}) {
      StreamDecoder decoder(small(), skip_special);
      std::string text;
      for (const std::int32_t id : ids) text += decoder.push(id);
      text += decoder.flush();
      ASSERT_EQ(text, small()->decode(ids, skip_special)) << round;
      ASSERT_EQ(find_malformed_utf8(text), std::nullopt) << round;
    }
  }
}

}  // namespace
}  // namespace dsv
