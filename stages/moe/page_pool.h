// Memory of expert pages, used again when a page is gone.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "stages/model/arena.h"

namespace dsv {

/// Blocks of one size, cut from large stretches with huge pages advised. A fresh page costs the kernel a thousand
/// faults and as many cleared pages; a block that comes back costs nothing. The system gets the memory back
/// when the pool and all blocks are gone, so the pool holds what was in use at once at most. Thread-safe.
class PagePool : public std::enable_shared_from_this<PagePool> {
 public:
  /// Gives a block back to the pool that it keeps alive.
  struct Return {
    std::shared_ptr<PagePool> pool;
    void operator()(std::byte* block) const { pool->put(block); }
  };
  /// Aligned to kAlignment, not cleared.
  using Block = std::unique_ptr<std::byte, Return>;

  explicit PagePool(std::size_t block_bytes);
  /// Throws std::bad_alloc when the system has no memory to give.
  Block take();

 private:
  void put(std::byte* block);
  void grow();

  const std::size_t stride_;
  std::mutex mutex_;
  std::vector<Arena> stretches_;
  std::vector<std::byte*> free_;  // the last one is taken first
};

}  // namespace dsv
