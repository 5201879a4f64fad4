// Turnstile: bounds the turns of feedback loops.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "framework/runtime/inbox.h"

namespace flow {

/// Something an invocation can be handed to.
class Entrance {
 public:
  virtual ~Entrance() = default;
  virtual void admit(std::unique_ptr<Invocation> invocation) = 0;
};

/// Where feedback invocations wait while too many turns of their flight are alive.
class Turnstile {
 public:
  explicit Turnstile(int max_turns) : max_turns_(max_turns) {}
  /// Hands the invocation to `entrance` at once, or later from the thread that ends a turn.
  void enter(Entrance& entrance, std::unique_ptr<Invocation> invocation);
  /// A turn has ended.
  void left();
  /// Admits the first that waits although it is too early; false when none waits. Called when nothing
  /// else moves any more: the limit may delay work but never stop it.
  bool admit_one();
  /// Forgets those that wait.
  void clear();

 private:
  struct Waiting {
    Entrance* entrance;
    std::unique_ptr<Invocation> invocation;
  };
  bool open(const Invocation& invocation) const;

  const int max_turns_;
  std::atomic<int> count_{0};
  std::mutex mutex_;
  std::vector<Waiting> waiting_;
};

}  // namespace flow
