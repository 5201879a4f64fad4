#include "framework/config/errors.h"

#include <algorithm>
#include <tuple>

#include "framework/config/utf8.h"

namespace flow::config {
namespace {

constexpr std::size_t kLongestLine = 1000;

// One line that a terminal can show: control characters become escapes, and what a hostile file made
// huge is cut at a character border.
std::string printable(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
  if (line.size() <= kLongestLine) return line;
  return std::string(utf8_prefix(line, kLongestLine)) + "...";
}

}  // namespace

void Errors::order(std::string_view file) {
  if (std::find(files_.begin(), files_.end(), file) == files_.end()) files_.emplace_back(file);
}

void Errors::add(const Location& where, std::string_view subject, std::string_view message) {
  if (!where.file.empty()) {
    const auto [first, fresh] = first_subject_.try_emplace(where.str(), subject);
    if (first->second != subject) return;
  }
  if (!seen_.insert(fmt::format("{} {} {}", where.str(), subject, message)).second) return;
  errors_.push_back({where, std::string(subject), std::string(message)});
}

std::vector<std::string> Errors::lines() const {
  std::vector<const Error*> sorted;
  for (const Error& e : errors_) sorted.push_back(&e);
  const auto place = [this](const Error* e) {
    const auto file = std::find(files_.begin(), files_.end(), e->where.file);
    return std::tuple(e->where.line == 0 ? -1 : file - files_.begin(), e->where.line, e->where.column);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Error* a, const Error* b) { return place(a) < place(b); });
  std::vector<std::string> lines;
  for (const Error* e : sorted) {
    std::string line = e->where.line == 0 ? e->where.file : e->where.str();
    if (!line.empty()) line += ": ";
    if (!e->subject.empty()) line += e->subject + ": ";
    lines.push_back(printable(line + e->message));
  }
  return lines;
}

}  // namespace flow::config
