// Inbox: what has come for a node - packets waiting for their partners, and invocations ready to run.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "framework/core/plan.h"
#include "framework/runtime/ticket.h"
#include "framework/trace/recorder.h"

namespace flow {

/// One call of a stage that can be made.
struct Invocation : RecycledObject {
  Stamp stamp;
  Inputs inputs;
  TicketPtr ticket;
  StageSpan trace;  ///< arrival times and senders, when tracing
};

/// A packet on its way.
struct Parcel {
  Packet packet;
  TicketPtr ticket;
  std::uint64_t span = 0;  ///< that sent it, when tracing
};

/// Joins packets as the node's policy says, keeps ready invocations in order of arrival, and counts the
/// packets on each edge. Thread-safe.
class Inbox {
 public:
  /// Packets that one edge may hold; reached only when a stage floods a slower one.
  static constexpr int kEdgeCapacity = 4096;

  Inbox(const NodePlan& plan, bool tracing);

  /// Takes the packet that came on `edge`. True when it completes an invocation, which is ready then.
  /// Errors: a second packet with one stamp for a join; an edge that is full. They do not name the edge.
  Result<bool> accept(std::size_t edge, const Parcel& parcel);
  /// Takes the packet that came on a feedback edge: an invocation of its own, which is not ready yet.
  Result<std::unique_ptr<Invocation>> hold(std::size_t edge, const Parcel& parcel);
  /// Appends an invocation to those that are ready.
  void push(std::unique_ptr<Invocation> invocation);
  /// The first that is ready. There must be one.
  std::unique_ptr<Invocation> pop();
  /// Drops everything.
  void clear();

  /// The oldest stamp that waits for a packet, and the first edge it has not come on.
  struct Gap {
    Stamp stamp;
    std::size_t edge;
  };
  std::optional<Gap> gap() const;
  /// Packets on `edge` that no invocation has consumed.
  int fill(std::size_t edge) const;

 private:
  struct Slot {
    std::size_t port, position;
  };
  struct Partial {
    std::unique_ptr<Invocation> invocation;
    std::size_t missing;
  };
  using Partials = std::vector<Partial>;  // keeps its room
  using Ready = std::deque<std::unique_ptr<Invocation>, Recycled<std::unique_ptr<Invocation>>>;
  Status count(std::size_t edge);
  std::unique_ptr<Invocation> blank(Stamp stamp) const;
  std::unique_ptr<Invocation> single(std::size_t edge, const Parcel& parcel) const;
  Partials::iterator partial(Stamp stamp);
  void finish(Invocation& invocation, std::size_t last_edge) const;
  Packet& at(Invocation& invocation, std::size_t edge) const;
  void store(Invocation& invocation, std::size_t edge, const Parcel& parcel) const;

  const NodePlan& plan_;
  const bool tracing_;
  std::vector<Slot> slots_;             // of each edge
  std::vector<std::size_t> port_size_;  // edges of each input port
  mutable std::mutex mutex_;
  Partials partials_;
  Ready ready_;
  std::vector<int> fill_;
};

}  // namespace flow
