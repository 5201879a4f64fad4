#include "framework/core/recycler.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <new>

namespace flow {
namespace {

constexpr std::size_t kUnit = 64;
constexpr std::size_t kLargest = std::size_t{1} << 20;
constexpr std::size_t kMostKept = std::size_t{16} << 20;
constexpr std::size_t kSizes = 4 * (std::bit_width(kLargest / kUnit) + 1);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kRecycles = false;  // a block that is used again would hide its use after the end
#else
constexpr bool kRecycles = true;
#endif

/// Blocks of one size that nobody uses; they are linked through their first bytes.
struct FreeList {
  std::mutex mutex;
  void* first = nullptr;
};

/// Bytes in all lists.
std::atomic<std::size_t> kept{0};

/// Never destroyed: static objects may outlive any other.
FreeList* free_lists() {
  static auto* lists = new FreeList[kSizes];
  return lists;
}

/// The size that a block of `bytes` really has, in units, and its list.
struct Size {
  std::size_t units, list;
  explicit Size(std::size_t bytes) {
    const std::size_t wanted = std::max<std::size_t>(1, (bytes + kUnit - 1) / kUnit);
    const std::size_t power = std::bit_ceil(wanted), step = std::max<std::size_t>(1, power / 8);
    units = (wanted + step - 1) / step * step;
    list = 4 * static_cast<std::size_t>(std::countr_zero(power)) + (units - power / 2) / step - 1;
  }
};

}  // namespace

void* take_block(std::size_t bytes) {
  if (!kRecycles || bytes > kLargest) return ::operator new (bytes, std::align_val_t{kUnit});
  const Size size(bytes);
  FreeList& list = free_lists()[size.list];
  {
    const std::lock_guard lock(list.mutex);
    if (void* block = list.first) {
      list.first = *static_cast<void**>(block);
      kept.fetch_sub(size.units * kUnit, std::memory_order_relaxed);
      return block;
    }
  }
  return ::operator new (size.units* kUnit, std::align_val_t{kUnit});
}

void give_block(void* block, std::size_t bytes) noexcept {
  if (!block) return;
  if (!kRecycles || bytes > kLargest) return ::operator delete (block, std::align_val_t{kUnit});
  const Size size(bytes);
  if (kept.load(std::memory_order_relaxed) + size.units * kUnit > kMostKept)
    return ::operator delete (block, std::align_val_t{kUnit});
  kept.fetch_add(size.units * kUnit, std::memory_order_relaxed);
  FreeList& list = free_lists()[size.list];
  const std::lock_guard lock(list.mutex);
  *static_cast<void**>(block) = list.first;
  list.first = block;
}

}  // namespace flow
