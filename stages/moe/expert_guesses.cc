#include "stages/moe/expert_guesses.h"

#include <algorithm>

namespace dsv {

void ExpertGuesses::guess(int layer, int expert) {
  const Key key{layer, expert};
  const auto guess = std::make_shared<Guess>();
  const std::lock_guard lock(mutex_);
  if (guesses_.size() + leaving_ >= room_ || !guesses_.emplace(key, guess).second) return;
  ++counts_.started;
  guess->ticket = start_(layer, expert, [this, key, guess](flow::Result<ExpertPagePtr> page) {
    arrived(key, guess, std::move(page));
  });
}

void ExpertGuesses::arrived(Key key, const std::shared_ptr<Guess>& guess, flow::Result<ExpertPagePtr> page) {
  Done waiting;
  {
    const std::lock_guard lock(mutex_);
    guess->ticket = nullptr;
    const auto at = guesses_.find(key);
    const bool kept = at != guesses_.end() && at->second == guess;
    waiting = std::exchange(guess->waiting, nullptr);
    if (!kept && !waiting) --leaving_;
    // A guess that cannot be read is no error until a pass asks for the page.
    if (kept && page.ok()) guess->page = *page;
    if (kept && !page.ok()) guesses_.erase(at);
  }
  if (waiting) waiting(std::move(page));
}

ExpertGuesses::Taken ExpertGuesses::take(int layer, int expert, const Done& done) {
  std::shared_ptr<Guess> guess;
  ReadTicket ticket;
  {
    const std::lock_guard lock(mutex_);
    const auto at = guesses_.find({layer, expert});
    if (at == guesses_.end()) return {};
    guess = at->second;
    guesses_.erase(at);
    ++counts_.used;
    if (guess->page) return {guess->page, false};
    guess->waiting = done;
    ticket = guess->ticket;
  }
  hurry_(ticket);
  return {nullptr, true};
}

void ExpertGuesses::settle(int layer, std::span<const std::int32_t> wanted) {
  std::vector<ReadTicket> dropped;
  {
    const std::lock_guard lock(mutex_);
    auto at = guesses_.lower_bound({layer, 0});
    while (at != guesses_.end() && at->first.first == layer) {
      if (std::find(wanted.begin(), wanted.end(), at->first.second) != wanted.end()) {
        ++at;
        continue;
      }
      ++counts_.wrong;
      if (!at->second->page) {
        ++leaving_;
        dropped.push_back(at->second->ticket);
      }
      at = guesses_.erase(at);
    }
  }
  for (const ReadTicket& ticket : dropped) drop_(ticket);
}

GuessCounts ExpertGuesses::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace dsv
