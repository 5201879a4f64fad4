#include "framework/runtime/io_pool.h"

namespace flow {

IoPool::IoPool(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

void IoPool::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  posted_.notify_one();
}

void IoPool::work(const std::stop_token& stop) {
  for (;;) {
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

void IoLane::post() {
  {
    const std::lock_guard lock(mutex_);
    if (idle_ == 0) {
      ++backlog_;
      return;
    }
    --idle_;
  }
  pool_.post([this] { run(); });
}

void IoLane::run() {
  job_();
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    more = backlog_ > 0;
    more ? --backlog_ : ++idle_;
  }
  if (more) pool_.post([this] { run(); });
  done_();
}

}  // namespace flow
