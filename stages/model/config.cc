#include "stages/model/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>

#include "stages/model/config_schema.h"

namespace dsv {

namespace json = boost::json;

namespace {

bool contains(const std::vector<int>& list, int value) {
  return std::ranges::find(list, value) != list.end();
}

/// Largest entry that is at most `layer`; -1 when there is none.
int nearest_at_or_before(const std::vector<int>& list, int layer) {
  int nearest = -1;
  for (const int l : list)
    if (l <= layer) nearest = std::max(nearest, l);
  return nearest;
}

json::value to_value(std::int64_t v) {
  return v;
}
json::value to_value(int v) {
  return v;
}
json::value to_value(double v) {
  return v;
}
json::value to_value(bool v) {
  return v;
}
json::value to_value(const std::string& v) {
  return json::value(json::string_view(v));
}
template <class T>
json::value to_value(const std::vector<T>& list) {
  json::array array;
  for (const T& item : list) array.push_back(to_value(item));
  return array;
}
template <class T>
json::value to_value(const std::optional<T>& v) {
  return v ? to_value(*v) : json::value();
}

struct ValueOf {
  const ModelConfig& config;

  json::value operator()(const WholeIfPossible& field) const {
    const double v = config.*field.member;
    constexpr double kExact = 9007199254740992.0;  // 2^53
    return v == std::floor(v) && std::abs(v) < kExact ? json::value(static_cast<std::int64_t>(v)) : v;
  }
  template <class T>
  json::value operator()(T ModelConfig::*member) const {
    return to_value(config.*member);
  }
};

json::value value_of(const ModelConfig& config, const ConfigField& field) {
  return std::visit(ValueOf{config}, field.member);
}

}  // namespace

std::string_view role_name(LayerRole role) {
  switch (role) {
    case LayerRole::Window:
      return "window";
    case LayerRole::Full:
      return "full";
    case LayerRole::Reindex:
      return "reindex";
    case LayerRole::Reuse:
      return "reuse";
  }
  return "unknown";
}

LayerRole ModelConfig::role(int layer) const {
  if (layer < 0 || layer >= static_cast<int>(compress_ratios.size())) return LayerRole::Window;
  if (compress_ratios[static_cast<std::size_t>(layer)] == 0) return LayerRole::Window;
  if (contains(kv_source_layers, layer)) return LayerRole::Full;
  return contains(index_source_layers, layer) ? LayerRole::Reindex : LayerRole::Reuse;
}

int ModelConfig::kv_source(int layer) const {
  return role(layer) == LayerRole::Window ? -1 : nearest_at_or_before(kv_source_layers, layer);
}

int ModelConfig::index_source(int layer) const {
  return role(layer) == LayerRole::Window ? -1 : nearest_at_or_before(index_source_layers, layer);
}

int ModelConfig::engram_slot(int layer) const {
  const auto at = std::ranges::find(engram_layer_ids, layer);
  return at == engram_layer_ids.end() ? -1 : static_cast<int>(at - engram_layer_ids.begin());
}

std::int64_t ModelConfig::context_length() const {
  if (max_position_embeddings) return *max_position_embeddings;
  return static_cast<std::int64_t>(std::floor(original_seq_len * rope_factor));
}

bool is_needed(const ModelConfig& config, const ConfigField& field) {
  const auto states_any = [&] {
    return std::ranges::any_of(
        config_fields(), [&](const ConfigField& f) { return f.group == field.group && config.has(f.flat); });
  };
  switch (field.group) {
    case ConfigGroup::Text:
      return true;
    case ConfigGroup::Engram:
      return config.has("engram_layer_ids") ? config.has_engram() : states_any();
    case ConfigGroup::DSpark:
      return config.has("n_mtp_layers") ? config.has_dspark() : states_any();
    case ConfigGroup::Vision:
      return config.has("vision_n_layers") ? config.has_vision() : states_any();
    case ConfigGroup::NestedOnly:
      return config.layout == ConfigLayout::Nested;
  }
  return true;
}

std::vector<std::string> ModelConfig::missing() const {
  std::vector<std::string> keys;
  for (const ConfigField& field : config_fields())
    if (!has(field.flat) && is_needed(*this, field)) keys.emplace_back(spelled(field, layout));
  if (layout == ConfigLayout::Flat) return keys;
  for (const NestedConstant& constant : nested_constants())
    if (constant.needed && !has(constant.path)) keys.emplace_back(constant.path);
  if (!weight_block_size) keys.emplace_back(kBlockSizePath);
  return keys;
}

std::string ModelConfig::shape_line() const {
  std::string line =
      fmt::format("{} layers + {} draft, dim {}, {} heads of {}, {} experts ({} active)", n_layers,
                  n_mtp_layers, dim, n_heads, head_dim, n_routed_experts, n_activated_experts);
  line += has_engram() ? fmt::format("; Engram on layers {}", engram_layer_ids) : "; no Engram";
  line += has_vision() ? fmt::format(", vision {} layers", vision_n_layers) : ", no vision";
  line += has_dspark() ? fmt::format(", DSpark blocks of {} from layers {}", dspark_block_size,
                                     dspark_target_layer_ids)
                       : ", no DSpark";
  return line;
}

json::object ModelConfig::to_flat_json() const {
  json::object object;
  for (const ConfigField& field : config_fields())
    if (field.group != ConfigGroup::NestedOnly && has(field.flat))
      object[field.flat] = value_of(*this, field);
  return object;
}

json::object ModelConfig::to_nested_json() const {
  json::object root;
  const auto set = [&root](std::string_view at, const json::value& value) {
    json::object* object = &root;
    for (std::size_t dot; (dot = at.find('.')) != at.npos; at.remove_prefix(dot + 1)) {
      json::value& inner = (*object)[at.substr(0, dot)];
      object = inner.is_object() ? &inner.get_object() : &inner.emplace_object();
    }
    (*object)[at] = value;
  };
  for (const ConfigField& field : config_fields())
    if (has(field.flat)) set(field.nested, value_of(*this, field));
  for (const NestedConstant& constant : nested_constants())
    if (constant.path != kOldScalingPath) set(constant.path, json::parse(constant.value));
  if (weight_block_size) set(kBlockSizePath, {(*weight_block_size)[0], (*weight_block_size)[1]});
  return root;
}

json::object ModelConfig::to_json() const {
  json::object object;
  for (const ConfigField& field : config_fields())
    if (has(field.flat)) object[field.flat] = value_of(*this, field);
  if (weight_block_size) object["weight_block_size"] = {(*weight_block_size)[0], (*weight_block_size)[1]};
  return object;
}

std::vector<ConfigDifference> config_differences(const ModelConfig& left, const ModelConfig& right) {
  const auto text = [](const ModelConfig& config, const ConfigField& field) {
    return config.has(field.flat) ? json::serialize(value_of(config, field)) : std::string("absent");
  };
  std::vector<ConfigDifference> differences;
  for (const ConfigField& field : config_fields()) {
    std::string l = text(left, field), r = text(right, field);
    if (l != r) differences.push_back({std::string(field.flat), std::move(l), std::move(r)});
  }
  const auto &l = left.weight_block_size, &r = right.weight_block_size;
  if (l && r && *l != *r)
    differences.push_back({"weight_block_size", fmt::format("{}", *l), fmt::format("{}", *r)});
  return differences;
}

}  // namespace dsv
