#include "stages/model/io/rehearsal.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <random>

namespace dsv {
using flow::Status;

Status RehearsalPlan::set_fault(std::string_view text) {
  const auto at = text.find('@');
  const std::string_view kind = text.substr(0, at);
  const char* end = text.data() + text.size();
  const auto number = at == std::string_view::npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                                   : std::from_chars(text.data() + at + 1, end, fault_at);
  if ((kind != "eio" && kind != "short") || number.ec != std::errc() || number.ptr != end || fault_at < 1)
    return flow::errorf("fault '{}' is neither eio@N nor short@N with the number N of a read, from 1", text);
  fault_short = kind == "short";
  return {};
}

Rehearsal::Rehearsal(RehearsalPlan plan, const std::atomic<bool>& cancelled, Deliver next)
    : plan_(plan), cancelled_(cancelled), next_(std::move(next)) {
  if (plan_.delay > 0) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Rehearsal::~Rehearsal() = default;

/// A fault takes the place of what was read.
void Rehearsal::deliver(ReadBlock block, Status status) {
  std::unique_lock lock(mutex_);
  const std::uint64_t number = ++number_;
  if (number == static_cast<std::uint64_t>(plan_.fault_at)) {
    status = plan_.fault_short ? ended_early(*block.file, (block.begin + block.end) / 2)
                               : refused_read(*block.file, block.begin, EIO);
  }
  if (plan_.delay <= 0) {
    lock.unlock();
    return next_(std::move(block), std::move(status));
  }
  const std::int64_t when = due(block, number);
  late_.emplace(when, Late{std::move(block), std::move(status)});
  change_.notify_all();
}

std::int64_t Rehearsal::due(const ReadBlock& block, std::uint64_t number) const {
  double seconds = plan_.delay;
  if (plan_.shuffle) {
    std::mt19937_64 random(number);
    seconds *= std::uniform_real_distribution<>(0, 2)(random);
  }
  return block.taken + static_cast<std::int64_t>(seconds * 1e9);
}

void Rehearsal::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (late_.empty()) {
      if (!change_.wait(lock, stop, [this] { return !late_.empty(); })) return;
      continue;
    }
    const std::int64_t left = late_.begin()->first - flow::Telemetry::now();
    if (left > 0 && !cancelled_ && !stop.stop_requested()) {
      // A signal handler cannot notify, so look now and then.
      change_.wait_for(lock, stop,
                       std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds(left), kGlance),
                       [first = late_.begin()->first, this] { return late_.begin()->first < first; });
      continue;
    }
    Late late = std::move(late_.begin()->second);
    late_.erase(late_.begin());
    lock.unlock();
    next_(std::move(late.block), std::move(late.status));
    lock.lock();
  }
}

}  // namespace dsv
