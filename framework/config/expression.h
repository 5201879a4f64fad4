// The expressions inside ${...}.
//
// Operands are integers (64 bits), floats, texts, booleans, lists and objects. From loose to tight:
//   or, and, not | == != < <= > >= contains | + - | * / % | unary - | .member [index]
// `and` and `or` skip their right side when the left one decides. Two integers divide to an integer,
// toward zero; integer overflow is an error. `+` also joins texts. `contains` looks for an element of a
// list, a part of a text or a member of an object. Comparisons do not chain. Literals: 12, 1.5e3, 'text' or
// "text", true, false.
#pragma once

#include <boost/json.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace flow::config {

/// A value, or nullopt for one that cannot be known because of an error reported elsewhere. Whatever is
/// computed from an unknown value is unknown, so that one mistake gives one message.
using Value = std::optional<boost::json::value>;

/// A value for messages and within texts: JSON, but floats in their shortest form.
std::string shown(const boost::json::value& value);

/// Names that an expression sees; inner scopes hide outer ones.
class Scope {
 public:
  explicit Scope(const Scope* outer = nullptr) : outer_(outer) {}
  void set(const std::string& name, Value value) { values_[name] = std::move(value); }
  /// nullptr when there is no such name.
  const Value* find(std::string_view name) const;
  /// All names that can be seen.
  std::vector<std::string> names() const;

 private:
  const Scope* outer_;
  std::map<std::string, Value, std::less<>> values_;
};

/// Whether something may have this name in expressions: letters, digits and '_', and no word of theirs.
Status check_variable(std::string_view name);

/// Evaluates an expression (the text between "${" and "}"). Errors: syntax, unknown name, wrong types,
/// overflow, division by zero, index out of range; the message has no location.
Result<Value> evaluate(std::string_view expression, const Scope& scope);

}  // namespace flow::config
