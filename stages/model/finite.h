// Whether a tensor's elements are numbers: what a damaged file betrays itself by.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "stages/model/dtype.h"

namespace dsv {

/// Index of the first element that is NaN or infinite; nullopt when there is none, and for types that have
/// none. `bytes` is a multiple of the element's size, aligned to it.
std::optional<std::size_t> first_not_finite(DType dtype, std::span<const std::byte> bytes);

}  // namespace dsv
