// RunControl: whether a run goes on, and why it does not.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>

#include "framework/core/console.h"
#include "framework/core/exception.h"
#include "framework/core/plan.h"
#include "framework/core/status.h"
#include "framework/trace/recorder.h"

namespace flow {

/// A console that says nothing.
class SilentConsole final : public Console {
 public:
  void out(std::string_view) override {}
  void note(std::string_view) override {}
};

/// Passes words on and remembers when the last one came.
class TimedConsole final : public Console {
 public:
  explicit TimedConsole(std::shared_ptr<Console> inner) : inner_(std::move(inner)) {}
  void out(std::string_view text) override {
    last_ = Telemetry::now();
    inner_->out(text);
  }
  void note(std::string_view line) override {
    last_ = Telemetry::now();
    inner_->note(line);
  }
  /// Seconds since the last word, or since the start.
  double quiet() const { return static_cast<double>(Telemetry::now() - last_) * 1e-9; }

 private:
  std::shared_ptr<Console> inner_;
  std::atomic<std::int64_t> last_{Telemetry::now()};
};

/// What all parts of a run share. The first cause that ends a run is kept; later ones are dropped.
class RunControl {
 public:
  RunControl(std::shared_ptr<Console> console, std::shared_ptr<RunReport> report,
             std::shared_ptr<Recorder> recorder)
      : console_(console ? std::move(console) : std::make_shared<SilentConsole>()),
        report_(report ? std::move(report) : std::make_shared<RunReport>()),
        recorder_(std::move(recorder)) {}

  /// Ends the run with an error. Success is ignored.
  void fail(Status error) {
    if (error.ok()) return;
    const std::lock_guard lock(mutex_);
    if (end(Cause::error)) error_ = std::move(error);
  }
  /// Ends the run by the user's wish. Touches lock-free atomics only: safe in a signal handler.
  void cancel() { end(Cause::user); }
  /// All is done: a later cancel() does not count.
  void complete() { end(Cause::completion); }

  bool stopped() const { return cause_.load(std::memory_order_relaxed) != Cause::none; }
  bool by_user() const { return cause_ == Cause::user; }
  /// What bodies look at; it follows stopped() at once.
  const std::atomic<bool>& stop_flag() const { return stop_; }
  /// Success unless fail() or cancel() ended the run.
  Status status() const {
    if (by_user()) return Status::error("the run was cancelled");
    const std::lock_guard lock(mutex_);
    return error_;
  }

  Console& console() { return console_; }
  /// Seconds in which the run has said nothing.
  double quiet() const { return console_.quiet(); }
  RunReport& report() const { return *report_; }
  Recorder* recorder() const { return recorder_.get(); }
  /// The counting handle of a node or a service.
  Telemetry telemetry(const std::string& owner) const {
    return recorder_ ? Telemetry(recorder_, owner) : Telemetry();
  }

 private:
  enum class Cause : std::uint8_t { none, error, user, completion };
  /// Whether this is the first cause, told in one step, so that nobody sees an end without its cause.
  bool end(Cause cause) {
    Cause none = Cause::none;
    const bool first = cause_.compare_exchange_strong(none, cause);
    stop_ = true;
    return first;
  }

  TimedConsole console_;
  std::shared_ptr<RunReport> report_;
  std::shared_ptr<Recorder> recorder_;
  std::atomic<Cause> cause_{Cause::none};
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  Status error_;
};

/// Calls code of a stage or a service; an exception becomes an error. The result must be constructible
/// from Status.
template <class F>
std::invoke_result_t<F> guarded(F&& call) {
  try {
    return call();
  } catch (...) {
    return exception_status();
  }
}

/// "file:line:column: stage 'name' (Type)": the subject of an error.
inline std::string subject(const NodePlan& node) {
  return fmt::format("{}: stage '{}' ({})", node.where.str(), node.name, node.stage->name);
}
inline std::string subject(const ServicePlan& service) {
  return fmt::format("{}: service '{}' ({})", service.where.str(), service.name, service.type->name);
}

}  // namespace flow
