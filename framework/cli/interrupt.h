// Signals. SIGINT and SIGTERM: the first one ends the run cleanly, the second one the process.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <thread>

namespace flow::cli {

/// While it lives, a thread waits for the two signals; all threads started meanwhile leave them to it. A
/// signal that the caller's caller ignores stays ignored (nohup).
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// What the first signal does. Before this, a signal ends the process at once, exit code 130.
  void on_signal(std::function<void()> cancel);
  bool happened() const { return happened_; }

 private:
  void watch();

  sigset_t signals_{}, before_{};
  std::mutex mutex_;
  std::function<void()> cancel_;
  std::atomic<bool> happened_{false};
  std::atomic<bool> stopping_{false};
  std::thread watcher_;
};

/// A reader that has gone (SIGPIPE) and a file that may not grow (SIGXFSZ) fail the write, not the process.
void ignore_write_signals();

}  // namespace flow::cli
