#include "framework/runtime/inbox.h"

#include <algorithm>
#include <utility>

namespace flow {

Inbox::Inbox(const NodePlan& plan, bool tracing)
    : plan_(plan), tracing_(tracing), port_size_(plan.stage->inputs.size()), fill_(plan.inputs.size()) {
  for (const EdgePlan& edge : plan.inputs) {
    const auto port = static_cast<std::size_t>(edge.input);
    slots_.push_back({port, port_size_[port]++});
  }
}

std::unique_ptr<Invocation> Inbox::blank(Stamp stamp) const {
  auto invocation = std::make_unique<Invocation>();
  invocation->stamp = stamp;
  invocation->inputs.resize(port_size_.size());
  for (std::size_t port = 0; port < port_size_.size(); ++port) {
    invocation->inputs[port].resize(port_size_[port]);
  }
  return invocation;
}

Packet& Inbox::at(Invocation& invocation, std::size_t edge) const {
  return invocation.inputs[slots_[edge].port][slots_[edge].position];
}

void Inbox::store(Invocation& invocation, std::size_t edge, const Parcel& parcel) const {
  at(invocation, edge) = parcel.packet;
  invocation.ticket =
      join(std::move(invocation.ticket), std::static_pointer_cast<const Ticket>(parcel.packet.ticket()));
  if (!tracing_) return;
  invocation.trace.ready = Telemetry::now();
  if (invocation.trace.arrived == 0) invocation.trace.arrived = invocation.trace.ready;
  invocation.trace.last_edge = static_cast<int>(edge);
  invocation.trace.origins.push_back(parcel.span);
}

Result<std::unique_ptr<Invocation>> Inbox::accept(std::size_t edge, const Parcel& parcel) {
  const Stamp stamp = parcel.packet.stamp();
  const std::lock_guard lock(mutex_);
  if (fill_[edge] >= kEdgeCapacity) return errorf("holds {} packets that nobody has consumed", fill_[edge]);
  ++fill_[edge];
  if (plan_.stage->policy == InputPolicy::any || slots_.size() == 1) {
    auto invocation = blank(stamp);
    store(*invocation, edge, parcel);
    return invocation;
  }
  auto partial = std::find_if(partials_.begin(), partials_.end(),
                              [&](const Partial& p) { return p.invocation->stamp == stamp; });
  if (partial == partials_.end()) {
    partial = partials_.insert(partials_.end(), {blank(stamp), slots_.size()});
  }
  if (at(*partial->invocation, edge)) {
    return errorf("carries a second packet for stamp {}.{}", stamp.sequence, stamp.step);
  }
  store(*partial->invocation, edge, parcel);
  if (--partial->missing > 0) return std::unique_ptr<Invocation>();
  auto complete = std::move(partial->invocation);
  partials_.erase(partial);
  return complete;
}

void Inbox::push(std::unique_ptr<Invocation> invocation) {
  const std::lock_guard lock(mutex_);
  ready_.push_back(std::move(invocation));
}

std::unique_ptr<Invocation> Inbox::pop() {
  const std::lock_guard lock(mutex_);
  auto invocation = std::move(ready_.front());
  ready_.pop_front();
  for (std::size_t edge = 0; edge < slots_.size(); ++edge) {
    if (at(*invocation, edge)) --fill_[edge];
  }
  return invocation;
}

void Inbox::clear() {
  std::vector<Partial> partials;  // destroyed after the lock is released: tickets call back
  std::deque<std::unique_ptr<Invocation>> ready;
  const std::lock_guard lock(mutex_);
  partials.swap(partials_);
  ready.swap(ready_);
}

std::optional<Inbox::Gap> Inbox::gap() const {
  const std::lock_guard lock(mutex_);
  const auto oldest = std::min_element(
      partials_.begin(), partials_.end(),
      [](const Partial& a, const Partial& b) { return a.invocation->stamp < b.invocation->stamp; });
  if (oldest == partials_.end()) return std::nullopt;
  std::size_t edge = 0;
  while (at(*oldest->invocation, edge)) ++edge;
  return Gap{oldest->invocation->stamp, edge};
}

int Inbox::fill(std::size_t edge) const {
  const std::lock_guard lock(mutex_);
  return fill_[edge];
}

}  // namespace flow
