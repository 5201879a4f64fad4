#include "stages/moe/page_pool.h"

#include <algorithm>
#include <new>

#include "stages/model/align.h"

namespace dsv {
namespace {

/// Of address space; memory follows as blocks are written.
constexpr std::size_t kStretchBytes = std::size_t{64} << 20;

}  // namespace

PagePool::PagePool(std::size_t block_bytes) : stride_(align_up(block_bytes)) {}

PagePool::Block PagePool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) grow();
  std::byte* block = free_.back();
  free_.pop_back();
  return Block(block, {shared_from_this()});
}

void PagePool::put(std::byte* block) {
  const std::lock_guard lock(mutex_);
  free_.push_back(block);
}

void PagePool::grow() {
  const std::size_t blocks = std::max<std::size_t>(1, kStretchBytes / stride_);
  auto stretch = Arena::reserve(blocks * stride_);
  if (!stretch.ok()) throw std::bad_alloc();
  for (std::size_t i = blocks; i-- > 0;) free_.push_back(stretch->data() + i * stride_);
  stretches_.push_back(*std::move(stretch));
}

}  // namespace dsv
