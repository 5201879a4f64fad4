#include "stages/engram/hash.h"

#include <algorithm>
#include <utility>

namespace dsv {

using flow::errorf;
using flow::Result;
using flow::Status;

EngramHasher::EngramHasher(std::shared_ptr<const EngramLayout> layout, std::shared_ptr<const TokenMap> map)
    : layout_(std::move(layout)), map_(std::move(map)) {}

Result<EngramHasher> EngramHasher::make(std::shared_ptr<const EngramLayout> layout,
                                        std::shared_ptr<const TokenMap> map) {
  const EngramParams& p = layout->params;
  if (map->classes != p.compressed_vocab)
    return errorf("the tokenizer has {} token classes; engram_compressed_vocab_size is {}", map->classes,
                  p.compressed_vocab);
  if (p.pad_id >= static_cast<std::int64_t>(map->class_of.size()))
    return errorf("engram_pad_id is {}; the tokenizer has {} ids", p.pad_id, map->class_of.size());
  EngramHasher hasher(std::move(layout), std::move(map));
  hasher.pad_class_ = hasher.map_->class_of[static_cast<std::size_t>(p.pad_id)];
  return hasher;
}

namespace {

/// Python's and numpy's remainder, in [0, divisor).
std::int64_t floor_mod(std::int64_t value, std::int64_t divisor) {
  const std::int64_t remainder = value % divisor;
  return remainder < 0 ? remainder + divisor : remainder;
}

/// Appends the rows of one token, given the classes it sees: itself first, then back in time.
void append_rows(const EngramLayerLayout& layer, std::int64_t heads, const flow::StepVector<std::int32_t>& classes,
                 EngramRowIds& rows) {
  std::uint64_t hash = 0;  // int64 arithmetic that wraps around
  std::size_t column = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    hash ^= static_cast<std::uint64_t>(classes[i]) * static_cast<std::uint64_t>(layer.multipliers[i]);
    for (std::int64_t head = 0; i > 0 && head < heads; ++head, ++column)
      rows.push_back(floor_mod(static_cast<std::int64_t>(hash), layer.primes[column]) +
                     layer.offsets[column]);
  }
}

}  // namespace

Status EngramHasher::check(std::span<const std::int32_t> ids, std::span<const std::uint8_t> dead) const {
  if (!dead.empty() && dead.size() != ids.size())
    return errorf("{} dead marks for {} tokens", dead.size(), ids.size());
  const auto bad = std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) {
    return id < 0 || static_cast<std::size_t>(id) >= map_->class_of.size();
  });
  if (bad == ids.end()) return Status();
  return errorf("token id {} at {} of the chunk is outside the vocabulary of {}", *bad, bad - ids.begin(),
                map_->class_of.size());
}

Result<flow::StepVector<EngramRowIds>> EngramHasher::hash(std::span<const std::int32_t> ids,
                                                     std::span<const std::uint8_t> dead,
                                                     EngramLookback& lookback) const {
  FLOW_TRY(check(ids, dead));
  const auto reach = static_cast<std::size_t>(layout_->params.max_ngram);
  flow::StepVector<EngramRowIds> rows(layout_->layers.size());
  for (EngramRowIds& layer : rows) layer.reserve(ids.size() * static_cast<std::size_t>(layout_->columns()));
  flow::StepVector<std::int32_t> window = lookback.recent;  // newest first
  window.resize(reach, EngramLookback::kDead);
  for (std::size_t k = 0; k < ids.size(); ++k) {
    std::shift_right(window.begin(), window.end(), 1);
    window.front() = !dead.empty() && dead[k] != 0 ? EngramLookback::kDead : map_->class_of[ids[k]];
    flow::StepVector<std::int32_t> seen = window;
    std::fill(std::find(seen.begin(), seen.end(), EngramLookback::kDead), seen.end(), pad_class_);
    for (std::size_t i = 0; i < rows.size(); ++i)
      append_rows(layout_->layers[i], layout_->params.n_heads, seen, rows[i]);
  }
  window.resize(reach - 1);
  lookback.recent = std::move(window);
  return rows;
}

}  // namespace dsv
