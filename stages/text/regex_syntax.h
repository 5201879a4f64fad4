// Translation of regular expressions from Oniguruma's syntax, which tokenizer files use, to ICU's.
//
// The two disagree in places that change tokens: `^` and `$` mean lines, `\h` is a hex digit, `\v` one
// character, `(?m)` makes the dot match newlines, `x{1,3}+` repeats the interval, `(?i)` scopes over
// alternatives,
// `[...]` has its own rules for `-`, `&&` and `[:name:]`. So every character set is evaluated here and
// handed to ICU spelled out, case folding included, and ICU gets only constructs that mean the same in both.
#pragma once

#include <unicode/unistr.h>

#include <string_view>

#include "framework/core/status.h"

namespace dsv {

/// The ICU expression (for compilation without flags) that matches what `pattern` does in Oniguruma.
/// Differences that remain: the Unicode version is ICU's, and case-insensitive matching pairs single
/// characters only. Fails on constructs ICU lacks (back references, subexpression calls, \K, absence
/// operators, conditionals).
flow::Result<icu::UnicodeString> regex_to_icu(std::u32string_view pattern);

/// The ICU expression that matches exactly `text`.
icu::UnicodeString quote_for_icu(std::u32string_view text);

}  // namespace dsv
