#include "framework/runtime/source.h"

#include <utility>

namespace flow {

void Source::pump() {
  auto invocation = std::make_unique<Invocation>();
  {
    const std::lock_guard lock(mutex_);
    if (running_ || finished_ || in_flight_ == max_in_flight_ || control_.stopped()) return;
    running_ = true;
    ++in_flight_;
    invocation->stamp.sequence = next_++;
  }
  auto flight = std::make_shared<Flight>([this] { landed(); });
  invocation->ticket = make_recycled<const Ticket>(StepVector<std::shared_ptr<Flight>>{std::move(flight)}, turnstile_);
  node_.admit(std::move(invocation));
}

void Source::ended(bool finished) {
  {
    const std::lock_guard lock(mutex_);
    running_ = false;
    finished_ |= finished;
  }
  pump();
}

void Source::landed() {
  {
    const std::lock_guard lock(mutex_);
    --in_flight_;
  }
  pump();
}

}  // namespace flow
