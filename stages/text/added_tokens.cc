#include "stages/text/added_tokens.h"

#include <unicode/utf16.h>

#include <algorithm>

#include "stages/text/unicode.h"

namespace dsv {

namespace {

std::uint64_t edge(std::uint32_t node, char16_t unit) {
  return std::uint64_t{node} << 16 | unit;
}

bool word_ends_at(std::u16string_view text, std::int32_t end) {
  if (end == 0) return false;
  UChar32 c = 0;
  U16_PREV(text.data(), 0, end, c);
  return is_word(static_cast<char32_t>(c));
}

bool word_starts_at(std::u16string_view text, std::int32_t begin) {
  const auto size = static_cast<std::int32_t>(text.size());
  if (begin == size) return false;
  UChar32 c = 0;
  U16_NEXT(text.data(), begin, size, c);
  return is_word(static_cast<char32_t>(c));
}

}  // namespace

void AddedTokenMatcher::add(std::u16string_view spelling, const AddedToken& token) {
  std::uint32_t node = 0;
  for (const char16_t unit : spelling) {
    const auto [child, is_new] =
        children_.try_emplace(edge(node, unit), static_cast<std::uint32_t>(nodes_.size()));
    if (is_new) nodes_.emplace_back();
    node = child->second;
  }
  starts_[spelling.front()] = true;
  nodes_[node] = Rule{token.id, token.single_word, token.lstrip, token.rstrip};
}

AddedTokenMatcher::Match AddedTokenMatcher::longest_at(std::u16string_view text, std::size_t at) const {
  Match longest;
  std::uint32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const auto child = children_.find(edge(node, text[i]));
    if (child == children_.end()) break;
    node = child->second;
    if (nodes_[node])
      longest = {{static_cast<std::int32_t>(at), static_cast<std::int32_t>(i + 1)}, &*nodes_[node]};
  }
  return longest;
}

std::vector<AddedTokenMatcher::Match> AddedTokenMatcher::find_all(std::u16string_view text) const {
  std::vector<Match> matches;
  for (std::size_t at = 0; at < text.size();) {
    const Match match = starts_[text[at]] ? longest_at(text, at) : Match();
    if (match.rule != nullptr) matches.push_back(match);
    at = match.rule != nullptr ? static_cast<std::size_t>(match.span.end) : at + 1;
  }
  return matches;
}

std::vector<AddedTokenMatcher::Part> AddedTokenMatcher::split(std::u16string_view text) const {
  std::vector<Part> parts;
  std::int32_t done = 0;
  const auto size = static_cast<std::int32_t>(text.size());
  for (Match match : find_all(text)) {
    auto& [begin, end] = match.span;
    const Rule& rule = *match.rule;
    if (rule.single_word && (word_ends_at(text, begin) || word_starts_at(text, end))) continue;
    while (rule.lstrip && begin > done && is_space(text[begin - 1])) --begin;
    while (rule.rstrip && end < size && is_space(text[end])) ++end;
    if (rule.lstrip) begin = std::max(begin, done);
    if (begin > done) parts.push_back({{done, begin}, std::nullopt});
    // White space that the token before has taken may still spell this one.
    if (begin < end) parts.push_back({match.span, rule.id});
    done = end;
  }
  if (done < size) parts.push_back({{done, size}, std::nullopt});
  return parts;
}

}  // namespace dsv
