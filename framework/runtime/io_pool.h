// Threads for bodies that may block.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "framework/core/recycler.h"

namespace flow {

/// A fixed number of threads that start jobs in the order they were posted. The destructor waits for
/// what was posted.
class IoPool {
 public:
  explicit IoPool(int threads);
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;
  /// `job` must not throw.
  void post(std::function<void()> job);

 private:
  void work(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any posted_;
  std::deque<std::function<void()>, Recycled<std::function<void()>>> jobs_;
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

/// Runs one job over and over on a pool: as often as it is posted, at most `concurrency` times at once.
class IoLane {
 public:
  /// `done` is called after each job; the lane does nothing after the last one, so that it may be
  /// destroyed then.
  IoLane(IoPool& pool, int concurrency, std::function<void()> job, std::function<void()> done)
      : pool_(pool), idle_(concurrency), job_(std::move(job)), done_(std::move(done)) {}
  void post();

 private:
  void run();

  IoPool& pool_;
  std::mutex mutex_;
  int idle_;         // runs that may still start
  int backlog_ = 0;  // runs that wait for one to end
  const std::function<void()> job_, done_;
};

}  // namespace flow
