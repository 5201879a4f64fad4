#include "stages/text/unicode.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/utf16.h>

namespace dsv {

using flow::errorf;
using flow::Status;

namespace {

const icu::Normalizer2* normalizer(UnicodeForm form, UErrorCode& code) {
  switch (form) {
    case UnicodeForm::kNfc:
      return icu::Normalizer2::getNFCInstance(code);
    case UnicodeForm::kNfd:
      return icu::Normalizer2::getNFDInstance(code);
    case UnicodeForm::kNfkc:
      return icu::Normalizer2::getNFKCInstance(code);
    case UnicodeForm::kNfkd:
      break;
  }
  return icu::Normalizer2::getNFKDInstance(code);
}

void append(std::u16string& text, UChar32 c) {
  if (c > 0xFFFF) text.push_back(U16_LEAD(c));
  text.push_back(c > 0xFFFF ? U16_TRAIL(c) : static_cast<char16_t>(c));
}

/// Replaces `text` by what `emit(c, out)` appends for each of its characters.
template <class Emit>
void map_chars(std::u16string& text, Emit emit) {
  std::u16string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    UChar32 c = 0;
    U16_NEXT(text.data(), i, text.size(), c);
    emit(c, out);
  }
  text = std::move(out);
}

}  // namespace

Status normalize_form(UnicodeForm form, std::u16string& text) {
  UErrorCode code = U_ZERO_ERROR;
  const icu::Normalizer2* to_form = normalizer(form, code);
  if (U_FAILURE(code)) return errorf("no Unicode normalization data: {}", u_errorName(code));
  const icu::UnicodeString source(false, text.data(), static_cast<std::int32_t>(text.size()));
  if (to_form->isNormalized(source, code)) return Status();
  const icu::UnicodeString result = to_form->normalize(source, code);
  if (U_FAILURE(code) || result.isBogus()) return errorf("Unicode normalization: {}", u_errorName(code));
  text.assign(result.getBuffer(), static_cast<std::size_t>(result.length()));
  return Status();
}

void lowercase(std::u16string& text) {
  map_chars(text, [](UChar32 c, std::u16string& out) {
    if (c == 0x130) {  // the one character whose lower case is two
      out += u"i\u0307";
    } else {
      append(out, u_tolower(c));
    }
  });
}

void strip_marks(std::u16string& text) {
  map_chars(text, [](UChar32 c, std::u16string& out) {
    if ((U_GET_GC_MASK(c) & U_GC_M_MASK) == 0) append(out, c);
  });
}

void strip_space(std::u16string& text, bool left, bool right) {
  std::size_t begin = 0, end = text.size();  // white space is all in the basic plane
  while (right && end > begin && is_space(text[end - 1])) --end;
  while (left && begin < end && is_space(text[begin])) ++begin;
  text = text.substr(begin, end - begin);
}

bool is_space(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE);
}

bool is_word(char32_t c) {
  const auto point = static_cast<UChar32>(c);
  return u_hasBinaryProperty(point, UCHAR_ALPHABETIC) || u_hasBinaryProperty(point, UCHAR_JOIN_CONTROL) ||
         (U_GET_GC_MASK(point) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

}  // namespace dsv
