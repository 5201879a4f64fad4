// The tokenizer gives the ids and texts of the reference library.
#include <gmock/gmock.h>

#include <random>

#include "tests/stages/tokenizer_golden.h"

namespace dsv {
namespace {

using ::testing::ElementsAre;

std::shared_ptr<const Tokenizer> released() {
  static const auto tokenizer = golden_tokenizer(kReleasedTokenizer);
  return tokenizer;
}

TEST(Tokenizer, GivesTheReferenceIdsAndTextsUnderTheReleasedVocabulary) {
  const boost::json::value cases = golden_json("tests/golden/tokenizer/cases.json");
  ASSERT_EQ(cases.as_array().size(), 24u);
  for (const auto& item : cases.as_array()) {
    const std::string text = text_of(item.at("text"));
    EXPECT_EQ(encoded(*released(), text), ids_of(item.at("ids"))) << text;
    EXPECT_EQ(released()->decode(ids_of(item.at("ids")), false), text_of(item.at("decoded"))) << text;
  }
}

TEST(Tokenizer, GivesTheReferenceIdsInManyScriptsAndDecodesThemBack) {
  const boost::json::value file = golden_json("tests/golden/tokenizer/scripts.json");
  ASSERT_GE(file.at("cases").as_array().size(), 50u);
  for (const auto& item : file.at("cases").as_array()) {
    const std::string text = text_of(item.at("text"));
    EXPECT_EQ(encoded(*released(), text), ids_of(item.at("ids"))) << item.at("name");
    EXPECT_EQ(released()->decode(ids_of(item.at("ids")), false), text) << item.at("name");
  }
}

TEST(Tokenizer, GivesTheReferenceIdsOfTheDemoPromptsWithoutTheirBos) {
  const auto demo = golden_tokenizer("pipelines/demo/tokenizer.json");
  const boost::json::value prompts = golden_json("tests/golden/demo/prompts.json");
  ASSERT_EQ(prompts.as_array().size(), 35u);
  for (const auto& item : prompts.as_array()) {
    std::vector<std::int32_t> ids = ids_of(item.at("ids"));
    ids.erase(ids.begin());
    EXPECT_EQ(encoded(*demo, text_of(item.at("prompt"))), ids) << item.at("prompt");
  }
}

/// The small tokenizer with a golden change applied.
std::string changed(boost::json::object file, const boost::json::object& change) {
  for (const auto& [key, value] : change) {
    if (key == "add") {
      auto& tokens = file["added_tokens"].as_array();
      tokens.insert(tokens.end(), value.as_array().begin(), value.as_array().end());
    } else if (key == "model") {
      for (const auto& [name, option] : value.as_object()) file["model"].as_object()[name] = option;
    } else {
      file[key] = value;
    }
  }
  return boost::json::serialize(file);
}

TEST(Tokenizer, GivesTheReferenceIdsForOtherPreTokenizersNormalizersAddedTokensAndModels) {
  const boost::json::value base = golden_json(kSmallTokenizer);
  const boost::json::value file = golden_json("tests/golden/tokenizer/variants.json");
  ASSERT_GE(file.at("variants").as_array().size(), 100u);
  for (const auto& variant : file.at("variants").as_array()) {
    const auto tokenizer = Tokenizer::parse(changed(base.as_object(), variant.at("change").as_object()));
    ASSERT_TRUE(tokenizer.ok()) << variant.at("name") << tokenizer.status().message();
    for (const auto& item : variant.at("cases").as_array())
      EXPECT_EQ(encoded(**tokenizer, text_of(item.at(0))), ids_of(item.at(1)))
          << variant.at("name") << item.at(0);
  }
}

TEST(Tokenizer, ReadsMergesAsPairsAndAsLines) {
  boost::json::value file = golden_json(kSmallTokenizer);
  auto& merges = file.at("model").as_object()["merges"].as_array();
  const auto pairs = Tokenizer::parse(boost::json::serialize(file));
  for (auto& merge : merges) merge = text_of(merge.at(0)) + " " + text_of(merge.at(1));
  merges.insert(merges.begin(), "#version: 0.2");
  const auto lines = Tokenizer::parse(boost::json::serialize(file));
  ASSERT_TRUE(pairs.ok() && lines.ok()) << pairs.status().message() << lines.status().message();
  const std::string text = "the height that other things";
  EXPECT_LT(encoded(**pairs, text).size(), text.size());
  EXPECT_EQ(encoded(**pairs, text), encoded(**lines, text));
}

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer& tokenizer = *released();
  EXPECT_EQ(tokenizer.vocab_size(), 129280);
  EXPECT_EQ(tokenizer.id_of("ĠFrance"), 8760);
  EXPECT_EQ(tokenizer.token(8760), "ĠFrance");
  EXPECT_EQ(tokenizer.bytes(8760), " France");
  EXPECT_EQ(tokenizer.id_of("<｜end▁of▁sentence｜>"), 1);
  EXPECT_EQ(tokenizer.bytes(1), "<｜end▁of▁sentence｜>");
  EXPECT_EQ(tokenizer.id_of("no such token"), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(1));
  EXPECT_FALSE(tokenizer.is_special(8760));
  for (const std::int32_t id : {-1, 129280, 2147483647}) {
    EXPECT_EQ(tokenizer.token(id), std::nullopt) << id;
    EXPECT_FALSE(tokenizer.is_special(id)) << id;
    EXPECT_EQ(tokenizer.decode({{id}}, false), "") << id;
  }
}

TEST(Tokenizer, LeavesSpecialTokensOutOnlyWhenAsked) {
  const std::vector<std::int32_t> ids = encoded(*released(), "a<｜end▁of▁sentence｜>b");
  EXPECT_EQ(released()->decode(ids, false), "a<｜end▁of▁sentence｜>b");
  EXPECT_EQ(released()->decode(ids, true), "ab");
}

TEST(Tokenizer, EncodesAndDecodesRandomTextBack) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::u32string text;
    for (int i = 0; i < 40; ++i) {
      const auto c = static_cast<char32_t>(random() % (1u << (random() % 21)));
      text.push_back(c >= 0xD800 && c < 0xE000 ? U' ' : c);
    }
    std::string utf8;
    for (const char32_t c : text) utf8 += to_utf8(c);
    EXPECT_EQ(released()->decode(encoded(*released(), utf8), false), utf8) << round;
  }
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8NamingTheFirstBadByte) {
  const struct {
    std::string text, message;
  } cases[] = {
      {"ab\xFFz", "the text is not UTF-8: bad byte 0xFF at offset 2"},
      {"é\xC3(", "the text is not UTF-8: bad byte 0xC3 at offset 2"},
      {"\xED\xA0\x80", "the text is not UTF-8: bad byte 0xED at offset 0"},
      {"x\xF0\x9F\x99", "the text is not UTF-8: bad byte 0xF0 at offset 1"},
  };
  for (const auto& item : cases) EXPECT_EQ(released()->encode(item.text).status().message(), item.message);
}

TEST(Tokenizer, MergesHundredsOfThousandsOfCharactersInOnePiece) {  // minutes if merging were quadratic
  const std::string text(300'000, 'a');
  const std::vector<std::int32_t> ids = encoded(*released(), text);
  EXPECT_LT(ids.size(), text.size() / 4);
  EXPECT_EQ(released()->decode(ids, false), text);
}

TEST(Tokenizer, SplitsHundredsOfThousandsOfSpacesAndDigits) {
  EXPECT_EQ(released()->decode(encoded(*released(), std::string(300'000, ' ')), false).size(), 300'000u);
  EXPECT_EQ(encoded(*released(), std::string(300'000, '7')).size(), 100'000u);
}

}  // namespace
}  // namespace dsv
