#include "stages/text/byte_alphabet.h"

#include <array>

#include "stages/text/utf8.h"

namespace dsv {

namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

constexpr std::array<char16_t, 256> make_chars() {
  std::array<char16_t, 256> chars{};
  char16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte)
    chars[byte] = stands_for_itself(byte) ? static_cast<char16_t>(byte) : next++;
  return chars;
}

constexpr std::array<char16_t, 256> kChars = make_chars();

constexpr std::array<std::int16_t, kByteAlphabetEnd> make_bytes() {
  std::array<std::int16_t, kByteAlphabetEnd> bytes{};
  bytes.fill(-1);
  for (std::int16_t byte = 0; byte < 256; ++byte) bytes[kChars[byte]] = byte;
  return bytes;
}

constexpr std::array<std::int16_t, kByteAlphabetEnd> kBytes = make_bytes();

}  // namespace

char16_t char_of_byte(std::uint8_t byte) {
  return kChars[byte];
}

std::optional<std::uint8_t> byte_of_char(char32_t c) {
  if (c >= kByteAlphabetEnd || kBytes[c] < 0) return std::nullopt;
  return static_cast<std::uint8_t>(kBytes[c]);
}

std::u16string spell_bytes(std::u16string_view text) {
  std::u16string spelled;
  for (const char byte : to_utf8(text)) spelled.push_back(char_of_byte(static_cast<std::uint8_t>(byte)));
  return spelled;
}

std::string bytes_of_spelling(std::string_view utf8) {
  std::string bytes;
  for (const char32_t c : to_utf32(utf8)) {
    const std::optional<std::uint8_t> byte = byte_of_char(c);
    if (!byte) return std::string(utf8);
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

}  // namespace dsv
