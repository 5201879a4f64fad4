// Stages and services from shared libraries.
#pragma once

#include <filesystem>

#include "framework/core/status.h"

namespace flow {

/// Loads a shared library whose stages, services, values and tap formats register themselves. It stays
/// loaded; loading it again does nothing. Errors: not found, not a plugin (no FLOW_PLUGIN), built for
/// another version of the framework, a name that is registered already.
Status load_plugin(const std::filesystem::path& path);

}  // namespace flow
