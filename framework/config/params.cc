#include "framework/config/params.h"

#include <algorithm>

#include "framework/config/substitution.h"
#include "framework/config/utf8.h"
#include "framework/core/names.h"

namespace flow::config {
namespace json = boost::json;
namespace {

template <class T>
Status check_as(const json::value& value) {
  T unused{};
  return OptionCodec<T>::read(value, unused);
}

Status check_type(OptionType type, const json::value& value) {
  switch (type) {
    case OptionType::boolean:
      return check_as<bool>(value);
    case OptionType::integer:
      return check_as<std::int64_t>(value);
    case OptionType::number:
      return check_as<double>(value);
    case OptionType::text:
    case OptionType::path:
      return check_as<std::string>(value);
    case OptionType::bytes:
      return check_as<Bytes>(value);
    case OptionType::integers:
      return check_as<std::vector<std::int64_t>>(value);
    case OptionType::texts:
      break;
  }
  return check_as<std::vector<std::string>>(value);
}

// Reads the members of one declaration; a mistake is reported and the member left unset.
class DeclReader {
 public:
  DeclReader(const YamlMember& entry, Errors& errors)
      : entry_(entry), subject_(fmt::format("param '{}'", entry.key)), errors_(errors) {}

  ParamDecl read() {
    decl_.where = entry_.where;
    decl_.info.name = entry_.key;
    const YamlNode& map = entry_.value;
    if (const Status name = check_variable(entry_.key); !name.ok()) {
      fail(entry_.where, name.message());
    } else if (!map.is_map()) {
      fail(map.where, fmt::format("expected a map with type, default, min, max, choices and doc, found {}",
                                  map.shown()));
    } else if (read_type()) {
      check_keys(map, {"type", "default", "min", "max", "choices", "doc"}, subject_, errors_);
      check_doc(map, subject_, errors_);
      read_members();
    }
    return std::move(decl_);
  }

 private:
  void fail(const Location& where, std::string_view message) {
    errors_.add(where, subject_, message);
    decl_.broken = true;
  }

  bool read_type() {
    const YamlNode* node = entry_.value.find("type");
    if (!node) {
      fail(entry_.where, "has no type");
      return false;
    }
    const auto type = node->is_scalar() ? option_type_named(node->text) : std::nullopt;
    if (type) {
      decl_.info.type = *type;
    } else {
      fail(node->where, node->is_scalar()
                            ? unknown_name("param type", node->text, type_names())
                            : fmt::format("expected the name of a type, found {}", node->shown()));
    }
    return type.has_value();
  }

  static std::vector<std::string> type_names() {
    std::vector<std::string> names;
    for (int i = 0; i <= static_cast<int>(OptionType::texts); ++i) {
      names.emplace_back(option_type_name(static_cast<OptionType>(i)));
    }
    return names;
  }

  void read_members() {
    OptionInfo& info = decl_.info;
    if (const YamlNode* fallback = entry_.value.find("default")) decl_.fallback = *fallback;
    info.required = decl_.fallback.is_null();
    info.min = bound("min");
    info.max = bound("max");
    if (info.min && info.max && *info.min > *info.max) {
      fail(entry_.value.find("min")->where, fmt::format("min {} is above max {}", *info.min, *info.max));
    }
    info.doc = doc_text(entry_.value);
    info.set = [type = info.type, allowed = read_choices()](void*, const json::value& value) -> Status {
      FLOW_TRY(check_type(type, value));
      if (allowed.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return {};
      return errorf("{} is none of: {}", shown(value), shown(json::value(allowed)));
    };
  }

  std::optional<double> bound(std::string_view key) {
    const YamlNode* node = entry_.value.find(key);
    if (!node) return std::nullopt;
    const OptionType type = decl_.info.type;
    if (type != OptionType::integer && type != OptionType::number && type != OptionType::bytes) {
      fail(node->where, fmt::format("'{}' is for int, float and bytes", key));
      return std::nullopt;
    }
    const auto value = literal(*node, key);
    return value ? std::optional(value->to_number<double>()) : std::nullopt;
  }

  json::array read_choices() {
    json::array allowed;
    const YamlNode* list = entry_.value.find("choices");
    if (list && !list->is_list()) {
      fail(list->where, fmt::format("choices: expected a list, found {}", list->shown()));
    } else if (list && list->items.empty()) {
      fail(list->where, "choices: the list is empty, so that no value is allowed");
    }
    for (const YamlNode& item : list ? list->items : std::vector<YamlNode>()) {
      const auto value = literal(item, "choices");
      if (!value) continue;
      allowed.push_back(*value);
      decl_.info.choices.push_back(item.text);
    }
    return allowed;
  }

  // A value of the param's type that refers to nothing.
  Value literal(const YamlNode& node, std::string_view key) {
    Result<Value> value = read_as(decl_.info.type, node, Scope());
    Status status = value.status();
    if (value.ok()) status = check_type(decl_.info.type, **value);
    if (status.ok()) return *value;
    fail(node.where, status.in(key).message());
    return std::nullopt;
  }

  const YamlMember& entry_;
  std::string subject_;
  Errors& errors_;
  ParamDecl decl_;
};

// A whole number given to a float becomes one, so that arithmetic on it does not depend on its spelling.
Result<Value> checked(const ParamDecl& decl, Result<Value> given) {
  if (decl.broken) return Value();
  if (!given.ok() || !*given) return given;
  FLOW_TRY(decl.info.assign(nullptr, **given));
  if (decl.info.type == OptionType::number) return Value((*given)->to_number<double>());
  return given;
}

Result<Value> value_of_text(const ParamDecl& decl, const LoadRequest& request, std::string text) {
  if (request.read_set && decl.info.type != OptionType::path) {
    FLOW_ASSIGN(text, request.read_set(text));
  }
  if (const auto bad = find_not_utf8(text); bad != std::string::npos) {
    return errorf("not UTF-8: byte 0x{:02x} at offset {}", static_cast<unsigned char>(text[bad]), bad);
  }
  FLOW_ASSIGN(json::value value, parse_option(decl.info.type, text));
  return checked(decl, Value(std::move(value)));
}

std::vector<std::string> param_names(const std::vector<ParamDecl>& decls) {
  std::vector<std::string> names;
  for (const ParamDecl& decl : decls) names.push_back(decl.info.name);
  return names;
}

const ParamDecl* find_decl(const std::vector<ParamDecl>& decls, std::string_view name) {
  const auto it =
      std::find_if(decls.begin(), decls.end(), [&](const ParamDecl& d) { return d.info.name == name; });
  return it == decls.end() ? nullptr : &*it;
}

}  // namespace

std::vector<ParamDecl> read_param_decls(const YamlNode* section, Errors& errors) {
  std::vector<ParamDecl> decls;
  if (!section) return decls;
  if (!section->is_map()) {
    errors.add(section->where, "params", fmt::format("expected a map, found {}", section->shown()));
  }
  for (const YamlMember& entry : section->members) {
    decls.push_back(DeclReader(entry, errors).read());
  }
  return decls;
}

GivenParams params_from_text(const std::vector<ParamDecl>& decls, const LoadRequest& request,
                             Errors& errors) {
  GivenParams given;
  for (const auto& [name, text] : request.sets) {
    const auto option = request.set_options.find(name);
    const Location where{
        fmt::format("{} {}", option == request.set_options.end() ? "--set" : option->second, name)};
    const ParamDecl* decl = find_decl(decls, name);
    if (!decl) {
      errors.add(where, "", unknown_name("param", name, param_names(decls)));
    } else if (decl->broken) {
      given[name] = std::nullopt;
    } else {
      const auto value = value_of_text(*decl, request, text);
      if (!value.ok()) errors.add(where, "", value.status());
      given[name] = value.ok() ? *value : Value();
    }
  }
  return given;
}

GivenParams params_from_yaml(const std::vector<ParamDecl>& decls, const YamlNode* section, const Scope& scope,
                             std::string_view subject, Errors& errors) {
  GivenParams given;
  if (!section) return given;
  if (!section->is_map()) {
    errors.add(section->where, subject, fmt::format("params: expected a map, found {}", section->shown()));
  }
  for (const auto& [name, where, node] : section->members) {
    const ParamDecl* decl = find_decl(decls, name);
    if (!decl) {
      errors.add(where, subject, unknown_name("param", name, param_names(decls)));
      continue;
    }
    const auto value = checked(*decl, read_as(decl->info.type, node, scope));
    if (!value.ok()) errors.add(node.where, subject, value.status().in(fmt::format("param '{}'", name)));
    given[name] = value.ok() ? *value : Value();
  }
  return given;
}

void set_params(const std::vector<ParamDecl>& decls, const GivenParams& given, Scope& scope, Errors& errors) {
  for (const ParamDecl& decl : decls) {
    const std::string& name = decl.info.name;
    if (const auto it = given.find(name); it != given.end()) {
      scope.set(name, it->second);
    } else if (!decl.info.required) {
      const auto value = checked(decl, read_as(decl.info.type, decl.fallback, scope));
      if (!value.ok()) {
        errors.add(decl.fallback.where, fmt::format("param '{}'", name), value.status().in("default"));
      }
      scope.set(name, value.ok() ? *value : Value());
    } else {
      scope.set(name, std::nullopt);
    }
  }
}

void check_option_names(const OptionSet& set, const YamlNode& map, const std::vector<std::string>& other_keys,
                        std::string_view subject, Errors& errors) {
  std::vector<std::string> known = names_of(set.options);
  known.insert(known.end(), other_keys.begin(), other_keys.end());
  for (const YamlMember& m : map.members) {
    if (std::find(known.begin(), known.end(), m.key) != known.end()) continue;
    errors.add(m.where, subject, unknown_name("option", m.key, known));
  }
}

std::shared_ptr<void> read_options(const OptionSet& set, const YamlNode& map,
                                   const std::vector<std::string>& other_keys, const Scope& scope,
                                   std::string_view subject, Errors& errors) {
  check_option_names(set, map, other_keys, subject, errors);
  std::shared_ptr<void> options = set.make();
  for (const auto& [name, where, node] : map.members) {
    const OptionInfo* info = set.find(name);
    if (!info) continue;
    const Result<Value> value = read_as(info->type, node, scope);
    Status status = value.status();
    if (value.ok() && *value) status = info->assign(options.get(), **value);
    if (!status.ok()) errors.add(node.where, subject, status.in(fmt::format("option '{}'", name)));
  }
  for (const OptionInfo& info : set.options) {
    const bool given = std::any_of(map.members.begin(), map.members.end(),
                                   [&](const YamlMember& m) { return m.key == info.name; });
    if (info.required && !given) {
      errors.add(map.where, subject, fmt::format("option '{}' is required", info.name));
    }
  }
  return options;
}

}  // namespace flow::config
