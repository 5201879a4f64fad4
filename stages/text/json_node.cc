#include "stages/text/json_node.h"

#include <utility>

#include "stages/model/json.h"

namespace dsv {

using flow::Result;
using flow::Status;

JsonNode::JsonNode(const boost::json::value& value, std::string path)
    : value_(&value), path_(std::move(path)) {}

Status JsonNode::error(std::string_view message) const {
  return path_.empty() ? Status::error(std::string(message)) : flow::errorf("{}: {}", path_, message);
}

Status JsonNode::expected(std::string_view kind) const {
  return error(fmt::format("expected {}, found {}", kind, json_kind(*value_)));
}

Result<JsonNode> JsonNode::at(std::string_view key) const {
  FLOW_ASSIGN(const boost::json::object* members, object());
  const auto* member = members->if_contains(key);
  if (member == nullptr) return error(fmt::format("has no '{}'", key));
  return JsonNode(*member, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key));
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  Result<JsonNode> member = at(key);
  if (!member.ok() || member->value().is_null()) return std::nullopt;
  return *std::move(member);
}

Result<std::vector<JsonNode>> JsonNode::elements() const {
  FLOW_ASSIGN(const boost::json::array* list, array());
  std::vector<JsonNode> nodes;
  nodes.reserve(list->size());
  for (const auto& element : *list) nodes.emplace_back(element, fmt::format("{}[{}]", path_, nodes.size()));
  return nodes;
}

Result<const boost::json::object*> JsonNode::object() const {
  if (const auto* members = value_->if_object()) return members;
  return expected("object");
}

Result<const boost::json::array*> JsonNode::array() const {
  if (const auto* list = value_->if_array()) return list;
  return expected("list");
}

Result<std::string> JsonNode::string() const {
  if (const auto* text = value_->if_string()) return std::string(*text);
  return expected("string");
}

Result<std::int64_t> JsonNode::integer() const {
  if (const auto* number = value_->if_int64()) return *number;
  return expected("whole number");
}

Result<bool> JsonNode::boolean() const {
  if (const auto* flag = value_->if_bool()) return *flag;
  return expected("true or false");
}

Result<bool> JsonNode::boolean_or(std::string_view key, bool otherwise) const {
  const std::optional<JsonNode> member = find(key);
  if (!member) return otherwise;
  return member->boolean();
}

}  // namespace dsv
