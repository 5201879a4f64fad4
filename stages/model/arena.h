// A block of anonymous memory for weights: page-aligned, huge pages advised, committed as it is written.
#pragma once

#include <cstddef>
#include <utility>

#include "framework/core/status.h"

namespace dsv {

class Arena {
 public:
  Arena() = default;
  /// Reserves `bytes` (at least 1). Error: the system refuses.
  static flow::Result<Arena> reserve(std::size_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Arena& operator=(Arena&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  /// Gives the memory back to the system; what is read next is zero.
  void discard() const;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace dsv
