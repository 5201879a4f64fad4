// Recycled memory: what one step of a pipeline gives back, the next one takes. A step that has been made once
// with the same shapes asks the system for nothing.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

namespace flow {

/// A block of at least `bytes`, aligned to 64 bytes, not cleared. Blocks up to 1 MiB come from lists of
/// blocks that were given back, one list for all threads and each size (four sizes in every doubling), which
/// keep 16 MiB at most. Larger ones come from the system: next to the work on so much memory its price is
/// nothing, and it may be wanted elsewhere. Thread-safe. Throws std::bad_alloc. Under a sanitizer every block
/// is the system's.
void* take_block(std::size_t bytes);
/// Gives back what take_block(bytes) gave.
void give_block(void* block, std::size_t bytes) noexcept;

/// Allocator of recycled memory for containers and shared pointers.
template <class T>
struct Recycled {
  using value_type = T;
  Recycled() = default;
  template <class U>
  Recycled(const Recycled<U>&) {}  // NOLINT: implicit, as allocators are
  T* allocate(std::size_t n) { return static_cast<T*>(take_block(n * sizeof(T))); }
  void deallocate(T* p, std::size_t n) noexcept { give_block(p, n * sizeof(T)); }
  template <class U>
  bool operator==(const Recycled<U>&) const {
    return true;
  }
};

/// Containers of values that live no longer than a step.
template <class T>
using StepVector = std::vector<T, Recycled<T>>;
template <class K, class V>
using StepMap = std::map<K, V, std::less<K>, Recycled<std::pair<const K, V>>>;

/// std::make_shared in recycled memory.
template <class T, class... Args>
std::shared_ptr<T> make_recycled(Args&&... args) {
  return std::allocate_shared<T>(Recycled<std::remove_const_t<T>>(), std::forward<Args>(args)...);
}

/// Base of classes whose objects `new` puts into recycled memory.
struct RecycledObject {
  static void* operator new(std::size_t bytes) { return take_block(bytes); }
  static void operator delete(void* object, std::size_t bytes) { give_block(object, bytes); }
};

}  // namespace flow
