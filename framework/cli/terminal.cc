#include "framework/cli/terminal.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "framework/core/output_file.h"

namespace flow::cli {

void Terminal::out(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (failed_ || text.empty()) return;
  const int error = write_all(results_, text);
  last_ = text.back();
  if (error == 0) return;
  failed_ = true;
  closed_ = error == EPIPE;
  if (!closed_) failure_ = errorf("cannot write to standard output: {}", std::strerror(error));
  if (on_failure_) on_failure_();
}

void Terminal::note(std::string_view line) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  if (::isatty(STDERR_FILENO)) break_line();
  (void)write_all(STDERR_FILENO, std::string(line) + "\n");
}

Status Terminal::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Terminal::finish() {
  const std::lock_guard lock(mutex_);
  break_line();
}

// On a terminal, results and what follows them share the screen.
void Terminal::break_line() {
  if (failed_ || last_ == '\n' || !::isatty(results_)) return;
  (void)write_all(results_, "\n");
  last_ = '\n';
}

void print_error(std::string_view message) {
  const bool colour = ::isatty(STDERR_FILENO) && !std::getenv("NO_COLOR");
  const std::string_view label = colour ? "\033[1;31merror:\033[0m " : "error: ";
  std::string text;
  while (true) {
    const auto end = message.find('\n');
    text += label;
    text += message.substr(0, end);
    text += '\n';
    if (end == std::string_view::npos) break;
    message.remove_prefix(end + 1);
  }
  (void)write_all(STDERR_FILENO, text);
}

Status print(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == 0 || error == EPIPE) return {};
  return errorf("cannot write to standard output: {}", std::strerror(error));
}

}  // namespace flow::cli
