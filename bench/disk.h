// What the disk can do at most, measured in the same run as the stages that read.
#pragma once

#include <filesystem>

#include "framework/core/status.h"

namespace dsv::bench {

/// Bytes per second of large sequential reads past the page cache, of a scratch file in `folder` that is
/// removed again. Errors: the file cannot be made (it takes 512 MiB) or read.
flow::Result<double> disk_bandwidth(const std::filesystem::path& folder);

}  // namespace dsv::bench
