// Source: when a stage without inputs runs.
#pragma once

#include <cstdint>
#include <mutex>

#include "framework/runtime/control.h"
#include "framework/runtime/turnstile.h"

namespace flow {

/// Starts a source's invocations one after another, until it calls finish(), and keeps at most
/// `max_in_flight` of them alive, from their start until their last descendant packet is gone.
/// Invocation n has the stamp n.0.
class Source {
 public:
  Source(Entrance& node, const RunControl& control, Turnstile& turnstile, int max_in_flight)
      : node_(node), control_(control), turnstile_(turnstile), max_in_flight_(max_in_flight) {}
  /// Starts the next invocation if it may start now.
  void pump();
  /// An invocation has returned.
  void ended(bool finished);

 private:
  void landed();

  Entrance& node_;
  const RunControl& control_;
  Turnstile& turnstile_;
  const int max_in_flight_;
  std::mutex mutex_;
  std::uint64_t next_ = 0;
  int in_flight_ = 0;
  bool running_ = false;
  bool finished_ = false;
};

}  // namespace flow
