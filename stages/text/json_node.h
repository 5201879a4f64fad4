// A place in a JSON document, for reading fields with errors that say where.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace dsv {

/// A value and its path ("model.merges[3]"). The document must outlive its nodes.
class JsonNode {
 public:
  explicit JsonNode(const boost::json::value& value, std::string path = "");

  const boost::json::value& value() const { return *value_; }
  const std::string& path() const { return path_; }

  /// An error at this place: "path: message".
  flow::Status error(std::string_view message) const;

  /// Member `key` of this object; fails when it is absent, or this is no object.
  flow::Result<JsonNode> at(std::string_view key) const;
  /// Member `key` of this object; nothing when it is absent or null, or this is no object.
  std::optional<JsonNode> find(std::string_view key) const;
  /// Elements of this list.
  flow::Result<std::vector<JsonNode>> elements() const;

  flow::Result<const boost::json::object*> object() const;
  flow::Result<const boost::json::array*> array() const;
  flow::Result<std::string> string() const;
  flow::Result<std::int64_t> integer() const;
  flow::Result<bool> boolean() const;

  /// Boolean member `key`, or `otherwise` when it is absent or null.
  flow::Result<bool> boolean_or(std::string_view key, bool otherwise) const;

 private:
  flow::Status expected(std::string_view kind) const;

  const boost::json::value* value_;
  std::string path_;
};

}  // namespace dsv
