// Character sets and escapes of regular expressions in Oniguruma syntax, evaluated to ICU sets.
#pragma once

#include <unicode/uniset.h>

#include <optional>
#include <string_view>

#include "framework/core/status.h"

namespace dsv {

/// A pattern and the place reached in it.
struct PatternCursor {
  std::u32string_view text;
  std::size_t at = 0;

  bool done() const { return at == text.size(); }
  /// The next character, 0 at the end.
  char32_t peek() const { return done() ? 0 : text[at]; }
  char32_t next() { return text[at++]; }
  /// Steps over `prefix` if it comes next.
  bool accept(std::u32string_view prefix) {
    const bool found = text.substr(at).starts_with(prefix);
    if (found) at += prefix.size();
    return found;
  }
};

/// Reads \d \s \w \h, their negations, or \p{...}, after the backslash; nothing, with the cursor unmoved,
/// for other escapes. See word_set() for `in_class`.
flow::Result<std::optional<icu::UnicodeSet>> read_set_escape(PatternCursor& cursor, bool in_class);

/// Reads the escape of a single character, after the backslash. Escaped letters without a meaning, and
/// everything else, stand for themselves.
flow::Result<char32_t> read_char_escape(PatternCursor& cursor);

/// Reads a bracketed class, after its '['.
flow::Result<icu::UnicodeSet> read_class(PatternCursor& cursor, bool ignore_case);

/// Adds the case variants of the characters of `set`, single characters only.
void close_over_case(icu::UnicodeSet& set);

/// The word characters \w: letters, marks, decimal digits and connecting punctuation; outside a class also
/// the superscript digits and fractions of Latin-1.
icu::UnicodeSet word_set(bool in_class);

}  // namespace dsv
