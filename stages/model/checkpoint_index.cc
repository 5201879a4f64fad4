#include "stages/model/checkpoint_index.h"

#include <map>

#include "stages/model/json.h"

namespace dsv {

namespace json = boost::json;
using flow::errorf;
using flow::Result;
using flow::Status;

namespace {

Status check_shard_name(std::string_view tensor, const json::value& shard) {
  if (!shard.is_string())
    return errorf("weight_map['{}'] is a {}, expected the name of a shard", tensor, json_kind(shard));
  const std::string_view name = shard.get_string();
  if (name.empty() || name.find('/') != name.npos || name == ".." || name == ".")
    return errorf("weight_map['{}'] = '{}' is not the name of a file in this folder", tensor, name);
  return {};
}

std::optional<std::uint64_t> whole_number(const json::value& value) {
  json::error_code error;
  const auto number = value.to_number<std::uint64_t>(error);
  return error ? std::nullopt : std::optional(number);
}

Result<CheckpointIndex> parse_index(const json::value& document) {
  const json::object* root = document.if_object();
  const json::value* map = root != nullptr ? root->if_contains("weight_map") : nullptr;
  if (map == nullptr || !map->is_object()) return errorf("holds no object 'weight_map'");
  CheckpointIndex index;
  std::map<std::string_view, int> shards;
  for (const auto& [tensor, shard] : map->get_object()) {
    FLOW_TRY(check_shard_name(tensor, shard));
    shards.emplace(shard.get_string(), 0);
  }
  for (auto& [name, position] : shards) {
    position = static_cast<int>(index.shards.size());
    index.shards.emplace_back(name);
  }
  index.shard_of.reserve(map->get_object().size());
  for (const auto& [tensor, shard] : map->get_object())
    index.shard_of.emplace(tensor, shards.at(shard.get_string()));
  const json::value* metadata = root->if_contains("metadata");
  if (metadata != nullptr && metadata->is_object())
    if (const json::value* total = metadata->get_object().if_contains("total_size"))
      index.total_size = whole_number(*total);
  return index;
}

}  // namespace

Result<CheckpointIndex> load_checkpoint_index(const std::filesystem::path& file) {
  FLOW_ASSIGN(const json::value document, load_json(file));
  return parse_index(document).in(file.string());
}

}  // namespace dsv
