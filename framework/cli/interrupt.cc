#include "framework/cli/interrupt.h"

#include <unistd.h>

#include <utility>

namespace flow::cli {
namespace {

constexpr int kExitInterrupted = 130;

}  // namespace

Interrupt::Interrupt() {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals_, signal);
  }
  // Wakes the watcher when there is nothing left to watch.
  sigaddset(&signals_, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  watcher_ = std::thread([this] { watch(); });
}

Interrupt::~Interrupt() {
  stopping_ = true;
  pthread_kill(watcher_.native_handle(), SIGUSR2);
  watcher_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupt::on_signal(std::function<void()> cancel) {
  const std::lock_guard lock(mutex_);
  cancel_ = std::move(cancel);
}

void Interrupt::watch() {
  while (true) {
    int signal = 0;
    sigwait(&signals_, &signal);
    if (stopping_) return;
    if (signal == SIGUSR2) continue;
    const std::lock_guard lock(mutex_);
    if (!cancel_ || happened_.exchange(true)) ::_exit(kExitInterrupted);
    cancel_();
  }
}

void ignore_write_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace flow::cli
