// Faults as words.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "stages/audit/synth.h"

namespace dsv {

using flow::errorf;
using flow::Result;
using flow::Status;

namespace {

struct Form {
  std::string_view word;
  SynthFault::Kind kind;
  bool dtype, shape;
};

constexpr std::array kForms = {
    Form{"drop", SynthFault::Kind::Drop, false, false},
    Form{"lose", SynthFault::Kind::Lose, false, false},
    Form{"reshape", SynthFault::Kind::Reshape, false, true},
    Form{"retype", SynthFault::Kind::Retype, true, false},
    Form{"add", SynthFault::Kind::Add, true, true},
    Form{"copy", SynthFault::Kind::Copy, false, false},
    Form{"duplicate", SynthFault::Kind::Duplicate, false, false},
    Form{"overlap", SynthFault::Kind::Overlap, false, false},
    Form{"short", SynthFault::Kind::Short, false, false},
    Form{"truncate", SynthFault::Kind::Truncate, false, false},
    Form{"omit", SynthFault::Kind::Omit, false, false},
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<std::vector<std::int64_t>> parse_shape(std::string_view text) {
  std::vector<std::int64_t> shape;
  for (const std::string_view part : split(text, ',')) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), shape.emplace_back());
    if (error != std::errc() || end != part.data() + part.size()) return std::nullopt;
  }
  return shape;
}

std::string usage(const Form& form) {
  return fmt::format("{} TARGET{}{}", form.word, form.dtype ? " DTYPE" : "", form.shape ? " SIZE,SIZE" : "");
}

}  // namespace

Result<SynthFault> parse_synth_fault(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  const auto form = std::ranges::find(kForms, words.empty() ? "" : words[0], &Form::word);
  if (form == kForms.end()) {
    std::string known;
    for (const Form& f : kForms) known += (known.empty() ? "" : ", ") + std::string(f.word);
    return errorf("fault '{}' begins with none of {}", text, known);
  }
  if (words.size() != 2u + form->dtype + form->shape)
    return errorf("fault '{}' is not '{}'", text, usage(*form));
  SynthFault fault{form->kind, std::string(words[1]), {}, DType::Unknown};
  if (form->dtype && (fault.dtype = dtype_from_name(words[2])) == DType::Unknown)
    return errorf("fault '{}': '{}' is no dtype", text, words[2]);
  if (!form->shape) return fault;
  const auto shape = parse_shape(words.back());
  if (!shape) return errorf("fault '{}': '{}' is no shape", text, words.back());
  fault.shape = *shape;
  return fault;
}

}  // namespace dsv
