// Regular expressions as tokenizer files write them (Oniguruma syntax), run by ICU on UTF-16 text.
#pragma once

#include <unicode/regex.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace dsv {

/// Half-open range of UTF-16 code units.
struct Span {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t size() const { return end - begin; }
  friend bool operator==(const Span&, const Span&) = default;
};

/// A compiled expression. Immutable; searches keep their own state.
class Regex {
 public:
  /// Compiles an expression in Oniguruma syntax (see regex_syntax.h). Fails on syntax that is wrong or has no
  /// counterpart here.
  static flow::Result<Regex> compile(std::string_view pattern_utf8);

  /// An expression that matches `text_utf8` itself.
  static flow::Result<Regex> literal(std::string_view text_utf8);

 private:
  friend class RegexSearch;
  explicit Regex(std::shared_ptr<const icu::RegexPattern> pattern) : pattern_(std::move(pattern)) {}
  static flow::Result<Regex> from_icu(const icu::UnicodeString& pattern);

  std::shared_ptr<const icu::RegexPattern> pattern_;
};

/// Searches pieces of one text. The text must outlive the search and hold fewer than 2^31 code units.
class RegexSearch {
 public:
  RegexSearch(const Regex& regex, std::u16string_view text);

  /// Appends the matches inside `piece`, left to right and without overlap; what lies outside the piece is
  /// not looked at. An empty match right after another match is left out.
  flow::Status find_all(Span piece, std::vector<Span>& matches);

 private:
  std::shared_ptr<const icu::RegexPattern> pattern_;
  std::u16string_view text_;
  UErrorCode code_ = U_ZERO_ERROR;
  std::unique_ptr<icu::RegexMatcher> matcher_;
};

}  // namespace dsv
