// Unicode text operations, as the `tokenizers` library defines them, on UTF-16 text in place.
#pragma once

#include <string>
#include <string_view>

#include "framework/core/status.h"

namespace dsv {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// Brings `text` to a normalization form. Fails only when the result is too long for memory.
flow::Status normalize_form(UnicodeForm form, std::u16string& text);

/// Full lower case of each character by itself: a final sigma is not special.
void lowercase(std::u16string& text);

/// Removes marks: nonspacing, spacing and enclosing.
void strip_marks(std::u16string& text);

/// Removes white space at the chosen ends.
void strip_space(std::u16string& text, bool left, bool right);

/// Has the Unicode property White_Space.
bool is_space(char32_t c);

/// Letter, mark, decimal digit, connecting punctuation or joiner.
bool is_word(char32_t c);

}  // namespace dsv
