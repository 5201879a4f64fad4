// UTF-8: where it is malformed, to and from UTF-16, and repair in pieces.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dsv {

/// What stands at the front of a run of bytes.
struct Utf8Front {
  enum Kind { kCharacter, kMalformed, kUnfinished } kind;
  /// Bytes of the character; or of the longest start of one that cannot be completed (at least 1); or of the
  /// start of one that the following bytes may complete.
  std::size_t length;
};

/// Classifies the front of `bytes`, which must not be empty.
Utf8Front utf8_front(std::string_view bytes);

/// Offset of the first byte that does not belong to well-formed UTF-8; nothing when all is well-formed.
std::optional<std::size_t> find_malformed_utf8(std::string_view bytes);

/// Conversions between well-formed texts.
std::u16string to_utf16(std::string_view utf8);
std::u32string to_utf32(std::string_view utf8);
std::string to_utf8(std::u16string_view utf16);
std::string to_utf8(char32_t c);

/// Makes well-formed UTF-8 out of bytes that arrive in pieces: each malformed sequence (the longest start of
/// a character that has no end) becomes one U+FFFD. Where the pieces are cut makes no difference.
class Utf8Repair {
 public:
  /// Appends to `text` what is decided now; the bytes of an unfinished character wait.
  void push(std::string_view bytes, std::string& text);
  /// Ends the input: bytes still waiting become U+FFFD.
  void finish(std::string& text);

 private:
  std::string waiting_;  // the start of one character, at most 3 bytes
};

}  // namespace dsv
