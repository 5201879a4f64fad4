// A thread that does jobs one after the other.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "framework/core/recycler.h"

namespace dsv::cuda {

/// The destructor waits for what was posted.
class Worker {
 public:
  Worker() : thread_([this](const std::stop_token& stop) { work(stop); }) {}
  /// `job` is called without arguments and must not throw.
  template <class F>
  void post(F job) {
    JobPtr posted(new JobOf<F>(std::move(job)));
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(posted));
    posted_.notify_one();
  }

 private:
  struct Job : flow::RecycledObject {
    virtual ~Job() = default;
    virtual void run() = 0;
  };
  template <class F>
  struct JobOf final : Job {
    explicit JobOf(F f) : function(std::move(f)) {}
    void run() override { function(); }
    F function;
  };
  using JobPtr = std::unique_ptr<Job>;

  void work(const std::stop_token& stop) {
    while (true) {
      JobPtr job;
      {
        std::unique_lock lock(mutex_);
        if (!posted_.wait(lock, stop, [this] { return !jobs_.empty(); })) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job->run();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any posted_;
  std::deque<JobPtr, flow::Recycled<JobPtr>> jobs_;
  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace dsv::cuda
