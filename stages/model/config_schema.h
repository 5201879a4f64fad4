// The one table behind ModelConfig: flat key, nested path, group and member of every field.
#pragma once

#include <span>
#include <variant>

#include "stages/model/config.h"

namespace dsv {

/// Which part of a model needs a key.
enum class ConfigGroup : std::uint8_t { Text, Engram, DSpark, Vision, NestedOnly };

/// A floating member whose whole values are written without a fraction (10000, not 10000.0).
struct WholeIfPossible {
  double ModelConfig::*member;
};

using ConfigMember =
    std::variant<int ModelConfig::*, double ModelConfig::*, WholeIfPossible, std::string ModelConfig::*,
                 std::vector<int> ModelConfig::*, std::vector<std::int64_t> ModelConfig::*,
                 std::optional<double> ModelConfig::*, std::optional<int> ModelConfig::*,
                 std::optional<bool> ModelConfig::*, std::optional<std::string> ModelConfig::*,
                 std::optional<std::vector<std::string>> ModelConfig::*>;

/// One field of the schema. A nested-only field has no flat spelling in files; `flat` is then its name here.
struct ConfigField {
  std::string_view flat;
  std::string_view nested;  ///< dotted path in the nested layout
  ConfigGroup group;
  ConfigMember member;
};

/// All 76 fields, in the order of the released flat file, then the nested-only ones.
std::span<const ConfigField> config_fields();

/// A key of the nested layout that is no field, but whose value decides whether the model can be run.
struct NestedConstant {
  std::string_view path;
  std::string_view value;  ///< JSON text
  bool needed = false;     ///< must be there, for nothing else tells; the shards tell what the others say
};

std::span<const NestedConstant> nested_constants();

/// The type of position scaling, and the name that older files have for it.
inline constexpr std::string_view kScalingPath = "text_config.rope_scaling.rope_type";
inline constexpr std::string_view kOldScalingPath = "text_config.rope_scaling.type";

/// Where the nested layout states weight_block_size.
inline constexpr std::string_view kBlockSizePath = "quantization_config.weight_block_size";

/// Whether the model that this config describes cannot be run without the field: the text half always, a
/// part when any of its keys is there, what only the nested layout states in that layout.
bool is_needed(const ModelConfig& config, const ConfigField& field);

/// The key of a field as files of this layout spell it.
inline std::string_view spelled(const ConfigField& field, ConfigLayout layout) {
  return layout == ConfigLayout::Flat ? field.flat : field.nested;
}

}  // namespace dsv
