// A text that somebody may still be writing: a file, a pipe, a terminal.
#pragma once

#include <filesystem>
#include <string>

#include "framework/core/stage.h"

namespace dsv {

/// The whole of a file, "-" for standard input, without its last line break. Waits for a writer as long as it
/// takes, and gives up when the run is cancelled. Errors name the file: cannot be opened or read, a folder,
/// larger than any context.
flow::Result<std::string> read_prompt_file(const std::filesystem::path& path, const flow::Context& context);

}  // namespace dsv
