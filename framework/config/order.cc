#include "framework/config/order.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace flow::config {
namespace {

class Sorter {
 public:
  explicit Sorter(const std::vector<std::vector<int>>& needs)
      : needs_(needs), needed_by_(needs.size()), waiting_(needs.size()), placed_(needs.size()) {
    for (int i = 0; i < count(); ++i) {
      for (const int need : needs_[at(i)]) needed_by_[at(need)].push_back(i);
      waiting_[at(i)] = static_cast<int>(needs_[at(i)].size());
      if (waiting_[at(i)] == 0) ready_.push(i);
    }
  }

  Ordering run() {
    for (int first_waiting = 0; true;) {
      while (!ready_.empty()) {
        const int next = ready_.top();
        ready_.pop();
        place(next);
      }
      while (first_waiting < count() && placed_[at(first_waiting)]) ++first_waiting;
      if (first_waiting == count()) return std::move(result_);
      result_.cycles.push_back(find_cycle(first_waiting));
      for (const int item : result_.cycles.back()) place(item);
    }
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int count() const { return static_cast<int>(needs_.size()); }

  void place(int item) {
    if (placed_[at(item)]) return;
    placed_[at(item)] = true;
    result_.order.push_back(item);
    for (const int next : needed_by_[at(item)]) {
      if (--waiting_[at(next)] == 0) ready_.push(next);
    }
  }

  // Every item that waits needs another one that waits: walking back must come round.
  std::vector<int> find_cycle(int start) const {
    std::vector<int> walk;
    std::vector<int> position(needs_.size(), -1);
    for (int item = start; true;) {
      if (const int seen = position[at(item)]; seen >= 0) {
        walk.erase(walk.begin(), walk.begin() + seen);
        std::reverse(walk.begin(), walk.end());
        std::rotate(walk.begin(), std::min_element(walk.begin(), walk.end()), walk.end());
        return walk;
      }
      position[at(item)] = static_cast<int>(walk.size());
      walk.push_back(item);
      item = *std::find_if(needs_[at(item)].begin(), needs_[at(item)].end(),
                           [&](int need) { return !placed_[at(need)]; });
    }
  }

  const std::vector<std::vector<int>>& needs_;
  std::vector<std::vector<int>> needed_by_;
  std::vector<int> waiting_;
  std::vector<bool> placed_;
  std::priority_queue<int, std::vector<int>, std::greater<>> ready_;
  Ordering result_;
};

}  // namespace

Ordering order_by_needs(const std::vector<std::vector<int>>& needs) {
  return Sorter(needs).run();
}

std::string cycle_text(const std::vector<std::string>& names) {
  constexpr std::size_t kShownAtEachEnd = 4;
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool hidden = i >= kShownAtEachEnd && i + kShownAtEachEnd < names.size();
    if (!hidden) text += names[i] + " -> ";
    if (hidden && i == kShownAtEachEnd) text += "... -> ";
  }
  return text + names.front();
}

}  // namespace flow::config
