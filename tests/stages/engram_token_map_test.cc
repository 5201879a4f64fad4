// The compressed vocabulary: which tokens share a class.
#include <gmock/gmock.h>

#include <set>

#include "stages/engram/token_map.h"
#include "stages/text/byte_alphabet.h"
#include "tests/stages/engram_golden.h"
#include "tests/stages/engram_sha256.h"

namespace dsv {
namespace {

/// A tokenizer whose tokens are added tokens with the given contents, ids counted from 0.
std::shared_ptr<const Tokenizer> tokenizer_of(const std::vector<std::string>& contents) {
  boost::json::array tokens;
  for (std::size_t id = 0; id < contents.size(); ++id)
    tokens.push_back({{"id", id}, {"content", contents[id]}, {"special", id % 2 == 0}});
  const boost::json::object file{
      {"added_tokens", tokens},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"vocab", boost::json::object()}, {"merges", boost::json::array()}}}};
  const auto tokenizer = Tokenizer::parse(boost::json::serialize(file));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return *tokenizer;
}

TEST(TokenMap, HasTheClassCountOfEveryKnownVocabularyWithoutGaps) {
  const struct {
    const char* file;
    int classes;
  } cases[] = {{kReleasedTokenizer, 99092}, {"pipelines/demo/tokenizer.json", 1931}, {kSmallTokenizer, 430}};
  for (const auto& item : cases) {
    const auto map = build_token_map(*golden_tokenizer(item.file));
    ASSERT_TRUE(map.ok()) << map.status().message();
    EXPECT_EQ(map->classes, item.classes) << item.file;
    const std::set<std::int32_t> used(map->class_of.begin(), map->class_of.end());
    EXPECT_EQ(static_cast<int>(used.size()), item.classes) << item.file;
    EXPECT_EQ(*used.begin(), 0) << item.file;
    EXPECT_EQ(*used.rbegin(), item.classes - 1) << item.file;
  }
}

TEST(TokenMap, EqualsTheReferenceMapOfTheReleasedVocabulary) {
  const auto map = build_token_map(*golden_tokenizer(kReleasedTokenizer));
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->class_of.size(), 129280u);
  EXPECT_EQ(sha256(map->class_of),
            text_of(golden_json("tests/golden/engram-hash.json").at("token_map_sha256_int32le")));
}

/// Spelling of a text in the byte-level alphabet.
std::string spelled(const std::string& text) {
  return to_utf8(spell_bytes(to_utf16(text)));
}

/// The key of a token that decodes to `text`.
std::string key_of(const std::string& text) {
  const auto key = token_key(*tokenizer_of({spelled(text)}), 0);
  EXPECT_TRUE(key.ok()) << key.status().message();
  return *key;
}

TEST(TokenMap, KeysTokensByTheirFoldedText) {
  const struct {
    const char *text, *key;
  } cases[] = {
      {"The", "the"},
      {" the", "the"},
      {"ｔｈｅ", "the"},
      {"\u00C9tude", "etude"},
      {"E\u0301tude", "etude"},
      {"\uFB01ne", "fine"},
      {"\u03A3\u0391\u03A3", "\u03C3\u03B1\u03C3"},  // no final sigma
      {"\u0130", "i"},                               // the dot is a mark, gone before lower case
      {"\u0939\u093F", "\u0939"},                    // a spacing mark goes too
      {"a \t\r\n b", "a b"},
      {"\u3000a\u0085", "a"},
      {"\uE000a", " a"},  // the stand-in for a lone space, in the text itself
  };
  for (const auto& item : cases) EXPECT_EQ(key_of(item.text), item.key) << item.text;
}

TEST(TokenMap, KeepsALoneSpaceApartFromWhatBecomesEmpty) {
  for (const char* space : {" ", "\n", "\t \r\n", "\u00A0"}) EXPECT_EQ(key_of(space), " ");
  for (const char* empty : {"\u2028", "\v", "\u0301", ""}) EXPECT_EQ(key_of(empty), empty);
}

TEST(TokenMap, KeysTokensThatAreNotWholeCharactersByTheirSpelling) {
  const std::string half = to_utf8(std::u16string(1, char_of_byte(0xC3)));
  const auto key = token_key(*tokenizer_of({half}), 0);
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(*key, half);
}

TEST(TokenMap, NumbersClassesInOrderOfFirstAppearance) {
  const auto map = build_token_map(*tokenizer_of({"b", "A", "B", spelled(" a"), "c"}));
  ASSERT_TRUE(map.ok());
  EXPECT_THAT(map->class_of, testing::ElementsAre(0, 1, 0, 1, 2));
  EXPECT_EQ(map->classes, 3);
}

}  // namespace
}  // namespace dsv
