#include "framework/runtime/ticket.h"

#include <algorithm>
#include <utility>

#include "framework/runtime/turnstile.h"

namespace flow {

Ticket::Ticket(StepVector<std::shared_ptr<Flight>> flights, Turnstile& turnstile)
    : flights_(std::move(flights)), turnstile_(&turnstile) {
  for (const auto& flight : flights_) ++flight->turns;
}

Ticket::Ticket(std::shared_ptr<const Ticket> a, std::shared_ptr<const Ticket> b)
    : flights_(a->flights()), a_(std::move(a)), b_(std::move(b)) {
  for (const auto& flight : b_->flights()) {
    if (std::find(flights_.begin(), flights_.end(), flight) == flights_.end()) flights_.push_back(flight);
  }
}

Ticket::~Ticket() {
  if (!turnstile_) return;
  for (const auto& flight : flights_) --flight->turns;
  turnstile_->left();
}

TicketPtr join(TicketPtr a, TicketPtr b) {
  if (!a || a == b) return b;
  if (!b) return a;
  return make_recycled<const Ticket>(std::move(a), std::move(b));
}

}  // namespace flow
