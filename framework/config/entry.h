// Reads the parts of one entry of `stages:`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/expression.h"
#include "framework/config/tree.h"
#include "framework/config/yaml.h"

namespace flow::config {

/// Where names are looked up, how messages begin, where they go.
struct Reading {
  const Scope& scope;
  std::string subject;
  Errors& errors;

  void fail(const Location& where, std::string_view message) const { errors.add(where, subject, message); }
};

/// A text after substitution; nullopt when there is none, it is unknown or not a text (reported).
std::optional<std::string> read_entry_text(const YamlNode* node, std::string_view key,
                                           const Reading& reading);

/// A map from ports to references: "node.port", a list of them, or {from: ..., feedback: true}. Messages
/// name the section.
std::vector<Binding> read_bindings(const YamlNode* map, std::string_view section, const Reading& reading);

/// Whether `when` or `remove` leave the entry out; nullopt when that is unknown.
std::optional<bool> is_left_out(const YamlNode& entry, const Reading& reading);

/// `executor: compute` or `executor: io`.
Executor read_executor(const YamlNode* node, Executor fallback, const Reading& reading);

/// `repeat: {var, count | over, carry}`.
struct Repeat {
  std::string variable;
  std::vector<boost::json::value> values;  ///< of the variable, for each copy
  std::vector<std::string> keys;           ///< last part of each copy's name
};
/// nullopt after an error, or when the copies are unknown. More than `room` copies are an error.
std::optional<Repeat> read_repeat(const YamlNode& node, std::size_t room, const Reading& reading);

/// The packet types of all registered ports, by name.
using PacketTypes = std::map<std::string, const PacketType*>;
PacketTypes registered_packet_types();

/// `inputs:` of a composite: a map from names to "Type", "Type?" (optional) or "Type*" (many).
std::vector<InputDecl> read_input_decls(const YamlNode* section, const PacketTypes& types, Errors& errors);

/// `outputs:` of a composite: a map from names to references.
std::vector<Binding> read_output_decls(const YamlNode* section, const Reading& reading);

}  // namespace flow::config
