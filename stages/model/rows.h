// Rows<T>: a dense row-major matrix that owns its memory, 64-byte aligned and recycled.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "framework/core/recycler.h"

namespace dsv {

template <class T>
class Rows {
 public:
  Rows() = default;
  /// Zero-filled [rows, cols].
  Rows(std::int64_t rows, std::int64_t cols)
      : rows_(rows), cols_(cols), data_(static_cast<std::size_t>(rows * cols)) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  T* data() { return data_.data(); }
  const T* data() const { return data_.data(); }
  T* row(std::int64_t i) { return data_.data() + i * cols_; }
  const T* row(std::int64_t i) const { return data_.data() + i * cols_; }
  std::span<const T> all() const { return data_; }
  /// A copy of rows [begin, end).
  Rows slice(std::int64_t begin, std::int64_t end) const {
    Rows part(end - begin, cols_);
    std::copy(row(begin), row(end), part.data());
    return part;
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(data_)); }

 private:
  std::int64_t rows_ = 0, cols_ = 0;
  flow::StepVector<T> data_;
};

}  // namespace dsv
