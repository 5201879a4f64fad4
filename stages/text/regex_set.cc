#include "stages/text/regex_set.h"

#include <array>
#include <string>
#include <utility>

namespace dsv {

using flow::errorf;
using flow::Result;
using flow::Status;
using icu::UnicodeSet;

namespace {

constexpr int kMaxClassDepth = 16;

/// The set of a pattern in ICU's own notation, known to be right.
UnicodeSet known_set(const char16_t* icu_pattern) {
  UErrorCode code = U_ZERO_ERROR;
  return UnicodeSet(icu_pattern, code);
}

/// Sets whose names ICU lacks or whose members differ, by lower-case name. In brackets, [[:punct:]] has the
/// symbols too.
std::optional<UnicodeSet> special_set(std::string_view name, bool bracketed) {
  if (name == "word") return word_set(true);
  if (name == "xdigit") return known_set(u"[0-9A-Fa-f]");
  if (name == "punct" && bracketed) return known_set(u"[\\p{P}\\p{S}]");
  return std::nullopt;
}

Result<UnicodeSet> named_set(std::u32string_view name, bool bracketed) {
  std::string key;
  for (const char32_t c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && c != '_' && c != ' ' && c != '-') return errorf("malformed property name");
    key += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  if (std::optional<UnicodeSet> set = special_set(key, bracketed)) return *std::move(set);
  UErrorCode code = U_ZERO_ERROR;
  UnicodeSet set(icu::UnicodeString::fromUTF8("[\\p{" + key + "}]"), code);
  if (U_FAILURE(code)) return errorf("unknown character property '{}'", key);
  return set;
}

/// Reads a name up to `close` (":]" or "}"), with an optional '^' in front.
Result<UnicodeSet> read_named_set(PatternCursor& cursor, std::u32string_view close, bool negated) {
  if (cursor.accept(U"^")) negated = !negated;
  const std::size_t end = cursor.text.find(close, cursor.at);
  if (end == cursor.text.npos) return errorf("property name has no end");
  FLOW_ASSIGN(UnicodeSet set, named_set(cursor.text.substr(cursor.at, end - cursor.at), close != U"}"));
  cursor.at = end + close.size();
  if (negated) set.complement();
  return set;
}

/// Reads at most `limit` digits of `base`.
std::optional<char32_t> read_number(PatternCursor& cursor, int base, int limit) {
  constexpr std::u32string_view kDigits = U"0123456789abcdef";
  std::optional<char32_t> number;
  for (int i = 0; i < limit && !cursor.done(); ++i) {
    const char32_t c = cursor.peek();
    const std::size_t digit = kDigits.find(c >= 'A' && c <= 'F' ? c + 32 : c);
    if (digit >= static_cast<std::size_t>(base)) break;
    number = number.value_or(0) * base + static_cast<char32_t>(digit);
    ++cursor.at;
  }
  return number;
}

/// Reads the digits of \xHH, \x{H...} or \uHHHH.
Result<char32_t> read_hex_escape(PatternCursor& cursor, char32_t kind) {
  const bool braces = kind == 'x' && cursor.accept(U"{");
  const std::optional<char32_t> number = read_number(cursor, 16, braces ? 8 : kind == 'x' ? 2 : 4);
  if (!number || *number > 0x10FFFF || (braces && !cursor.accept(U"}")))
    return errorf("malformed escape of a character by its number");
  if (kind == 'x' && !braces && *number > 0x7F)
    return errorf("\\x{:02x} is a byte, not a character", +*number);
  return *number;
}

/// One class body: items united up to "&&" or "]".
class ClassReader {
 public:
  ClassReader(PatternCursor& cursor, bool ignore_case, int depth)
      : cursor_(cursor), ignore_case_(ignore_case), depth_(depth) {}

  Result<UnicodeSet> read() {
    if (depth_ > kMaxClassDepth) return errorf("classes are nested deeper than {}", kMaxClassDepth);
    const bool negated = cursor_.accept(U"^");
    if (cursor_.accept(U"]")) FLOW_TRY(add_single(']'));
    while (!cursor_.accept(U"]")) {
      if (cursor_.done()) return errorf("'[' has no ']'");
      if (cursor_.accept(U"&&")) {
        meet_operand();
      } else {
        FLOW_TRY(read_item());
      }
    }
    meet_operand();
    if (negated) product_.complement();
    return product_;
  }

 private:
  /// Intersects what is read so far with the operands before it.
  void meet_operand() {
    if (ignore_case_) close_over_case(operand_);
    product_.retainAll(operand_);
    operand_.clear();
  }

  Status read_item() {
    if (cursor_.accept(U"[:")) return add_set(read_named_set(cursor_, U":]", false));
    if (cursor_.accept(U"[")) return add_set(ClassReader(cursor_, ignore_case_, depth_ + 1).read());
    const char32_t c = cursor_.next();
    if (c != '\\') return add_single(c);
    FLOW_ASSIGN(std::optional<UnicodeSet> set, read_set_escape(cursor_, true));
    if (set) return add_set(*std::move(set));
    FLOW_ASSIGN(const char32_t literal, read_member_escape());
    return add_single(literal);
  }

  Result<char32_t> read_member_escape() {
    if (cursor_.accept(U"b")) return char32_t{0x08};
    return read_char_escape(cursor_);
  }

  Status add_set(Result<UnicodeSet> set) {
    if (!set.ok()) return set.status();
    operand_.addAll(*set);
    return Status();
  }

  /// Adds `low`, or the range that starts with it.
  Status add_single(char32_t low) {
    char32_t high = low;
    if (starts_range()) {
      ++cursor_.at;
      high = cursor_.next();
      if (high == '\\') {
        FLOW_ASSIGN(high, read_member_escape());
      }
    }
    if (high < low) return errorf("range in a class runs backwards");
    operand_.add(static_cast<UChar32>(low), static_cast<UChar32>(high));
    return Status();
  }

  /// True when '-' and a single character come next.
  bool starts_range() const {
    PatternCursor ahead = cursor_;
    if (!ahead.accept(U"-") || ahead.done() || ahead.peek() == ']' || ahead.peek() == '[') return false;
    if (ahead.accept(U"&&")) return false;
    if (!ahead.accept(U"\\")) return true;
    constexpr std::u32string_view kSetEscapes = U"dDsSwWhHpP";
    return kSetEscapes.find(ahead.peek()) == kSetEscapes.npos;
  }

  PatternCursor& cursor_;
  bool ignore_case_;
  int depth_;
  UnicodeSet product_{0, 0x10FFFF};
  UnicodeSet operand_;
};

}  // namespace

UnicodeSet word_set(bool in_class) {
  UnicodeSet set = known_set(u"[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]");
  if (!in_class) set.addAll(known_set(u"[\u00B2\u00B3\u00B9\u00BC-\u00BE]"));
  return set;
}

void close_over_case(UnicodeSet& set) {
  set.closeOver(USET_CASE_INSENSITIVE);
  set.removeAllStrings();
}

Result<std::optional<UnicodeSet>> read_set_escape(PatternCursor& cursor, bool in_class) {
  const char32_t c = cursor.peek();
  if (c == 'p' || c == 'P') {
    ++cursor.at;
    if (!cursor.accept(U"{")) return errorf("\\{} without a property in braces", static_cast<char>(c));
    FLOW_ASSIGN(UnicodeSet set, read_named_set(cursor, U"}", c == 'P'));
    return std::optional(std::move(set));
  }
  UnicodeSet set;
  switch (c | 0x20) {
    case 'd':
      set = known_set(u"[\\p{Nd}]");
      break;
    case 's':
      set = known_set(u"[\\p{White_Space}]");
      break;
    case 'w':
      set = word_set(in_class);
      break;
    case 'h':
      set = known_set(u"[0-9a-fA-F]");
      break;
    default:
      return std::optional<UnicodeSet>();
  }
  ++cursor.at;
  if (c < 'a') set.complement();
  return std::optional(std::move(set));
}

Result<char32_t> read_char_escape(PatternCursor& cursor) {
  if (cursor.done()) return errorf("backslash at the end");
  constexpr std::array<std::pair<char32_t, char32_t>, 7> kControls{
      {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'f', '\f'}, {'v', '\v'}, {'a', '\a'}, {'e', 0x1B}}};
  const char32_t c = cursor.next();
  for (const auto& [letter, control] : kControls)
    if (c == letter) return control;
  if (c == 'x' || c == 'u') return read_hex_escape(cursor, c);
  if (c == '0') return read_number(cursor, 8, 2).value_or(0);
  if (c == 'c' || c == 'C' || c == 'M') return errorf("control and meta escapes are not supported");
  return c;
}

Result<UnicodeSet> read_class(PatternCursor& cursor, bool ignore_case) {
  return ClassReader(cursor, ignore_case, 1).read();
}

}  // namespace dsv
