#include "stages/kernels/limbs.h"

namespace dsv {
namespace {

std::int64_t values_bytes(std::int64_t cols) {
  return (cols * std::int64_t{sizeof(bf16)} + 63) / 64 * 64;
}

}  // namespace

const LimbGroup* limb_groups(const std::byte* prepared, std::int64_t cols) {
  return reinterpret_cast<const LimbGroup*>(prepared + values_bytes(cols));
}

std::int64_t limb_prepared_bytes(std::int64_t cols) {
  return values_bytes(cols) + (cols + 127) / 128 * std::int64_t{sizeof(LimbGroup)};
}

}  // namespace dsv
