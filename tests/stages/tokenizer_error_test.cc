// Every fault of a tokenizer file is one message that says where it is.
#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "tests/stages/tokenizer_golden.h"

namespace dsv {
namespace {

constexpr const char* kGood = R"({
  "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}
})";

/// The good file with the value at `path` (JSON pointer) replaced, or removed when `json` is empty.
std::string with(const std::string& path, const std::string& json) {
  boost::json::value file = boost::json::parse(kGood);
  const std::size_t slash = path.rfind('/');
  boost::json::error_code code;
  boost::json::value& parent = *file.find_pointer(path.substr(0, slash), code);
  if (json.empty()) {
    parent.as_object().erase(path.substr(slash + 1));
  } else {
    parent.as_object()[path.substr(slash + 1)] = boost::json::parse(json);
  }
  return boost::json::serialize(file);
}

TEST(TokenizerErrors, TheFileTheyStartFromIsGood) {
  const auto tokenizer = Tokenizer::parse(kGood);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_THAT(encoded(**tokenizer, "aab<s>b"), ::testing::ElementsAre(0, 2, 3, 1));
}

TEST(TokenizerErrors, NameThePlaceInTheFile) {
  const struct {
    std::string path, json, message;
  } cases[] = {
      {"/model", "", "has no 'model'"},
      {"/model", "7", "model: expected object, found whole number"},
      {"/model/type", "\"Unigram\"", "model.type: model 'Unigram' is not supported; BPE is"},
      {"/model/vocab", "", "model: has no 'vocab'"},
      {"/model/vocab", "[]", "model.vocab: expected object, found list"},
      {"/model/vocab", R"({"a": -1})", "model.vocab: the id of 'a' is not a whole number below 4194304"},
      {"/model/vocab", R"({"a": 0.5})", "model.vocab: the id of 'a' is not a whole number below 4194304"},
      {"/model/vocab", R"({"a": 99999999999})",
       "model.vocab: the id of 'a' is not a whole number below 4194304"},
      {"/model/vocab", R"({"a": 0, "b": 0})", "model.vocab: id 0 is given to 'a' and to 'b'"},
      {"/model/merges", "", "model: has no 'merges'"},
      {"/model/merges", R"(["a b", "a  b"])",
       R"(model.merges[1]: expected two tokens, as "a b" or ["a", "b"])"},
      {"/model/merges", R"([["a"]])", R"(model.merges[0]: expected two tokens, as "a b" or ["a", "b"])"},
      {"/model/merges", R"(["a c"])", "model.merges[0]: 'c' is not in the vocabulary"},
      {"/model/merges", R"(["b a"])", "model.merges[0]: 'ba' is not in the vocabulary"},
      {"/model/dropout", "0.1", "model.dropout: not supported"},
      {"/model/unk_token", "\"?\"", "model.unk_token: '?' is not in the vocabulary"},
      {"/model/ignore_merges", "1", "model.ignore_merges: expected true or false, found whole number"},
      {"/model/end_of_word_suffix", "\"</w>\"", "model.end_of_word_suffix: not supported"},
      {"/decoder", "", "has no 'decoder'"},
      {"/decoder", "null", "decoder: expected object, found null"},
      {"/decoder", R"({"type": "WordPiece"})",
       "decoder.type: decoder 'WordPiece' is not supported; ByteLevel is"},
      {"/decoder", R"({"type": "Sequence", "decoders": []})",
       "decoder.decoders: expected one decoder, ByteLevel"},
      {"/normalizer", R"({"type": "Nmt"})", "normalizer.type: normalizer 'Nmt' is not supported"},
      {"/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {}]})",
       "normalizer.normalizers[1]: has no 'type'"},
      {"/normalizer", R"({"type": "Replace", "pattern": {"Regex": "("}, "content": ""})",
       "normalizer.pattern.Regex: '(' has no ')'"},
      {"/normalizer", R"({"type": "Replace", "pattern": {}, "content": ""})",
       "normalizer.pattern: has no 'Regex'"},
      {"/pre_tokenizer", R"({"type": "Metaspace"})",
       "pre_tokenizer.type: pre-tokenizer 'Metaspace' is not supported"},
      {"/pre_tokenizer", R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Kept"})",
       "pre_tokenizer.behavior: unknown behavior 'Kept'"},
      {"/pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "\\k<n>"}, "behavior": "Isolated"})",
       "pre_tokenizer.pattern.Regex: '\\k' is not supported"},
      {"/added_tokens", R"([{"id": 3, "content": "<s>"}, {"id": "4"}])",
       "added_tokens[1].id: expected whole number, found string"},
      {"/added_tokens", R"([{"id": 3}])", "added_tokens[0]: has no 'content'"},
      {"/added_tokens", R"([{"id": 20000000, "content": "<s>"}])", "added_tokens[0].id: not below 4194304"},
      {"/added_tokens", R"([{"id": 3, "content": "ab"}])",
       "added_tokens[0]: 'ab' has id 3 here and 2 in the vocabulary"},
      {"/added_tokens", R"([{"id": 2, "content": "<s>"}])",
       "added_tokens[0]: id 2 is given to 'ab' and to '<s>'"},
  };
  for (const auto& item : cases) {
    const auto tokenizer = Tokenizer::parse(with(item.path, item.json));
    EXPECT_EQ(tokenizer.status().message(), item.message) << item.path << " = " << item.json;
  }
}

TEST(TokenizerErrors, NameTheFileTheLineAndTheColumnOfMalformedJson) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "malformed_tokenizer.json";
  std::ofstream(file) << "{\n  \"model\": {,}\n}";
  EXPECT_THAT(Tokenizer::load(file).status().message(), testing::StartsWith(file.string() + ":2:13: "));
}

TEST(TokenizerErrors, NameTheFileThatIsMissingOrHasAFault) {
  EXPECT_THAT(Tokenizer::load("/nowhere/tokenizer.json").status().message(),
              testing::StartsWith("/nowhere/tokenizer.json: "));
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "faulty_tokenizer.json";
  std::ofstream(file) << with("/model/merges", "");
  EXPECT_EQ(Tokenizer::load(file).status().message(), file.string() + ": model: has no 'merges'");
}

TEST(TokenizerErrors, DeepNestingIsRefused) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_THAT(Tokenizer::parse(deep).status().message(), testing::HasSubstr("nested deeper than"));
}

}  // namespace
}  // namespace dsv
