// Selections over index scores: the best positions, and the blocks that later layers may look into.
#pragma once

#include <cstdint>
#include <span>

#include "framework/core/recycler.h"

namespace dsv {

/// The k positions with the highest scores, ascending. A score of -inf is never selected; of equal scores
/// the lowest position wins. Fewer than k when fewer are selectable.
flow::StepVector<std::int32_t> top_k_positions(std::span<const float> scores, int k);

/// The `keep` best blocks of `block` positions among the first `visible`, ascending block ids. A block scores
/// as its best position; the block of the newest visible position is always among them; a block without any
/// score above -inf is not, unless it is that one. Of equal blocks the lowest wins.
flow::StepVector<std::int32_t> select_candidate_blocks(std::span<const float> scores, std::int64_t visible,
                                                  int block, int keep);

}  // namespace dsv
