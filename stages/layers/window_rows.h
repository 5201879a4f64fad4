// The sliding-window KV of one pass through one layer.
#pragma once

#include <cstdint>

#include "stages/kernels/kernels.h"
#include "stages/model/kv_cache.h"
#include "stages/model/rows.h"

namespace dsv {

/// KV rows of the window_size - 1 positions before a pass's first query and of everything after them, as
/// attention reads them: after the fp8 round trip. Rows of earlier passes come from the cache's ring, new
/// ones are appended to both.
class WindowRows {
 public:
  /// Inputs of the pass are at positions [pass.begin, pass.end), its queries at [queries, pass.end).
  WindowRows(const Kernels& kernels, LayerCache& cache, std::int64_t window, std::int64_t dim, Range pass,
             std::int64_t queries);

  /// First position that the pass has to append; behind pass.begin where nothing reads the rows before it.
  std::int64_t next() const { return next_; }
  /// Rows [tokens, dim] of the positions from next() on, normalized and rotated.
  void append(const Rows<bf16>& kv);
  /// The row at `position`; null where there is none: before the start, or left out of a bounded prefill.
  const bf16* row(std::int64_t position) const {
    return position < cache_.window_begin ? nullptr : rows_.row(position - first_);
  }

 private:
  const Kernels& kernels_;
  LayerCache& cache_;
  std::int64_t window_, first_, next_;
  Rows<bf16> rows_;  // from position first_
};

}  // namespace dsv
