// What stages and services count and time beyond their invocations: bytes, hits, fill levels, requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "framework/core/executor.h"

namespace flow {

/// Receives telemetry. Implemented by the trace; thread-safe.
class TelemetrySink {
 public:
  virtual ~TelemetrySink() = default;
  /// Adds to the running total `name` of `owner`.
  virtual void add(const std::string& owner, std::string_view name, double amount) = 0;
  /// The level `name` of `owner` is `value` from now on.
  virtual void level(const std::string& owner, std::string_view name, double value) = 0;
  /// `owner` did `name` from `begin` to `end` (nanoseconds of the steady clock) on the calling thread.
  /// `kind`: waiting for a device, or computing.
  virtual void span(const std::string& owner, std::string_view name, Executor kind, std::int64_t begin,
                    std::int64_t end) = 0;
};

/// Handle of one node or service. A default-constructed handle counts nothing; so does every handle of a
/// run without a trace, at the cost of one branch. Copies count for the same owner. Thread-safe.
///
///     telemetry.add("bytes", n);                     // total; "bytes" also gives GB/s in the summary
///     telemetry.level("cache fill", slots);          // drawn as a curve
///     const auto span = telemetry.span("read");      // ends with its scope
class Telemetry {
 public:
  /// Times a scope.
  class Span {
   public:
    Span(const Telemetry& telemetry, std::string_view name, Executor kind)
        : telemetry_(telemetry), name_(name), kind_(kind), begin_(telemetry ? now() : 0) {}
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
    ~Span() {
      if (telemetry_) telemetry_.sink_->span(telemetry_.owner_, name_, kind_, begin_, now());
    }

   private:
    const Telemetry& telemetry_;
    std::string_view name_;
    Executor kind_;
    std::int64_t begin_;
  };

  Telemetry() = default;
  Telemetry(std::shared_ptr<TelemetrySink> sink, std::string owner)
      : sink_(std::move(sink)), owner_(std::move(owner)) {}
  /// Whether anybody listens: costly measurements can be left out.
  explicit operator bool() const { return sink_ != nullptr; }
  void add(std::string_view name, double amount) const {
    if (sink_) sink_->add(owner_, name, amount);
  }
  void level(std::string_view name, double value) const {
    if (sink_) sink_->level(owner_, name, value);
  }
  /// `name` must outlive the span; `kind` is what the time is spent on.
  Span span(std::string_view name, Executor kind = Executor::io) const { return {*this, name, kind}; }

  /// A span that has ended, for what does not begin and end in one scope.
  void record(std::string_view name, Executor kind, std::int64_t begin, std::int64_t end) const {
    if (sink_) sink_->span(owner_, name, kind, begin, end);
  }

  /// Nanoseconds of the steady clock, the time base of all spans.
  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  std::shared_ptr<TelemetrySink> sink_;
  std::string owner_;
};

}  // namespace flow
