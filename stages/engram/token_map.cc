#include "stages/engram/token_map.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "stages/text/unicode.h"
#include "stages/text/utf8.h"

namespace dsv {

using flow::Result;
using flow::Status;

namespace {

constexpr char16_t kLoneSpace = u'\uE000';  // holds a lone space while ends are trimmed
constexpr std::string_view kReplacement = "\uFFFD";

/// Each run of ' ', '\t', '\r', '\n' becomes one space.
std::u16string collapse_blanks(std::u16string_view text) {
  constexpr std::u16string_view kBlanks = u" \t\r\n";
  std::u16string out;
  for (const char16_t c : text) {
    const bool blank = kBlanks.find(c) != kBlanks.npos;
    if (!blank || out.empty() || out.back() != u' ') out.push_back(blank ? u' ' : c);
  }
  return out;
}

Status fold(std::u16string& text) {
  FLOW_TRY(normalize_form(UnicodeForm::kNfkc, text));
  FLOW_TRY(normalize_form(UnicodeForm::kNfd, text));
  strip_marks(text);
  lowercase(text);
  text = collapse_blanks(text);
  if (text == u" ") text = kLoneSpace;
  strip_space(text, true, true);
  std::replace(text.begin(), text.end(), kLoneSpace, u' ');
  return Status();
}

}  // namespace

Result<std::string> token_key(const Tokenizer& tokenizer, std::int32_t id) {
  std::string text = tokenizer.decode({&id, 1}, false);
  if (text.find(kReplacement) != text.npos) return std::string(tokenizer.token(id).value_or(""));
  std::u16string folded = to_utf16(text);
  FLOW_TRY(fold(folded));
  return folded.empty() ? text : to_utf8(folded);
}

Result<TokenMap> build_token_map(const Tokenizer& tokenizer) {
  TokenMap map;
  std::unordered_map<std::string, std::int32_t> classes;
  classes.reserve(static_cast<std::size_t>(tokenizer.vocab_size()));
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    FLOW_ASSIGN(std::string key, token_key(tokenizer, id));
    const auto next = static_cast<std::int32_t>(classes.size());
    map.class_of.push_back(classes.try_emplace(std::move(key), next).first->second);
  }
  map.classes = static_cast<std::int32_t>(classes.size());
  return map;
}

}  // namespace dsv
