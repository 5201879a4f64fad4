// Files that the command line tool reads and writes.
#pragma once

#include <string>
#include <string_view>

#include "framework/core/status.h"

namespace flow::cli {

/// Most bytes of a value read by --set.
inline constexpr std::size_t kMaxValueBytes = std::size_t{1} << 30;

/// The content of a file, or of standard input for "-", without one newline at the end.
Result<std::string> read_value(const std::string& path);

/// Writes a text to a file, as a whole or not at all, or for "-" to standard output, whose reader may have
/// gone.
Status write_output(const std::string& path, std::string_view text);
/// Whether write_output() can write there, to know it before the work is done.
Status check_output(const std::string& path);

/// What is left to read, at most kMaxValueBytes.
Result<std::string> read_descriptor(int fd);

}  // namespace flow::cli
