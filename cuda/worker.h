// A thread that does jobs one after the other.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace dsv::cuda {

/// The destructor waits for what was posted.
class Worker {
 public:
  Worker() : thread_([this](const std::stop_token& stop) { work(stop); }) {}
  void post(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    posted_.notify_one();
  }

 private:
  void work(const std::stop_token& stop) {
    while (true) {
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        if (!posted_.wait(lock, stop, [this] { return !jobs_.empty(); })) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any posted_;
  std::deque<std::function<void()>> jobs_;
  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace dsv::cuda
