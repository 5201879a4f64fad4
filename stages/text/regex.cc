#include "stages/text/regex.h"

#include <limits>

#include "stages/text/regex_syntax.h"
#include "stages/text/utf8.h"

namespace dsv {

using flow::errorf;
using flow::Result;
using flow::Status;

namespace {

// Backtracking memory of one match. Runs of a single set need none, so texts far longer than this match.
constexpr std::int32_t kBacktrackBytes = 64 << 20;

/// What ICU's error means for the one who wrote the expression.
std::string_view explain(UErrorCode code) {
  switch (code) {
    case U_REGEX_STACK_OVERFLOW:
      return "a match takes more than 64 MiB of memory";
    case U_REGEX_TIME_OUT:
      return "a match takes too long";
    case U_REGEX_LOOK_BEHIND_LIMIT:
      return "a look-behind has no limit to its length";
    case U_REGEX_MAX_LT_MIN:
      return "a repetition {m,n} has m greater than n";
    case U_REGEX_NUMBER_TOO_BIG:
      return "a repetition has too large a number";
    case U_REGEX_PATTERN_TOO_BIG:
      return "it is too long";
    case U_REGEX_INTERNAL_ERROR:
      return "it is nested too deep or too long";
    case U_INDEX_OUTOFBOUNDS_ERROR:
      return "the text is longer than 2 GiB";
    case U_MEMORY_ALLOCATION_ERROR:
      return "out of memory";
    default:
      return "ICU cannot use it";
  }
}

}  // namespace

Result<Regex> Regex::from_icu(const icu::UnicodeString& pattern) {
  UErrorCode code = U_ZERO_ERROR;
  UParseError at{};
  std::shared_ptr<const icu::RegexPattern> compiled(icu::RegexPattern::compile(pattern, 0, at, code));
  if (U_FAILURE(code)) return errorf("not a regular expression: {}", explain(code));
  return Regex(std::move(compiled));
}

Result<Regex> Regex::compile(std::string_view pattern_utf8) {
  FLOW_ASSIGN(const icu::UnicodeString pattern, regex_to_icu(to_utf32(pattern_utf8)));
  return from_icu(pattern);
}

Result<Regex> Regex::literal(std::string_view text_utf8) {
  return from_icu(quote_for_icu(to_utf32(text_utf8)));
}

RegexSearch::RegexSearch(const Regex& regex, std::u16string_view text)
    : pattern_(regex.pattern_), text_(text), matcher_(pattern_->matcher(code_)) {
  if (text.size() > std::numeric_limits<std::int32_t>::max()) code_ = U_INDEX_OUTOFBOUNDS_ERROR;
  if (U_SUCCESS(code_)) matcher_->setStackLimit(kBacktrackBytes, code_);
}

Status RegexSearch::find_all(Span piece, std::vector<Span>& matches) {
  // The piece is a text of its own: inside a region of a longer one, ICU's look-behind sees what is before
  // it.
  const icu::UnicodeString input(false, text_.data() + piece.begin, piece.size());
  if (U_SUCCESS(code_)) matcher_->reset(input);
  std::int32_t last_end = -1;
  while (U_SUCCESS(code_) && matcher_->find(code_)) {
    const Span match{piece.begin + matcher_->start(code_), piece.begin + matcher_->end(code_)};
    if (match.size() > 0 || match.begin != last_end) matches.push_back(match);
    last_end = match.end;
  }
  if (U_FAILURE(code_)) return errorf("regular expression failed on this text: {}", explain(code_));
  return Status();
}

}  // namespace dsv
