// How the tools end.
#pragma once

#include <string_view>

#include "framework/cli/terminal.h"
#include "framework/core/status.h"

namespace flow::cli {

enum Exit { kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130 };

/// Prints an error and returns the code.
inline int fail(int code, const Status& status) {
  print_error(status.message());
  return code;
}

/// Prints a text on standard output.
inline int show(std::string_view text) {
  const Status status = print(text);
  return status.ok() ? kDone : fail(kFailed, status);
}

}  // namespace flow::cli
