// Engram's n-gram hash: token ids to table rows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "framework/core/recycler.h"
#include "framework/core/status.h"
#include "stages/engram/layout.h"
#include "stages/engram/token_map.h"

namespace dsv {

/// What a sequence remembers between calls: the classes of its newest max_ngram - 1 tokens, newest first.
/// A default-constructed one is the start of a sequence. Plain data: copying it forks the sequence.
struct EngramLookback {
  static constexpr std::int32_t kDead = -1;  ///< no n-gram reaches this token or anything before it
  flow::StepVector<std::int32_t> recent;     ///< tokens missing at the end were never there
};

/// Row ids of a chunk for one layer, [token][column], each in [0, rows of the layer's table).
using EngramRowIds = flow::StepVector<std::int64_t>;

/// Hashes chunks of a sequence. Immutable; may be called from several threads with different look-backs.
class EngramHasher {
 public:
  /// Fails when the map's classes are not the layout's compressed vocabulary or the pad id has no class.
  static flow::Result<EngramHasher> make(std::shared_ptr<const EngramLayout> layout,
                                         std::shared_ptr<const TokenMap> map);

  /// Row ids of `ids` for every Engram layer, in the layout's order. `dead` marks tokens inside an image
  /// span, one byte per id, or is empty when there are none. `lookback` is advanced past the chunk; any
  /// chunking of a sequence gives the same rows. Fails, with `lookback` unchanged, on an id out of range.
  flow::Result<flow::StepVector<EngramRowIds>> hash(std::span<const std::int32_t> ids,
                                               std::span<const std::uint8_t> dead,
                                               EngramLookback& lookback) const;

  const EngramLayout& layout() const { return *layout_; }

 private:
  EngramHasher(std::shared_ptr<const EngramLayout> layout, std::shared_ptr<const TokenMap> map);
  flow::Status check(std::span<const std::int32_t> ids, std::span<const std::uint8_t> dead) const;

  std::shared_ptr<const EngramLayout> layout_;
  std::shared_ptr<const TokenMap> map_;
  std::int32_t pad_class_ = 0;
};

}  // namespace dsv
