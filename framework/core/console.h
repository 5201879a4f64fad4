// Where a run's words go. Stages never print; they hand text to the console of their run.
#pragma once

#include <boost/json.hpp>
#include <mutex>
#include <string_view>

namespace flow {

/// Results and remarks of a run. Thread-safe.
class Console {
 public:
  virtual ~Console() = default;
  /// Result text, as it is, at once (standard output of the command line tool).
  virtual void out(std::string_view text) = 0;
  /// One line for the person watching (standard error; silenced by --quiet).
  virtual void note(std::string_view line) = 0;
};

/// Machine-readable results of a run, one JSON object with a member for each section. Thread-safe.
class RunReport {
 public:
  void set(std::string_view section, boost::json::value value) {
    const std::lock_guard lock(mutex_);
    root_[section] = std::move(value);
  }
  /// Appends to the array `section`.
  void append(std::string_view section, boost::json::value value) {
    const std::lock_guard lock(mutex_);
    boost::json::value& list = root_[section];
    if (!list.is_array()) list = boost::json::array();
    list.get_array().push_back(std::move(value));
  }
  boost::json::object snapshot() const {
    const std::lock_guard lock(mutex_);
    return root_;
  }

 private:
  mutable std::mutex mutex_;
  boost::json::object root_;
};

}  // namespace flow
