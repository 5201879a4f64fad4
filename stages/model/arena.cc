#include "stages/model/arena.h"

#include <sys/mman.h>

namespace dsv {

flow::Result<Arena> Arena::reserve(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return flow::errorf("the system has no {} MiB of memory to give", bytes >> 20);
  madvise(memory, bytes, MADV_HUGEPAGE);
  Arena arena;
  arena.data_ = static_cast<std::byte*>(memory);
  arena.size_ = bytes;
  return arena;
}

void Arena::discard() const {
  madvise(data_, size_, MADV_DONTNEED);
}

Arena::~Arena() {
  if (data_) munmap(data_, size_);
}

}  // namespace dsv
