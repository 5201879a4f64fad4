#include "stages/text/pre_tokenizer.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "stages/text/byte_alphabet.h"
#include "stages/text/normalizer.h"
#include "stages/text/utf8.h"

namespace dsv {

using flow::Result;
using flow::Status;

namespace {

/// A stretch of a piece: a match, or what lies between two.
struct Section {
  Span span;
  bool match;
};

std::vector<Section> sections_of(Span piece, const std::vector<Span>& matches, bool invert) {
  std::vector<Section> sections;
  std::int32_t done = piece.begin;
  for (const Span& match : matches) {
    if (match.begin > done) sections.push_back({{done, match.begin}, invert});
    sections.push_back({match, !invert});
    done = match.end;
  }
  if (done < piece.end) sections.push_back({{done, piece.end}, invert});
  return sections;
}

/// Whether `section` joins the one before it in the direction of reading.
bool joins(const Section& section, bool previous_match, SplitBehavior behavior) {
  if (behavior == SplitBehavior::kContiguous) return section.match == previous_match;
  return section.match && !previous_match;
}

/// Joins sections; merging with the next is merging with the previous, read backwards.
void merge_sections(std::vector<Section> sections, SplitBehavior behavior, std::vector<Span>& out) {
  const bool backwards = behavior == SplitBehavior::kMergedWithNext;
  if (backwards) std::reverse(sections.begin(), sections.end());
  const auto first = static_cast<std::ptrdiff_t>(out.size());
  bool previous_match = false;
  for (const Section& section : sections) {
    const bool any = static_cast<std::ptrdiff_t>(out.size()) > first;
    if (any && joins(section, previous_match, behavior)) {
      out.back() = {std::min(out.back().begin, section.span.begin),
                    std::max(out.back().end, section.span.end)};
    } else {
      out.push_back(section.span);
    }
    previous_match = section.match;
  }
  if (backwards) std::reverse(out.begin() + first, out.end());
}

PreTokenizer split_by(const Regex& regex, SplitBehavior behavior, bool invert) {
  return [regex, behavior, invert](Pieces& pieces) {
    RegexSearch search(regex, pieces.text);
    std::vector<Span> out, matches;
    out.reserve(pieces.spans.size());
    for (const Span& piece : pieces.spans) {
      matches.clear();
      FLOW_TRY(search.find_all(piece, matches));
      split_piece(piece, matches, behavior, invert, out);
    }
    std::erase_if(out, [](const Span& span) { return span.size() == 0; });
    pieces.spans = std::move(out);
    return Status();
  };
}

Result<PreTokenizer> split_by(std::string_view pattern, SplitBehavior behavior, bool invert) {
  FLOW_ASSIGN(const Regex regex, Regex::compile(pattern));
  return split_by(regex, behavior, invert);
}

Result<SplitBehavior> read_behavior(const JsonNode& node) {
  constexpr std::pair<std::string_view, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  };
  FLOW_ASSIGN(const std::string name, node.string());
  for (const auto& [known, behavior] : kNames)
    if (known == name) return behavior;
  return node.error(fmt::format("unknown behavior '{}'", name));
}

Result<PreTokenizer> make_split(const JsonNode& node) {
  FLOW_ASSIGN(const JsonNode pattern_node, node.at("pattern"));
  FLOW_ASSIGN(const Regex pattern, read_pattern(pattern_node));
  FLOW_ASSIGN(const JsonNode behavior_node, node.at("behavior"));
  FLOW_ASSIGN(const SplitBehavior behavior, read_behavior(behavior_node));
  FLOW_ASSIGN(const bool invert, node.boolean_or("invert", false));
  return split_by(pattern, behavior, invert);
}

Result<PreTokenizer> make_digits(const JsonNode& node) {
  FLOW_ASSIGN(const bool individual, node.boolean_or("individual_digits", false));
  return split_by("\\p{N}", individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false);
}

Result<PreTokenizer> make_punctuation(const JsonNode& node) {
  SplitBehavior behavior = SplitBehavior::kIsolated;
  if (const std::optional<JsonNode> given = node.find("behavior")) {
    FLOW_ASSIGN(behavior, read_behavior(*given));
  }
  return split_by("[\\p{P}$+<=>\\^`|~]", behavior, false);
}

Result<PreTokenizer> make_whitespace(const JsonNode&) {
  constexpr std::string_view kWordOrOther = "[\\w\\u200C\\u200D]+|[^\\w\\u200C\\u200D\\s]+";
  return split_by(kWordOrOther, SplitBehavior::kRemoved, true);
}

Result<PreTokenizer> make_whitespace_split(const JsonNode&) {
  return split_by("\\s", SplitBehavior::kRemoved, false);
}

Result<PreTokenizer> make_delimiter_split(const JsonNode& node) {
  FLOW_ASSIGN(const JsonNode delimiter_node, node.at("delimiter"));
  FLOW_ASSIGN(const std::string delimiter, delimiter_node.string());
  FLOW_ASSIGN(const Regex regex, Regex::literal(delimiter));
  return split_by(regex, SplitBehavior::kRemoved, false);
}

/// Replaces the text of each piece by what `rewrite` makes of it.
template <class Rewrite>
Status rewrite_pieces(Pieces& pieces, Rewrite rewrite) {
  std::u16string text;
  text.reserve(pieces.text.size());
  for (Span& span : pieces.spans) {
    const std::size_t begin = text.size();
    text += rewrite(std::u16string_view(pieces.text).substr(span.begin, span.size()));
    if (text.size() > std::numeric_limits<std::int32_t>::max()) return Status::error("the text is too long");
    span = {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(text.size())};
  }
  pieces.text = std::move(text);
  return Status();
}

std::u16string with_space_in_front(std::u16string_view piece) {
  return std::u16string(piece.starts_with(u' ') ? u"" : u" ").append(piece);
}

Result<PreTokenizer> make_byte_level(const JsonNode& node) {
  constexpr std::string_view kWords =
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
  FLOW_ASSIGN(const bool prefix, node.boolean_or("add_prefix_space", true));
  FLOW_ASSIGN(const bool use_regex, node.boolean_or("use_regex", true));
  PreTokenizer words;
  if (use_regex) {
    FLOW_ASSIGN(words, split_by(kWords, SplitBehavior::kIsolated, false));
  }
  return PreTokenizer([prefix, words](Pieces& pieces) {
    if (prefix) FLOW_TRY(rewrite_pieces(pieces, with_space_in_front));
    if (words) FLOW_TRY(words(pieces));
    return rewrite_pieces(pieces, spell_bytes);
  });
}

Result<PreTokenizer> make_sequence(const JsonNode& node) {
  FLOW_ASSIGN(const JsonNode list, node.at("pretokenizers"));
  FLOW_ASSIGN(const std::vector<JsonNode> members, list.elements());
  std::vector<PreTokenizer> steps;
  for (const JsonNode& member : members) {
    FLOW_ASSIGN(PreTokenizer step, make_pre_tokenizer(member));
    steps.push_back(std::move(step));
  }
  return PreTokenizer([steps](Pieces& pieces) {
    for (const PreTokenizer& step : steps) FLOW_TRY(step(pieces));
    return Status();
  });
}

struct Maker {
  std::string_view type;
  Result<PreTokenizer> (*make)(const JsonNode&);
};
constexpr Maker kMakers[] = {
    {"Sequence", make_sequence},
    {"Split", make_split},
    {"ByteLevel", make_byte_level},
    {"Digits", make_digits},
    {"Punctuation", make_punctuation},
    {"Whitespace", make_whitespace},
    {"WhitespaceSplit", make_whitespace_split},
    {"CharDelimiterSplit", make_delimiter_split},
};

}  // namespace

void split_piece(Span piece, const std::vector<Span>& matches, SplitBehavior behavior, bool invert,
                 std::vector<Span>& out) {
  std::vector<Section> sections = sections_of(piece, matches, invert);
  switch (behavior) {
    case SplitBehavior::kRemoved:
      std::erase_if(sections, [](const Section& section) { return section.match; });
      [[fallthrough]];
    case SplitBehavior::kIsolated:
      for (const Section& section : sections) out.push_back(section.span);
      break;
    default:
      merge_sections(std::move(sections), behavior, out);
  }
}

Result<PreTokenizer> make_pre_tokenizer(const JsonNode& node) {
  FLOW_ASSIGN(const JsonNode type_node, node.at("type"));
  FLOW_ASSIGN(const std::string type, type_node.string());
  for (const Maker& maker : kMakers)
    if (maker.type == type) return maker.make(node);
  return type_node.error(fmt::format("pre-tokenizer '{}' is not supported", type));
}

}  // namespace dsv
