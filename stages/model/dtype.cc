#include "stages/model/dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace dsv {

namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  int bits;
};

// In the order of the enumeration.
constexpr std::array kTypes = {
    Entry{DType::Unknown, "unknown", 0}, Entry{DType::Bool, "BOOL", 8},
    Entry{DType::U8, "U8", 8},           Entry{DType::I8, "I8", 8},
    Entry{DType::I16, "I16", 16},        Entry{DType::U16, "U16", 16},
    Entry{DType::I32, "I32", 32},        Entry{DType::U32, "U32", 32},
    Entry{DType::I64, "I64", 64},        Entry{DType::U64, "U64", 64},
    Entry{DType::F16, "F16", 16},        Entry{DType::BF16, "BF16", 16},
    Entry{DType::F32, "F32", 32},        Entry{DType::F64, "F64", 64},
    Entry{DType::F8_E4M3, "F8_E4M3", 8}, Entry{DType::F8_E5M2, "F8_E5M2", 8},
    Entry{DType::F8_E8M0, "F8_E8M0", 8}, Entry{DType::F4, "F4", 4},
};

const Entry& entry(DType dtype) {
  return kTypes[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::string_view dtype_name(DType dtype) {
  return entry(dtype).name;
}

int dtype_bits(DType dtype) {
  return entry(dtype).bits;
}

DType dtype_from_name(std::string_view name) {
  for (const Entry& type : kTypes)
    if (type.name == name && type.bits > 0) return type.dtype;
  return DType::Unknown;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::optional<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape) {
  std::int64_t bits = dtype_bits(dtype);
  if (bits == 0) return std::nullopt;
  // Negative and overflowing dimensions count even beside a zero one.
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0)
      empty = true;
    else if (__builtin_mul_overflow(bits, dim, &bits))
      return std::nullopt;
  }
  if (empty) return 0;
  if (bits % 8 != 0) return std::nullopt;
  return static_cast<std::uint64_t>(bits) / 8;
}

}  // namespace dsv
