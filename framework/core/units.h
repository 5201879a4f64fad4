// Quantities as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace flow {

/// "512 B", "1.5 MiB", "18.2 GiB": binary units, one decimal.
std::string bytes_text(std::uint64_t bytes);

}  // namespace flow
