// Element types of tensors as safetensors files spell them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dsv {

/// Element type of a stored tensor. Unknown stands for a spelling that is not in the list.
enum class DType : std::uint8_t {
  Unknown,
  Bool,
  U8,
  I8,
  I16,
  U16,
  I32,
  U32,
  I64,
  U64,
  F16,
  BF16,
  F32,
  F64,
  F8_E4M3,
  F8_E5M2,
  F8_E8M0,
  F4,
};

/// The spelling in a safetensors header, "BF16" for example; "unknown" for Unknown.
std::string_view dtype_name(DType dtype);

/// The type of a spelling; Unknown when there is none.
DType dtype_from_name(std::string_view name);

/// Bits of one element; 0 for Unknown.
int dtype_bits(DType dtype);

/// "[2304, 160]".
std::string shape_text(std::span<const std::int64_t> shape);

/// Bytes of a dense tensor: nullopt when the product overflows 63 bits, a dimension is negative, the
/// type is Unknown, or the elements do not fill whole bytes.
std::optional<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape);

}  // namespace dsv
