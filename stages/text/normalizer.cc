#include "stages/text/normalizer.h"

#include <string_view>
#include <utility>
#include <vector>

#include "stages/text/byte_alphabet.h"
#include "stages/text/unicode.h"
#include "stages/text/utf8.h"

namespace dsv {

using flow::Result;
using flow::Status;

namespace {

Result<Normalizer> make_sequence(const JsonNode& node) {
  FLOW_ASSIGN(const JsonNode list, node.at("normalizers"));
  FLOW_ASSIGN(const std::vector<JsonNode> members, list.elements());
  std::vector<Normalizer> steps;
  for (const JsonNode& member : members) {
    FLOW_ASSIGN(Normalizer step, make_normalizer(member));
    steps.push_back(std::move(step));
  }
  return Normalizer([steps](std::u16string& text) {
    for (const Normalizer& step : steps) FLOW_TRY(step(text));
    return Status();
  });
}

template <UnicodeForm form>
Result<Normalizer> make_form(const JsonNode&) {
  return Normalizer([](std::u16string& text) { return normalize_form(form, text); });
}

Result<Normalizer> make_lowercase(const JsonNode&) {
  return Normalizer([](std::u16string& text) {
    lowercase(text);
    return Status();
  });
}

Result<Normalizer> make_strip_accents(const JsonNode&) {
  return Normalizer([](std::u16string& text) {
    strip_marks(text);
    return Status();
  });
}

Result<Normalizer> make_strip(const JsonNode& node) {
  FLOW_ASSIGN(const bool left, node.boolean_or("strip_left", true));
  FLOW_ASSIGN(const bool right, node.boolean_or("strip_right", true));
  return Normalizer([left, right](std::u16string& text) {
    strip_space(text, left, right);
    return Status();
  });
}

Status replace_all(const Regex& pattern, std::u16string_view content, std::u16string& text) {
  std::vector<Span> matches;
  FLOW_TRY(RegexSearch(pattern, text).find_all({0, static_cast<std::int32_t>(text.size())}, matches));
  if (matches.empty()) return Status();
  std::u16string out;
  std::int32_t done = 0;
  for (const Span& match : matches) {
    out.append(text, done, match.begin - done).append(content);
    done = match.end;
  }
  text = out.append(text, done);
  return Status();
}

Result<Normalizer> make_replace(const JsonNode& node) {
  FLOW_ASSIGN(const JsonNode pattern_node, node.at("pattern"));
  FLOW_ASSIGN(const Regex pattern, read_pattern(pattern_node));
  FLOW_ASSIGN(const JsonNode content_node, node.at("content"));
  FLOW_ASSIGN(const std::string content, content_node.string());
  return Normalizer([pattern, content = to_utf16(content)](std::u16string& text) {
    return replace_all(pattern, content, text);
  });
}

Result<Normalizer> make_prepend(const JsonNode& node) {
  FLOW_ASSIGN(const JsonNode prefix_node, node.at("prepend"));
  FLOW_ASSIGN(const std::string prefix, prefix_node.string());
  return Normalizer([prefix = to_utf16(prefix)](std::u16string& text) {
    if (!text.empty()) text.insert(0, prefix);
    return Status();
  });
}

Result<Normalizer> make_byte_level(const JsonNode&) {
  return Normalizer([](std::u16string& text) {
    text = spell_bytes(text);
    return Status();
  });
}

struct Maker {
  std::string_view type;
  Result<Normalizer> (*make)(const JsonNode&);
};
constexpr Maker kMakers[] = {
    {"Sequence", make_sequence},
    {"NFC", make_form<UnicodeForm::kNfc>},
    {"NFD", make_form<UnicodeForm::kNfd>},
    {"NFKC", make_form<UnicodeForm::kNfkc>},
    {"NFKD", make_form<UnicodeForm::kNfkd>},
    {"Lowercase", make_lowercase},
    {"Strip", make_strip},
    {"StripAccents", make_strip_accents},
    {"Replace", make_replace},
    {"Prepend", make_prepend},
    {"ByteLevel", make_byte_level},
};

}  // namespace

Result<Normalizer> make_normalizer(const JsonNode& node) {
  FLOW_ASSIGN(const JsonNode type_node, node.at("type"));
  FLOW_ASSIGN(const std::string type, type_node.string());
  for (const Maker& maker : kMakers)
    if (maker.type == type) return maker.make(node);
  return type_node.error(fmt::format("normalizer '{}' is not supported", type));
}

Result<Regex> read_pattern(const JsonNode& node) {
  const std::optional<JsonNode> literal = node.find("String");
  if (literal) {
    FLOW_ASSIGN(const std::string text, literal->string());
    return Regex::literal(text).in(literal->path());
  }
  FLOW_ASSIGN(const JsonNode regex, node.at("Regex"));
  FLOW_ASSIGN(const std::string pattern, regex.string());
  return Regex::compile(pattern).in(regex.path());
}

}  // namespace dsv
