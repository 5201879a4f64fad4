// Errors as values: Status (success or one message) and Result<T> (a value or a Status).
//
// Library code returns these and never prints, aborts or exits. A message says what was found, what
// was expected and what to do; the caller that knows the place (file, stage, tensor) adds it in front.
#pragma once

#include <fmt/format.h>

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace flow {

/// Success, or one error message. A default-constructed Status is success.
class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status error(std::string message) {
    Status s;
    s.message_ = std::make_unique<std::string>(std::move(message));
    return s;
  }
  Status(const Status& other)
      : message_(other.message_ ? std::make_unique<std::string>(*other.message_) : nullptr) {}
  Status& operator=(const Status& other) {
    if (this != &other) *this = Status(other);
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  bool ok() const { return message_ == nullptr; }
  const std::string& message() const {
    static const std::string none;
    return message_ ? *message_ : none;
  }
  /// The same error with "prefix: " in front; success stays success.
  Status in(std::string_view prefix) const {
    return ok() ? Status() : error(std::string(prefix) + ": " + *message_);
  }

 private:
  std::unique_ptr<std::string> message_;
};

/// An error with a formatted message (fmt syntax).
template <class... Args>
Status errorf(fmt::format_string<Args...> format, Args&&... args) {
  return Status::error(fmt::format(format, std::forward<Args>(args)...));
}

/// A value of type T, or the Status that explains why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                                  // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }  // NOLINT
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  Result in(std::string_view prefix) && { return ok() ? std::move(*this) : Result(status_.in(prefix)); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace flow

/// Returns from the enclosing function when `expr` (a Status) is an error.
#define FLOW_TRY(expr)                                                                 \
  do {                                                                                 \
    if (::flow::Status flow_status_ = (expr); !flow_status_.ok()) return flow_status_; \
  } while (false)

#define FLOW_CONCAT_(a, b) a##b
#define FLOW_CONCAT(a, b) FLOW_CONCAT_(a, b)
/// FLOW_ASSIGN(auto x, f()): declares x from a Result, or returns its error.
#define FLOW_ASSIGN(decl, expr) FLOW_ASSIGN_(FLOW_CONCAT(flow_result_, __LINE__), decl, expr)
#define FLOW_ASSIGN_(tmp, decl, expr) \
  auto tmp = (expr);                  \
  if (!tmp.ok()) return tmp.status(); \
  decl = *std::move(tmp)
