#include "framework/config/substitution.h"

#include <cstdlib>

#include "framework/core/names.h"

namespace flow::config {
namespace json = boost::json;
namespace {

constexpr std::string_view kCapitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

// One "${...}": what is inside, and where the text goes on.
struct Reference {
  std::string_view inside;
  std::string_view rest;
};

// The length of an environment variable's name at the beginning of `text`; 0 when there is none.
std::size_t variable_length(std::string_view text) {
  if (text.empty() || text[0] < 'A' || text[0] > 'Z') return 0;
  const auto end = text.find_first_not_of(kCapitals);
  return end == std::string_view::npos ? text.size() : end;
}

// `text` begins after "${". A '}' inside quotes does not close it, except in the default of a variable.
Result<Reference> reference(std::string_view text) {
  const bool has_default = text.substr(variable_length(text)).starts_with(":-");
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '}' && !quote) return Reference{text.substr(0, i), text.substr(i + 1)};
    if (has_default || (c != '\'' && c != '"')) continue;
    if (!quote) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    }
  }
  return errorf("'${{' without its '}}'");
}

// nullopt when `inside` does not have the form of a variable.
std::optional<Result<Value>> variable(std::string_view inside, const Scope& scope) {
  const std::size_t length = variable_length(inside);
  const std::string name(inside.substr(0, length));
  const std::string_view rest = inside.substr(length);
  const bool has_default = rest.starts_with(":-");
  if (length == 0 || (!rest.empty() && !has_default) || scope.find(name)) return std::nullopt;
  const char* found = std::getenv(name.c_str());
  if (found && (*found || !has_default)) return Value(found);
  if (has_default) return Value(rest.substr(2));
  return errorf("the environment variable {0} is not set; ${{{0}:-default}} gives a default", name);
}

Result<Value> resolve(std::string_view inside, const Scope& scope) {
  if (auto value = variable(inside, scope)) return *std::move(value);
  return evaluate(inside, scope).in(fmt::format("in '${{{}}}'", inside));
}

Status append(const json::value& value, std::string& text) {
  if (value.is_string()) {
    text += value.get_string();
  } else if (value.is_array() || value.is_object() || value.is_null()) {
    return errorf("{} cannot be a part of a text", shown(value));
  } else {
    text += shown(value);
  }
  return {};
}

json::value scalar_value(const YamlNode& node) {
  if (node.quoted) return json::value(node.text);
  for (const OptionType type : {OptionType::integer, OptionType::number, OptionType::boolean}) {
    if (auto value = parse_option(type, node.text); value.ok()) return *std::move(value);
  }
  return json::value(node.text);
}

// A list for a list option: each item is read as the element type.
Result<Value> read_list(OptionType type, const YamlNode& node, const Scope& scope) {
  if (type != OptionType::integers && type != OptionType::texts) {
    return errorf("expected {}, found a list", option_type_name(type));
  }
  json::array list;
  bool known = true;
  for (const YamlNode& item : node.items) {
    const OptionType element = type == OptionType::integers ? OptionType::integer : OptionType::text;
    FLOW_ASSIGN(Value value, read_as(element, item, scope));
    known = known && value;
    if (value) list.push_back(*std::move(value));
  }
  return known ? Value(std::move(list)) : Value();
}

bool has_reference(std::string_view text) {
  return text.find("${") != std::string_view::npos;
}

}  // namespace

Result<Value> substitute(std::string_view text, const Scope& scope) {
  std::string result;
  bool known = true;
  for (std::string_view rest = text; !rest.empty();) {
    const auto dollar = std::min(rest.find('$'), rest.size());
    result += rest.substr(0, dollar);
    rest.remove_prefix(dollar);
    if (rest.starts_with("${")) {
      FLOW_ASSIGN(const Reference ref, reference(rest.substr(2)));
      FLOW_ASSIGN(Value value, resolve(ref.inside, scope));
      if (ref.inside.size() + 3 == text.size()) return value;
      known = known && value;
      if (value) FLOW_TRY(append(*value, result));
      rest = ref.rest;
    } else if (!rest.empty()) {
      result += '$';
      rest.remove_prefix(rest.starts_with("$$") ? 2 : 1);
    }
  }
  return known ? Value(result) : Value();
}

Result<Value> read_as(OptionType type, const YamlNode& node, const Scope& scope) {
  if (node.is_list()) return read_list(type, node, scope);
  if (!node.is_scalar()) return errorf("expected {}, found {}", option_type_name(type), node.shown());
  FLOW_ASSIGN(Value value, substitute(node.text, scope));
  if (!value || !value->is_string()) return value;
  FLOW_ASSIGN(json::value parsed, parse_option(type, value->get_string()));
  return Value(std::move(parsed));
}

Result<Value> read_plain(const YamlNode& node, const Scope& scope) {
  if (node.is_null()) return Value(json::value());
  if (node.is_map()) return errorf("expected a value, found a map");
  if (node.is_scalar()) {
    if (node.text.find('$') != std::string::npos) return substitute(node.text, scope);
    return Value(scalar_value(node));
  }
  json::array list;
  for (const YamlNode& item : node.items) {
    FLOW_ASSIGN(Value value, read_plain(item, scope));
    if (!value) return value;
    list.push_back(*std::move(value));
  }
  return Value(std::move(list));
}

Result<std::optional<std::string>> read_text(const YamlNode& node, const Scope& scope) {
  if (!node.is_scalar()) return errorf("expected text, found {}", node.shown());
  FLOW_ASSIGN(const Value value, substitute(node.text, scope));
  if (!value) return std::optional<std::string>();
  if (!value->is_string()) return errorf("expected text, found {}", shown(*value));
  return std::optional(std::string(value->get_string()));
}

Result<std::optional<bool>> read_condition(const YamlNode& node, const Scope& scope) {
  if (!node.is_scalar()) return errorf("expected a condition, found {}", node.shown());
  const bool name = is_identifier(node.text) && node.text != "true" && node.text != "false";
  if (name && !scope.find(node.text) && nearest(node.text, scope.names()).empty()) {
    return errorf("expected true, false or ${{...}}, found '{}'", node.text);
  }
  FLOW_ASSIGN(const Value value,
              has_reference(node.text) ? substitute(node.text, scope) : evaluate(node.text, scope));
  if (!value) return std::optional<bool>();
  if (!value->is_bool()) return errorf("expected a condition (bool), found {}", shown(*value));
  return std::optional(value->get_bool());
}

}  // namespace flow::config
