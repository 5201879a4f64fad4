#include "framework/config/entry.h"

#include <algorithm>
#include <set>

#include "framework/config/substitution.h"
#include "framework/core/names.h"

namespace flow::config {
namespace json = boost::json;
namespace {

Ref read_ref(const YamlNode& node, const Reading& reading) {
  Ref ref{{}, node.where};
  const YamlNode* text = &node;
  if (node.is_map()) {
    const bool known = check_keys(node, {"from", "feedback"}, reading.subject, reading.errors);
    text = node.find("from");
    if (const YamlNode* mark = node.find("feedback")) {
      const auto feedback = read_condition(*mark, reading.scope);
      if (!feedback.ok()) reading.fail(mark->where, feedback.status().in("feedback").message());
      ref.feedback = feedback.ok() && feedback->value_or(false);
    }
    if (!text && known) reading.fail(node.where, "a reference needs 'from'");
  }
  const auto read = read_entry_text(text, "reference", reading);
  ref.unknown = !read;
  ref.text = read.value_or("");
  return ref;
}

std::optional<std::vector<json::value>> read_count(const YamlNode& node, std::size_t room,
                                                   const Reading& reading) {
  const Result<Value> count = read_as(OptionType::integer, node, reading.scope);
  if (!count.ok()) reading.fail(node.where, count.status().in("repeat count").message());
  if (!count.ok() || !*count) return std::nullopt;
  const std::int64_t* number = (*count)->if_int64();
  if (!number || *number < 0) {
    reading.fail(node.where, fmt::format("repeat count: expected an int from 0, found {}", shown(**count)));
    return std::nullopt;
  }
  if (std::cmp_greater(*number, room)) {
    reading.fail(node.where, fmt::format("repeat count {} exceeds the limit: {} more stages", *number, room));
    return std::nullopt;
  }
  std::vector<json::value> values;
  for (std::int64_t i = 0; i < *number; ++i) values.emplace_back(i);
  return values;
}

std::optional<std::vector<json::value>> read_over(const YamlNode& node, std::size_t room,
                                                  const Reading& reading) {
  const Result<Value> list = read_plain(node, reading.scope);
  if (!list.ok()) reading.fail(node.where, list.status().in("repeat over").message());
  if (!list.ok() || !*list) return std::nullopt;
  if (!(*list)->is_array()) {
    reading.fail(node.where, fmt::format("repeat over: expected a list, found {}", shown(**list)));
    return std::nullopt;
  }
  const json::array& items = (*list)->get_array();
  if (items.size() > room) {
    reading.fail(node.where,
                 fmt::format("repeat over {} values exceeds the limit: {} more stages", items.size(), room));
    return std::nullopt;
  }
  return std::vector<json::value>(items.begin(), items.end());
}

// The values as parts of names: integers and short texts, each once.
std::optional<std::vector<std::string>> repeat_keys(const std::vector<json::value>& values,
                                                    const Location& where, const Reading& reading) {
  std::vector<std::string> keys;
  std::set<std::string> seen;
  for (const json::value& value : values) {
    keys.push_back(value.is_string() ? std::string(value.get_string()) : shown(value));
    if ((!value.is_string() && !value.is_int64() && !value.is_uint64()) || !is_instance_key(keys.back())) {
      reading.fail(where, fmt::format("repeat over: {} cannot be a part of a name", shown(value)));
      return std::nullopt;
    }
    if (!seen.insert(keys.back()).second) {
      reading.fail(where, fmt::format("repeat over: {} occurs twice", shown(value)));
      return std::nullopt;
    }
  }
  return keys;
}

InputDecl read_input_decl(const YamlMember& member, const PacketTypes& types, Errors& errors) {
  InputDecl decl{member.key};
  const std::string subject = fmt::format("input '{}'", member.key);
  if (!member.value.is_scalar()) {
    errors.add(member.value.where, subject, fmt::format("expected a type, found {}", member.value.shown()));
    return decl;
  }
  std::string type = member.value.text;
  if (type.ends_with('?')) decl.arity = Arity::optional;
  if (type.ends_with('*')) decl.arity = Arity::many;
  if (decl.arity != Arity::one) type.pop_back();
  if (const auto found = types.find(type); found != types.end()) {
    decl.type = found->second;
  } else {
    std::vector<std::string> names;
    for (const auto& [name, packet] : types) names.push_back(name);
    errors.add(member.value.where, subject, unknown_name("type", type, names));
  }
  return decl;
}

}  // namespace

std::optional<std::string> read_entry_text(const YamlNode* node, std::string_view key,
                                           const Reading& reading) {
  if (!node) return std::nullopt;
  const auto text = read_text(*node, reading.scope);
  if (!text.ok()) reading.fail(node->where, text.status().in(key).message());
  return text.ok() ? *text : std::nullopt;
}

std::vector<Binding> read_bindings(const YamlNode* map, std::string_view section, const Reading& reading) {
  std::vector<Binding> bindings;
  if (!map) return bindings;
  if (!map->is_map()) {
    reading.fail(map->where, fmt::format("{}expected a map from ports to references, found {}",
                                         section.empty() ? "" : fmt::format("{}: ", section), map->shown()));
  }
  for (const auto& [port, where, value] : map->members) {
    Binding binding{port, where, {}};
    if (value.is_list()) {
      for (const YamlNode& item : value.items) binding.refs.push_back(read_ref(item, reading));
    } else {
      binding.refs.push_back(read_ref(value, reading));
    }
    bindings.push_back(std::move(binding));
  }
  return bindings;
}

std::optional<bool> is_left_out(const YamlNode& entry, const Reading& reading) {
  std::optional<bool> out = false;
  for (const char* key : {"remove", "when"}) {
    const YamlNode* node = entry.find(key);
    if (!node) continue;
    const auto condition = read_condition(*node, reading.scope);
    if (!condition.ok()) reading.fail(node->where, condition.status().in(key).message());
    if (!condition.ok() || !*condition) {
      out = std::nullopt;
    } else if (out) {
      out = *out || **condition == (key == std::string_view("remove"));
    }
  }
  return out;
}

Executor read_executor(const YamlNode* node, Executor fallback, const Reading& reading) {
  const auto name = read_entry_text(node, "executor", reading);
  if (!name) return fallback;
  if (*name == "compute") return Executor::compute;
  if (*name == "io") return Executor::io;
  reading.fail(node->where, unknown_name("executor", *name, {"compute", "io"}));
  return fallback;
}

std::optional<Repeat> read_repeat(const YamlNode& node, std::size_t room, const Reading& reading) {
  if (!node.is_map()) {
    reading.fail(node.where, fmt::format("repeat: expected {{var, count or over}}, found {}", node.shown()));
    return std::nullopt;
  }
  if (!check_keys(node, {"var", "count", "over", "carry"}, reading.subject, reading.errors))
    return std::nullopt;
  const YamlNode* variable = node.find("var");
  const YamlNode* count = node.find("count");
  const YamlNode* over = node.find("over");
  if (!variable) {
    reading.fail(node.where, "repeat: 'var' names a variable, for example layer");
    return std::nullopt;
  }
  if (const Status name = check_variable(variable->text); !name.ok()) {
    reading.fail(variable->where, name.in("repeat: var").message());
    return std::nullopt;
  }
  if ((count == nullptr) == (over == nullptr)) {
    reading.fail(node.where, "repeat: needs either 'count' or 'over'");
    return std::nullopt;
  }
  auto values = count ? read_count(*count, room, reading) : read_over(*over, room, reading);
  if (!values) return std::nullopt;
  auto keys = repeat_keys(*values, (count ? count : over)->where, reading);
  if (!keys) return std::nullopt;
  return Repeat{variable->text, *std::move(values), *std::move(keys)};
}

PacketTypes registered_packet_types() {
  PacketTypes types;
  for (const StageInfo* stage : Registry::instance().stages()) {
    for (const PortInfo& port : stage->inputs) types.emplace(port.type->name, port.type);
    for (const PortInfo& port : stage->outputs) types.emplace(port.type->name, port.type);
  }
  return types;
}

std::vector<InputDecl> read_input_decls(const YamlNode* section, const PacketTypes& types, Errors& errors) {
  std::vector<InputDecl> decls;
  if (!section) return decls;
  if (!section->is_map()) {
    errors.add(section->where, "inputs",
               fmt::format("expected a map from names to types, found {}", section->shown()));
  }
  for (const YamlMember& member : section->members) decls.push_back(read_input_decl(member, types, errors));
  return decls;
}

std::vector<Binding> read_output_decls(const YamlNode* section, const Reading& reading) {
  std::vector<Binding> outputs = read_bindings(section, "", reading);
  for (const Binding& output : outputs) {
    if (output.refs.size() != 1) reading.fail(output.where, "an output of a composite is one reference");
  }
  std::erase_if(outputs, [](const Binding& output) { return output.refs.size() != 1; });
  return outputs;
}

}  // namespace flow::config
