#include "framework/core/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

namespace flow {
namespace {

constexpr std::size_t kLongestCompared = 200;
constexpr std::size_t kMostListed = 8;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name_character(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '-';
}

// Levenshtein distance where swapping two neighbours also counts as one edit.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && is_letter(text[0]) && is_instance_key(text);
}

bool is_identifier(std::string_view text) {
  return is_name(text) && text.find('-') == std::string_view::npos;
}

bool is_instance_key(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_name_character);
}

bool matches(std::string_view pattern, std::string_view name) {
  // Backtracks to the last '*' and, where that may not grow over a dot, to the last '**'.
  struct Resume {
    std::size_t pattern = std::string_view::npos, name = 0;
  } star, stars;
  std::size_t p = 0, n = 0;
  while (n < name.size() || p < pattern.size()) {
    if (pattern.substr(p).starts_with("**")) {
      stars = {p += 2, n};
      star = {};
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = {++p, n};
    } else if (p < pattern.size() && n < name.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star.pattern != std::string_view::npos && star.name < name.size() && name[star.name] != '.') {
      p = star.pattern, n = ++star.name;
    } else if (stars.pattern != std::string_view::npos && stars.name < name.size()) {
      star = {};
      p = stars.pattern, n = ++stars.name;
    } else {
      return false;
    }
  }
  return true;
}

std::string_view nearest(std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > kLongestCompared) return {};
  std::string_view best;
  // A third of the letters may differ, but not all.
  std::size_t best_distance = std::min(std::max<std::size_t>(2, name.size() / 3 + 1), name.size());
  for (const std::string& candidate : candidates) {
    const std::size_t least =
        std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size());
    if (least >= best_distance) continue;
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string unknown_name(std::string_view kind, std::string_view name,
                         const std::vector<std::string>& candidates, std::string_view owner) {
  std::string text = fmt::format("no {} '{}'", kind, name);
  if (!owner.empty()) text += fmt::format(" in {}", owner);
  if (const auto near = nearest(name, candidates); !near.empty()) {
    return text + fmt::format("; did you mean '{}'?", near);
  }
  if (candidates.empty()) return text + "; none is known";
  if (candidates.size() > kMostListed) return text;
  return text + fmt::format("; known: {}", fmt::join(candidates, ", "));
}

}  // namespace flow
