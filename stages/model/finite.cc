#include "stages/model/finite.h"

#include <algorithm>

namespace dsv {
namespace {

/// The first element whose bits under `mask` are all set. Looks at blocks without a branch inside, which
/// compilers turn into vector code.
template <class T>
std::optional<std::size_t> first_with(T mask, std::span<const std::byte> bytes) {
  constexpr std::size_t kBlock = 4096;
  const auto* values = reinterpret_cast<const T*>(bytes.data());
  const std::size_t count = bytes.size() / sizeof(T);
  const auto bad = [mask](T value) { return static_cast<T>(value & mask) == mask; };
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(count, begin + kBlock);
    T found = 0;
    for (std::size_t i = begin; i < end; ++i) found = static_cast<T>(found | static_cast<T>(bad(values[i])));
    if (found) return static_cast<std::size_t>(std::find_if(values + begin, values + end, bad) - values);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> first_not_finite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::F8_E4M3:
      return first_with<std::uint8_t>(0x7f, bytes);
    case DType::F8_E8M0:
      return first_with<std::uint8_t>(0xff, bytes);
    case DType::BF16:
      return first_with<std::uint16_t>(0x7f80, bytes);
    case DType::F32:
      return first_with<std::uint32_t>(0x7f800000, bytes);
    default:
      return std::nullopt;
  }
}

}  // namespace dsv
