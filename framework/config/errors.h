// The errors of one load, each with its place.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/plan.h"

namespace flow::config {

/// Collects errors and renders them sorted by place. A place in a composite is visited once for each
/// instance; only the first instance's errors are kept.
class Errors {
 public:
  /// Sets the place of `file` among the files, on its first call with that name.
  void order(std::string_view file);
  /// `subject` is the thing that is wrong, for example "stage 'hash' (EngramHash)"; may be empty.
  /// A location without a line is an argument of the command line, its `file` the text of it.
  void add(const Location& where, std::string_view subject, std::string_view message);
  void add(const Location& where, std::string_view subject, const Status& status) {
    add(where, subject, status.message());
  }

  bool empty() const { return errors_.empty(); }
  /// One printable line for each error.
  std::vector<std::string> lines() const;

 private:
  struct Error {
    Location where;
    std::string subject;
    std::string message;
  };
  std::vector<std::string> files_;
  std::vector<Error> errors_;
  std::map<std::string, std::string> first_subject_;  // by place
  std::set<std::string> seen_;
};

}  // namespace flow::config
