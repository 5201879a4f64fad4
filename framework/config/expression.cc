#include "framework/config/expression.h"

#include <algorithm>
#include <limits>

#include "framework/config/expression_tree.h"
#include "framework/core/names.h"

namespace flow::config {
namespace json = boost::json;
namespace {

using Kind = Expression::Kind;

std::string_view type_name(const json::value& v) {
  if (v.is_int64()) return "int";
  if (v.is_double()) return "float";
  if (v.is_string()) return "text";
  if (v.is_bool()) return "bool";
  if (v.is_array()) return "list";
  return v.is_object() ? "object" : "null";
}

// Integers of JSON may be unsigned; expressions know one kind.
json::value normalized(const json::value& v) {
  if (!v.is_uint64()) return v;
  if (std::in_range<std::int64_t>(v.get_uint64())) return static_cast<std::int64_t>(v.get_uint64());
  return static_cast<double>(v.get_uint64());
}

Status mismatch(std::string_view op, const json::value& a, const json::value& b) {
  return errorf("'{}' does not take {} and {}", op, type_name(a), type_name(b));
}

Result<Value> integer_arithmetic(char op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case '+':
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case '-':
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case '*':
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    default:
      if (b == 0) return errorf("division of {} by zero", a);
      overflow = a == std::numeric_limits<std::int64_t>::min() && b == -1;
      if (!overflow) result = op == '/' ? a / b : a % b;
  }
  if (overflow) return errorf("{} {} {} does not fit into 64 bits", a, op, b);
  return Value(result);
}

Result<Value> arithmetic(const std::string& op, const json::value& a, const json::value& b) {
  if (a.is_int64() && b.is_int64()) return integer_arithmetic(op[0], a.get_int64(), b.get_int64());
  if (op == "+" && a.is_string() && b.is_string()) {
    return Value(std::string(a.get_string()) + std::string(b.get_string()));
  }
  if (!a.is_number() || !b.is_number() || op == "%") return mismatch(op, a, b);
  const double x = a.to_number<double>(), y = b.to_number<double>();
  if (op == "+") return Value(x + y);
  if (op == "-") return Value(x - y);
  if (op == "*") return Value(x * y);
  if (y == 0) return errorf("division of {} by zero", x);
  return Value(x / y);
}

bool equal(const json::value& a, const json::value& b) {
  if (a.is_number() && b.is_number() && a.kind() != b.kind()) {
    return a.to_number<double>() == b.to_number<double>();
  }
  return a == b;
}

template <class T>
bool ordered(std::string_view op, const T& a, const T& b) {
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  return op == ">" ? a > b : a >= b;
}

Result<Value> comparison(std::string_view op, const json::value& a, const json::value& b) {
  const bool numbers = a.is_number() && b.is_number();
  if (!numbers && a.kind() != b.kind()) return mismatch(op, a, b);
  if (op == "==") return Value(equal(a, b));
  if (op == "!=") return Value(!equal(a, b));
  if (a.is_int64() && b.is_int64()) return Value(ordered(op, a.get_int64(), b.get_int64()));
  if (numbers) return Value(ordered(op, a.to_number<double>(), b.to_number<double>()));
  if (a.is_string()) return Value(ordered(op, a.get_string(), b.get_string()));
  return mismatch(op, a, b);
}

Result<Value> contains(const json::value& a, const json::value& b) {
  if (a.is_array()) {
    const auto same = [&](const json::value& item) { return equal(normalized(item), b); };
    return Value(std::any_of(a.get_array().begin(), a.get_array().end(), same));
  }
  if (a.is_string() && b.is_string()) {
    return Value(std::string_view(a.get_string()).find(b.get_string()) != std::string_view::npos);
  }
  if (a.is_object() && b.is_string()) return Value(a.get_object().contains(b.get_string()));
  return mismatch("contains", a, b);
}

// The source text of a name or member path, for messages.
std::string spelled(const Expression& e) {
  if (e.kind == Kind::name) return e.text;
  if (e.kind == Kind::member) return spelled(e.operands[0]) + "." + e.text;
  return e.kind == Kind::index ? spelled(e.operands[0]) + "[...]" : "(...)";
}

class Evaluator {
 public:
  explicit Evaluator(const Scope& scope) : scope_(scope) {}

  Result<Value> value(const Expression& e) const {
    switch (e.kind) {
      case Kind::literal:
        return Value(e.literal);
      case Kind::name:
      case Kind::member:
      case Kind::index:
        return path(e);
      case Kind::negate:
        return negated(e.operands[0]);
      case Kind::logical_not: {
        FLOW_ASSIGN(const std::optional<bool> operand, truth(e.operands[0], "not"));
        return operand ? Value(!*operand) : Value();
      }
      case Kind::binary:
        break;
    }
    return binary(e);
  }

 private:
  Result<Value> path(const Expression& e) const {
    FLOW_ASSIGN(const json::value* found, find(e));
    return found ? Value(normalized(*found)) : Value();
  }

  // The place of a name, member or element: nothing is copied on the way. Null for unknown.
  Result<const json::value*> find(const Expression& e) const {
    if (e.kind == Kind::name) {
      const Value* value = scope_.find(e.text);
      if (!value) return Status::error(unknown_name("name", e.text, scope_.names()));
      return *value ? &**value : nullptr;
    }
    if (e.kind != Kind::member && e.kind != Kind::index) {
      return errorf("'.' and '[' follow a name, a member or an element");
    }
    FLOW_ASSIGN(const json::value* whole, find(e.operands[0]));
    if (!whole) return whole;
    return e.kind == Kind::member ? member(e, *whole) : element(e, *whole);
  }

  static Result<const json::value*> member(const Expression& e, const json::value& whole) {
    const std::string owner = spelled(e.operands[0]);
    if (!whole.is_object()) return errorf("'{}' is {} and has no members", owner, type_name(whole));
    if (const json::value* found = whole.get_object().if_contains(e.text)) return found;
    std::vector<std::string> keys;
    for (const auto& item : whole.get_object()) keys.emplace_back(item.key());
    return Status::error(unknown_name("member", e.text, keys, fmt::format("'{}'", owner)));
  }

  Result<const json::value*> element(const Expression& e, const json::value& whole) const {
    const std::string owner = spelled(e.operands[0]);
    FLOW_ASSIGN(const Value index, value(e.operands[1]));
    if (!index) return nullptr;
    if (!whole.is_array()) return errorf("'{}' is {} and has no elements", owner, type_name(whole));
    const json::array& list = whole.get_array();
    if (!index->is_int64()) return errorf("the index of '{}' is {}, expected int", owner, type_name(*index));
    const std::int64_t i = index->get_int64();
    if (i < 0 || std::cmp_greater_equal(i, list.size())) {
      return errorf("index {} is outside '{}', which has {} elements", i, owner, list.size());
    }
    return &list[static_cast<std::size_t>(i)];
  }

  Result<Value> negated(const Expression& operand) const {
    FLOW_ASSIGN(const Value v, value(operand));
    if (!v) return v;
    if (v->is_int64()) return integer_arithmetic('-', 0, v->get_int64());
    if (v->is_double()) return Value(-v->get_double());
    return errorf("'-' does not take {}", type_name(*v));
  }

  Result<std::optional<bool>> truth(const Expression& e, std::string_view op) const {
    FLOW_ASSIGN(const Value v, value(e));
    if (!v) return std::optional<bool>();
    if (!v->is_bool()) return errorf("'{}' takes bool, found {}", op, type_name(*v));
    return std::optional<bool>(v->get_bool());
  }

  Result<Value> binary(const Expression& e) const {
    const std::string& op = e.text;
    if (op == "and" || op == "or") {
      FLOW_ASSIGN(const std::optional<bool> left, truth(e.operands[0], op));
      if (!left) return Value();
      if (*left == (op == "or")) return Value(*left);
      FLOW_ASSIGN(const std::optional<bool> right, truth(e.operands[1], op));
      return right ? Value(*right) : Value();
    }
    FLOW_ASSIGN(const Value a, value(e.operands[0]));
    FLOW_ASSIGN(const Value b, value(e.operands[1]));
    if (!a || !b) return Value();
    if (op == "contains") return contains(*a, *b);
    if (op[0] == '=' || op[0] == '!' || op[0] == '<' || op[0] == '>') return comparison(op, *a, *b);
    return arithmetic(op, *a, *b);
  }

  const Scope& scope_;
};

}  // namespace

std::string shown(const json::value& value) {
  return value.is_double() ? fmt::format("{}", value.get_double()) : json::serialize(value);
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->outer_) {
    if (const auto it = scope->values_.find(name); it != scope->values_.end()) return &it->second;
  }
  return nullptr;
}

std::vector<std::string> Scope::names() const {
  std::vector<std::string> names;
  for (const Scope* scope = this; scope; scope = scope->outer_) {
    for (const auto& [name, value] : scope->values_) names.push_back(name);
  }
  return names;
}

Status check_variable(std::string_view name) {
  if (!is_identifier(name))
    return errorf("the name has letters, digits and '_' only, and begins with a letter");
  for (const std::string_view word : {"or", "and", "not", "contains", "true", "false"}) {
    if (name == word) return errorf("'{}' is a word of expressions and names nothing else", name);
  }
  return {};
}

Result<Value> evaluate(std::string_view expression, const Scope& scope) {
  FLOW_ASSIGN(const Expression tree, parse_expression(expression));
  return Evaluator(scope).value(tree);
}

}  // namespace flow::config
