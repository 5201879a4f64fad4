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

Status Inbox::count(std::size_t edge) {
  if (fill_[edge] >= kEdgeCapacity) return errorf("holds {} packets that nobody has consumed", fill_[edge]);
  ++fill_[edge];
  return {};
}

std::unique_ptr<Invocation> Inbox::blank(Stamp stamp) const {
  auto invocation = std::make_unique<Invocation>();
  invocation->stamp = stamp;
  invocation->inputs.resize(port_size_.size());
  for (std::size_t port = 0; port < port_size_.size(); ++port) {
    invocation->inputs[port].resize(port_size_[port]);
  }
  if (tracing_) invocation->trace.arrived = Telemetry::now();
  return invocation;
}

Packet& Inbox::at(Invocation& invocation, std::size_t edge) const {
  return invocation.inputs[slots_[edge].port][slots_[edge].position];
}

void Inbox::store(Invocation& invocation, std::size_t edge, const Parcel& parcel) const {
  at(invocation, edge) = parcel.packet;
  // All packets of a turn have one ticket, and its count of owners is shared by all threads.
  if (invocation.ticket != parcel.ticket)
    invocation.ticket = join(std::move(invocation.ticket), parcel.ticket);
  if (tracing_) invocation.trace.origins.push_back(parcel.span);
}

void Inbox::finish(Invocation& invocation, std::size_t last_edge) const {
  if (!tracing_) return;
  invocation.trace.ready = slots_.size() == 1 ? invocation.trace.arrived : Telemetry::now();
  invocation.trace.last_edge = static_cast<int>(last_edge);
}

std::unique_ptr<Invocation> Inbox::single(std::size_t edge, const Parcel& parcel) const {
  auto invocation = blank(parcel.packet.stamp());
  store(*invocation, edge, parcel);
  finish(*invocation, edge);
  return invocation;
}

Inbox::Partials::iterator Inbox::partial(Stamp stamp) {
  const auto found = std::find_if(partials_.begin(), partials_.end(),
                                  [&](const Partial& p) { return p.invocation->stamp == stamp; });
  return found != partials_.end() ? found : partials_.insert(found, {blank(stamp), slots_.size()});
}

Result<bool> Inbox::accept(std::size_t edge, const Parcel& parcel) {
  const std::lock_guard lock(mutex_);
  FLOW_TRY(count(edge));
  if (plan_.stage->policy == InputPolicy::any || slots_.size() == 1) {
    ready_.push_back(single(edge, parcel));
    return true;
  }
  const Stamp stamp = parcel.packet.stamp();
  const auto join = partial(stamp);
  if (at(*join->invocation, edge)) {
    return errorf("carries a second packet for stamp {}.{}", stamp.sequence, stamp.step);
  }
  store(*join->invocation, edge, parcel);
  if (--join->missing > 0) return false;
  finish(*join->invocation, edge);
  ready_.push_back(std::move(join->invocation));
  partials_.erase(join);
  return true;
}

Result<std::unique_ptr<Invocation>> Inbox::hold(std::size_t edge, const Parcel& parcel) {
  const std::lock_guard lock(mutex_);
  FLOW_TRY(count(edge));
  return single(edge, parcel);
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
  Partials partials;  // destroyed after the lock is released: tickets call back
  Ready ready;
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
