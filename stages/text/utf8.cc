#include "stages/text/utf8.h"

#include <unicode/utf16.h>
#include <unicode/utf8.h>

#include <cstdint>

namespace dsv {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  std::size_t length;                    // bytes of the whole character; 0: no character starts so
  std::uint8_t second_low, second_high;  // bounds of its second byte
};

Lead classify_lead(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // shorter forms exist below
  if (byte == 0xED) return {3, 0x80, 0x9F};  // surrogates above
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // beyond U+10FFFF above
  return {0, 0, 0};
}

void append_utf8(std::string& utf8, UChar32 c) {
  char bytes[U8_MAX_LENGTH];
  std::size_t length = 0;
  U8_APPEND_UNSAFE(bytes, length, c);
  utf8.append(bytes, length);
}

}  // namespace

Utf8Front utf8_front(std::string_view bytes) {
  const Lead lead = classify_lead(static_cast<std::uint8_t>(bytes[0]));
  if (lead.length == 0) return {Utf8Front::kMalformed, 1};
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Utf8Front::kUnfinished, i};
    const auto byte = static_cast<std::uint8_t>(bytes[i]);
    const std::uint8_t low = i == 1 ? lead.second_low : 0x80;
    const std::uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Utf8Front::kMalformed, i};
  }
  return {Utf8Front::kCharacter, lead.length};
}

std::optional<std::size_t> find_malformed_utf8(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const Utf8Front front = utf8_front(bytes.substr(i));
    if (front.kind != Utf8Front::kCharacter) return i;
    i += front.length;
  }
  return std::nullopt;
}

std::u16string to_utf16(std::string_view utf8) {
  std::u16string utf16;
  utf16.reserve(utf8.size());
  for (std::size_t i = 0; i < utf8.size();) {
    UChar32 c = 0;
    U8_NEXT_UNSAFE(utf8.data(), i, c);
    if (c > 0xFFFF) utf16.push_back(U16_LEAD(c));
    utf16.push_back(c > 0xFFFF ? U16_TRAIL(c) : static_cast<char16_t>(c));
  }
  return utf16;
}

std::u32string to_utf32(std::string_view utf8) {
  std::u32string utf32;
  utf32.reserve(utf8.size());
  for (std::size_t i = 0; i < utf8.size();) {
    UChar32 c = 0;
    U8_NEXT_UNSAFE(utf8.data(), i, c);
    utf32.push_back(static_cast<char32_t>(c));
  }
  return utf32;
}

std::string to_utf8(std::u16string_view utf16) {
  std::string utf8;
  utf8.reserve(utf16.size());
  for (std::size_t i = 0; i < utf16.size();) {
    UChar32 c = 0;
    U16_NEXT_UNSAFE(utf16.data(), i, c);
    append_utf8(utf8, c);
  }
  return utf8;
}

std::string to_utf8(char32_t c) {
  std::string utf8;
  append_utf8(utf8, static_cast<UChar32>(c));
  return utf8;
}

void Utf8Repair::push(std::string_view bytes, std::string& text) {
  waiting_ += bytes;
  std::string_view rest = waiting_;
  while (!rest.empty()) {
    const Utf8Front front = utf8_front(rest);
    if (front.kind == Utf8Front::kUnfinished) break;
    text += front.kind == Utf8Front::kCharacter ? rest.substr(0, front.length) : kReplacement;
    rest.remove_prefix(front.length);
  }
  waiting_ = std::string(rest);
}

void Utf8Repair::finish(std::string& text) {
  if (!waiting_.empty()) text += kReplacement;
  waiting_.clear();
}

}  // namespace dsv
