// The alphabet of byte-level vocabularies: one printable character for each byte value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dsv {

/// One past the largest character of the alphabet; all lie in the basic plane.
inline constexpr char16_t kByteAlphabetEnd = 0x144;

/// The character for `byte`: printable Latin-1 bytes stand for themselves, the others are numbered from
/// U+0100 up.
char16_t char_of_byte(std::uint8_t byte);

/// The byte that `c` stands for; nothing when it is not in the alphabet.
std::optional<std::uint8_t> byte_of_char(char32_t c);

/// Writes the UTF-8 bytes of `text` in the alphabet.
std::u16string spell_bytes(std::u16string_view text);

/// Bytes that a vocabulary entry stands for; its own UTF-8 bytes when it is not spelled in the alphabet.
std::string bytes_of_spelling(std::string_view utf8);

}  // namespace dsv
