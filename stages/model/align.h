// Where tensors start in memory that holds several of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dsv {

/// Bytes of a cache line, and of the widest vector register.
inline constexpr std::size_t kAlignment = 64;

/// The next multiple of kAlignment.
constexpr std::size_t align_up(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace dsv
