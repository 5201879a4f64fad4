// A YAML document as a plain tree in which every node knows its place.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/errors.h"
#include "framework/core/plan.h"

namespace flow::config {

struct YamlMember;

/// One node. Aliases and merge keys ("<<") are expanded; an alias keeps the place of what it stands for.
struct YamlNode {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string text;     ///< of a scalar
  bool quoted = false;  ///< the scalar is text even where it looks like a number
  Location where;
  std::vector<YamlNode> items;      ///< of a list
  std::vector<YamlMember> members;  ///< of a map, in the order of the file; keys are unique

  bool is_map() const { return kind == Kind::map; }
  bool is_list() const { return kind == Kind::list; }
  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_null() const { return kind == Kind::null; }

  /// The member's value; nullptr when there is none or it is null.
  const YamlNode* find(std::string_view key) const;
  YamlMember* member(std::string_view key);
  /// "a map", "a list", "'text'" or "nothing", for messages.
  std::string shown() const;
};

struct YamlMember {
  std::string key;
  Location where;  ///< of the key
  YamlNode value;
};

/// Limits on a document, against hostile files.
inline constexpr std::size_t kMaxYamlDepth = 64;
inline constexpr std::size_t kMaxYamlNodes = 50'000;  ///< counted after expanding aliases

/// Reads one document; an empty one is a null node. Errors are reported; nullopt when nothing can be used.
std::optional<YamlNode> parse_yaml(const std::string& text, const std::string& file, Errors& errors);

/// The `doc` of a map, without surrounding blank space; empty when there is none.
std::string doc_text(const YamlNode& map);

/// Reports a `doc` that is not text.
void check_doc(const YamlNode& map, std::string_view subject, Errors& errors);

/// Reports the keys of a map that are not among `known`, with the nearest known one. False when
/// there are any.
bool check_keys(const YamlNode& map, const std::vector<std::string>& known, std::string_view subject,
                Errors& errors);

/// Merges `patch` into `base`: its members replace those of the same name, and a null removes one. Maps
/// found on both sides within the first `depth` levels below are merged in the same way.
void merge_maps(YamlNode& base, const YamlNode& patch, int depth);

}  // namespace flow::config
