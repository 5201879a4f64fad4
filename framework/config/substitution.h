// From YAML nodes to values: ${...} is replaced, scalars are read by the type that is asked for.
#pragma once

#include <string>
#include <string_view>

#include "framework/config/expression.h"
#include "framework/config/yaml.h"
#include "framework/core/options.h"

namespace flow::config {

/// Replaces every ${...} of `text`. A text that is exactly one ${...} keeps the type of its value; in a
/// longer text values appear as text. ${NAME} and ${NAME:-default}, in capitals and not a name of the
/// scope, are environment variables; the default also replaces an empty one. "$$" is "$"; a "$" before
/// anything else stays.
Result<Value> substitute(std::string_view text, const Scope& scope);

/// The node as a value of `type`. Texts, also from ${...}, are read with parse_option; other values keep
/// their type, to be checked by OptionInfo::assign.
Result<Value> read_as(OptionType type, const YamlNode& node, const Scope& scope);

/// The node as what it looks like (YAML 1.2 core schema).
Result<Value> read_plain(const YamlNode& node, const Scope& scope);

/// The node as text; nullopt when unknown. Errors: not a scalar, or a value that is not text.
Result<std::optional<std::string>> read_text(const YamlNode& node, const Scope& scope);

/// The node as a condition: true, false, "${...}" or an expression without the braces.
Result<std::optional<bool>> read_condition(const YamlNode& node, const Scope& scope);

}  // namespace flow::config
