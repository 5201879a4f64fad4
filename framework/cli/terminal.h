// What the command line tool says.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>

#include "framework/core/console.h"
#include "framework/core/status.h"

namespace flow::cli {

/// The console of a run. Results go to a file descriptor at once, remarks to standard error.
class Terminal final : public Console {
 public:
  /// `results`: standard output, or standard error where standard output belongs to something else.
  Terminal(int results, bool quiet) : results_(results), quiet_(quiet) {}

  void out(std::string_view text) override;
  void note(std::string_view line) override;

  /// Called once when results can no longer be written; set before the run.
  void on_failure(std::function<void()> action) { on_failure_ = std::move(action); }
  /// The reader of the results has gone (`| head`).
  bool closed() const { return closed_; }
  /// The results could not be written for another reason, for example a full disk.
  Status failure() const;
  /// Ends a line that a person would otherwise find the prompt behind.
  void finish();

 private:
  void break_line();

  const int results_;
  const bool quiet_;
  mutable std::mutex mutex_;
  std::function<void()> on_failure_;
  Status failure_;
  std::atomic<bool> closed_{false};
  bool failed_ = false;
  char last_ = '\n';
};

/// "error: MESSAGE" on standard error, for each line of the message.
void print_error(std::string_view message);

/// Writes to standard output; a reader that has gone is no error.
Status print(std::string_view text);

}  // namespace flow::cli
