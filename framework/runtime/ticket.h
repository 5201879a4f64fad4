// Tickets: how the runtime knows what is still in flight, and bounds it.
//
// Every invocation of a source opens a flight. Its packets, and all packets that descend from them, travel
// with a ticket of it. When the last one is gone the flight has landed and the source may run again.
// A stage that sends packets with a new stamp - the next turn of a feedback loop - gives them a ticket of
// their own, which keeps the flight open but counts as one more turn. A feedback packet is let into its
// consumer only while at most max_in_flight turns of its flight are alive, its own included. So an edge
// holds at most max_in_flight flights x (max_in_flight + 1) turns of packets, if stages send one a stamp.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "framework/core/recycler.h"

namespace flow {

/// A source invocation some of whose descendants are alive.
class Flight {
 public:
  explicit Flight(std::function<void()> landed) : landed_(std::move(landed)) {}
  ~Flight() { landed_(); }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  std::atomic<int> turns{0};

 private:
  std::function<void()> landed_;
};

class Turnstile;

/// What travels with a packet. Immutable.
class Ticket {
 public:
  /// A new turn of `flights`.
  Ticket(StepVector<std::shared_ptr<Flight>> flights, Turnstile& turnstile);
  /// Keeps both tickets, and belongs to the flights of both: for an invocation that joins packets of
  /// several sources.
  Ticket(std::shared_ptr<const Ticket> a, std::shared_ptr<const Ticket> b);
  ~Ticket();
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;
  const StepVector<std::shared_ptr<Flight>>& flights() const { return flights_; }

 private:
  StepVector<std::shared_ptr<Flight>> flights_;
  std::shared_ptr<const Ticket> a_, b_;
  Turnstile* turnstile_ = nullptr;
};
using TicketPtr = std::shared_ptr<const Ticket>;

/// Both tickets in one; cheap when they are the same.
TicketPtr join(TicketPtr a, TicketPtr b);

}  // namespace flow
