#include "stages/kernels/candidates.h"

#include <algorithm>
#include <limits>

namespace dsv {
namespace {
constexpr float kNone = -std::numeric_limits<float>::infinity();
}

flow::StepVector<std::int32_t> top_k_positions(std::span<const float> scores, int k) {
  flow::StepVector<std::int32_t> chosen;
  chosen.reserve(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > kNone) chosen.push_back(static_cast<std::int32_t>(i));
  }
  const auto count = static_cast<std::size_t>(std::max(k, 0));
  if (chosen.size() <= count) return chosen;
  const auto better = [&](std::int32_t a, std::int32_t b) {
    const float sa = scores[static_cast<std::size_t>(a)], sb = scores[static_cast<std::size_t>(b)];
    return sa != sb ? sa > sb : a < b;
  };
  const auto end = chosen.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(chosen.begin(), end, chosen.end(), better);
  chosen.erase(end, chosen.end());
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

flow::StepVector<std::int32_t> select_candidate_blocks(std::span<const float> scores, std::int64_t visible,
                                                  int block, int keep) {
  const std::int64_t length = std::min<std::int64_t>(visible, static_cast<std::int64_t>(scores.size()));
  if (length <= 0) return {};
  flow::StepVector<float> best(static_cast<std::size_t>((length + block - 1) / block), kNone);
  for (std::int64_t i = 0; i < length; ++i) {
    float& b = best[static_cast<std::size_t>(i / block)];
    b = std::max(b, scores[static_cast<std::size_t>(i)]);
  }
  best.back() = std::numeric_limits<float>::infinity();
  return top_k_positions(best, keep);
}

}  // namespace dsv
