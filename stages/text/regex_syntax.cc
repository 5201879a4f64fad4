#include "stages/text/regex_syntax.h"

#include <optional>
#include <vector>

#include "stages/text/regex_set.h"

namespace dsv {

using flow::errorf;
using flow::Result;
using flow::Status;
using icu::UnicodeSet;
using icu::UnicodeString;

namespace {

/// Escapes that stand for a pattern which means the same in ICU.
struct EscapedPattern {
  char32_t letter;
  const char16_t* icu_pattern;
};
constexpr EscapedPattern kEscapedPatterns[] = {
    {U'A', u"\\A"},
    {U'z', u"\\z"},
    {U'Z', u"(?=\\n?\\z)"},
    {U'G', u"\\G"},
    {U'R', u"(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])"},
    {U'X', u"\\X"},
};
constexpr std::u32string_view kUnsupportedEscapes = U"kgKNOyY123456789";

void append_code_point(UnicodeString& out, UChar32 c) {
  out.append(UnicodeString::fromUTF8(fmt::format("\\x{{{:x}}}", static_cast<std::uint32_t>(c))));
}

void append_literal(UnicodeString& out, UChar32 c) {
  const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c > 0x7F;
  if (plain) {
    out.append(c);
  } else {
    append_code_point(out, c);
  }
}

void append_set(UnicodeString& out, const UnicodeSet& set) {
  if (set.isEmpty()) {
    out.append(u"(?!)");
    return;
  }
  out.append(u'[');
  for (std::int32_t i = 0; i < set.getRangeCount(); ++i) {
    append_code_point(out, set.getRangeStart(i));
    out.append(u'-');
    append_code_point(out, set.getRangeEnd(i));
  }
  out.append(u']');
}

/// One pass over the pattern that writes the translation as it reads.
class Translator {
 public:
  explicit Translator(std::u32string_view pattern) : in_{pattern} {}

  Result<UnicodeString> run() {
    while (!in_.done()) FLOW_TRY(step());
    if (groups_.size() > 1) return errorf("'(' has no ')'");
    close_scopes();
    return out_;
  }

 private:
  struct Flags {
    bool ignore_case = false, dot_all = false, extended = false;
  };
  struct Group {
    std::int32_t start;  // where it begins in the output
    Flags outer;         // flags to restore at its end
    int scopes = 0;      // groups opened inside for (?i) and the like, which last to its end
  };
  enum class Repeat { kNone, kOperator, kRange, kCount, kFinal };  // what the last atom already carries

  Status step() {
    const char32_t c = in_.next();
    switch (c) {
      case '\\':
        return escape();
      case '[':
        return bracket();
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '|':
        out_.append(u'|');
        atom_.reset();
        return Status();
      case '^':
        return atom(u"(?:\\A|(?<=\\n)(?!\\z))");
      case '$':
        return atom(u"(?=\\n|\\z)");
      case '.':
        return set_atom(flags_.dot_all ? UnicodeSet(0, 0x10FFFF) : UnicodeSet('\n', '\n').complement());
      case '*':
      case '+':
      case '?':
        return repeat(static_cast<char16_t>(c));
      case '{':
        return interval();
      default:
        return flags_.extended && skip_ignored(c) ? Status() : literal(c);
    }
  }

  void begin_atom() {
    atom_ = out_.length();
    repeat_ = Repeat::kNone;
  }

  Status atom(const char16_t* icu_pattern) {
    begin_atom();
    out_.append(icu_pattern);
    return Status();
  }

  Status set_atom(const UnicodeSet& set) {
    begin_atom();
    append_set(out_, set);
    return Status();
  }

  Status literal(char32_t c) {
    UnicodeSet variants(static_cast<UChar32>(c), static_cast<UChar32>(c));
    if (flags_.ignore_case) close_over_case(variants);
    if (variants.size() > 1) return set_atom(variants);
    begin_atom();
    append_literal(out_, static_cast<UChar32>(c));
    return Status();
  }

  Status escape() {
    FLOW_ASSIGN(const std::optional<UnicodeSet> set, read_set_escape(in_, false));
    if (set) return set_atom(*set);
    for (const EscapedPattern& escaped : kEscapedPatterns)
      if (in_.accept({&escaped.letter, 1})) return atom(escaped.icu_pattern);
    if (in_.accept(U"b")) return word_boundary(true);
    if (in_.accept(U"B")) return word_boundary(false);
    if (kUnsupportedEscapes.find(in_.peek()) != kUnsupportedEscapes.npos)
      return errorf("'\\{}' is not supported", static_cast<char>(in_.peek()));
    FLOW_ASSIGN(const char32_t c, read_char_escape(in_));
    return literal(c);
  }

  Status word_boundary(bool here) {
    UnicodeString word;
    append_set(word, word_set(false));
    begin_atom();
    out_.append(u"(?:(?<=").append(word).append(here ? u")(?!" : u")(?=").append(word);
    out_.append(u")|(?<!").append(word).append(here ? u")(?=" : u")(?!").append(word).append(u"))");
    return Status();
  }

  Status bracket() {
    FLOW_ASSIGN(const UnicodeSet set, read_class(in_, flags_.ignore_case));
    return set_atom(set);
  }

  Status open_group() {
    if (in_.accept(U"?#")) return skip_comment();
    for (const char32_t* opener : {U"?:", U"?=", U"?!", U"?>", U"?<=", U"?<!"}) {
      if (!in_.accept(opener)) continue;
      return push_group(UnicodeString::fromUTF32(reinterpret_cast<const UChar32*>(opener), -1));
    }
    if (in_.accept(U"?<") || in_.accept(U"?P<")) {  // a named group; nothing here refers to it
      const std::size_t end = in_.text.find(U'>', in_.at);
      if (end == in_.text.npos) return errorf("group name has no end");
      in_.at = end + 1;
      return push_group(u"?:");
    }
    if (in_.accept(U"?")) return options();
    return push_group(u"?:");
  }

  Status push_group(const UnicodeString& opener) {
    groups_.push_back({out_.length(), flags_});
    out_.append(u'(').append(opener);
    atom_.reset();
    return Status();
  }

  Status close_group() {
    if (groups_.size() == 1) return errorf("')' without '('");
    close_scopes();
    out_.append(u')');
    flags_ = groups_.back().outer;
    atom_ = groups_.back().start;
    repeat_ = Repeat::kNone;
    groups_.pop_back();
    return Status();
  }

  void close_scopes() {
    for (; groups_.back().scopes > 0; --groups_.back().scopes) out_.append(u')');
  }

  /// (?imx-imx) sets flags to the end of the group, alternatives included; (?imx-imx:...) for its own body.
  Status options() {
    const Flags before = flags_;
    bool on = true;
    while (!in_.done() && in_.peek() != ')' && in_.peek() != ':') {
      switch (const char32_t c = in_.next()) {
        case '-':
          on = false;
          break;
        case 'i':
          flags_.ignore_case = on;
          break;
        case 'm':
          flags_.dot_all = on;
          break;
        case 'x':
          flags_.extended = on;
          break;
        default:
          return errorf("group '(?{}' is not supported", c < 0x80 ? static_cast<char>(c) : '.');
      }
    }
    if (in_.done()) return errorf("'(' has no ')'");
    if (in_.next() == ':') {
      FLOW_TRY(push_group(u"?:"));
      groups_.back().outer = before;
      return Status();
    }
    out_.append(u"(?:");
    ++groups_.back().scopes;
    atom_.reset();
    return Status();
  }

  Status skip_comment() {
    const std::size_t end = in_.text.find(U')', in_.at);
    if (end == in_.text.npos) return errorf("comment has no end");
    in_.at = end + 1;
    return Status();
  }

  /// In extended mode: true for white space and, up to the end of the line, comments.
  bool skip_ignored(char32_t c) {
    if (c == '#') in_.at = std::min(in_.text.find(U'\n', in_.at), in_.text.size());
    return c == '#' || c == ' ' || (c >= '\t' && c <= '\r');
  }

  /// '*', '+' or '?': a repetition, or what makes the one before it possessive or reluctant.
  Status repeat(char16_t op) {
    const bool modifies =
        (repeat_ == Repeat::kOperator && op != u'*') || (repeat_ == Repeat::kRange && op == u'?');
    if (atom_ && modifies) {
      out_.append(op);
      repeat_ = Repeat::kFinal;
      return Status();
    }
    return append_repeat(UnicodeString(op), Repeat::kOperator);
  }

  Status append_repeat(const UnicodeString& op, Repeat kind) {
    if (!atom_)
      return errorf("nothing to repeat before '{}'", op.charAt(0) == u'{' ? '{' : static_cast<char>(op[0]));
    if (repeat_ != Repeat::kNone) {
      out_.insert(*atom_, u"(?:", 0, 3);
      out_.append(u')');
    }
    out_.append(op);
    repeat_ = kind;
    return Status();
  }

  /// {n}, {n,}, {,m} or {n,m}; a brace that starts none of these is a literal.
  Status interval() {
    const std::size_t start = in_.at;
    const std::string low = digits();
    const bool comma = in_.accept(U",");
    const std::string high = comma ? digits() : low;
    if ((low.empty() && high.empty()) || !in_.accept(U"}")) {
      in_.at = start;
      return literal('{');
    }
    const std::string text = fmt::format("{{{}{}}}", low.empty() ? "0" : low, comma ? "," + high : "");
    return append_repeat(UnicodeString::fromUTF8(text), comma ? Repeat::kRange : Repeat::kCount);
  }

  std::string digits() {
    std::string text;
    while (in_.peek() >= '0' && in_.peek() <= '9') text += static_cast<char>(in_.next());
    return text;
  }

  PatternCursor in_;
  UnicodeString out_;
  Flags flags_;
  std::vector<Group> groups_{{0, Flags()}};
  std::optional<std::int32_t> atom_;  // where the last atom begins in the output, if it may be repeated
  Repeat repeat_ = Repeat::kNone;
};

}  // namespace

Result<UnicodeString> regex_to_icu(std::u32string_view pattern) {
  return Translator(pattern).run();
}

UnicodeString quote_for_icu(std::u32string_view text) {
  UnicodeString quoted;
  for (const char32_t c : text) append_literal(quoted, static_cast<UChar32>(c));
  return quoted;
}

}  // namespace dsv
