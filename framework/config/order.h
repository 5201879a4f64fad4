// Putting things after what they need.
#pragma once

#include <string>
#include <vector>

namespace flow::config {

struct Ordering {
  std::vector<int> order;                ///< every index once; each after what it needs, cycles aside
  std::vector<std::vector<int>> cycles;  ///< disjoint; each item needs the one before it, the first the last
};

/// `needs[i]` lists what must come before i. Among items that could come next the smallest index is taken.
Ordering order_by_needs(const std::vector<std::vector<int>>& needs);

/// "a -> b -> c -> a"; the middle of a long cycle is left out.
std::string cycle_text(const std::vector<std::string>& names);

}  // namespace flow::config
