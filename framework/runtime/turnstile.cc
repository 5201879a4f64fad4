#include "framework/runtime/turnstile.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace flow {

bool Turnstile::open(const Invocation& invocation) const {
  const auto& flights = invocation.ticket->flights();
  return std::all_of(flights.begin(), flights.end(), [&](const auto& f) { return f->turns <= max_turns_; });
}

void Turnstile::enter(Entrance& entrance, std::unique_ptr<Invocation> invocation) {
  ++count_;  // before open(): either we see the turn that ends now, or left() sees us
  {
    const std::lock_guard lock(mutex_);
    if (!open(*invocation)) {
      waiting_.push_back({&entrance, std::move(invocation)});
      return;
    }
  }
  --count_;
  entrance.admit(std::move(invocation));
}

void Turnstile::left() {
  if (count_ == 0) return;
  std::vector<Waiting> admitted;
  {
    const std::lock_guard lock(mutex_);
    const auto closed = std::stable_partition(waiting_.begin(), waiting_.end(),
                                              [&](const Waiting& w) { return open(*w.invocation); });
    std::move(waiting_.begin(), closed, std::back_inserter(admitted));
    waiting_.erase(waiting_.begin(), closed);
    count_ -= static_cast<int>(admitted.size());
  }
  for (Waiting& w : admitted) w.entrance->admit(std::move(w.invocation));
}

bool Turnstile::admit_one() {
  Waiting first{};
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return false;
    first = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    --count_;
  }
  first.entrance->admit(std::move(first.invocation));
  return true;
}

void Turnstile::clear() {
  std::vector<Waiting> dropped;  // destroyed after the lock is released: tickets call left()
  const std::lock_guard lock(mutex_);
  count_ -= static_cast<int>(waiting_.size());
  dropped.swap(waiting_);
}

}  // namespace flow
