// Strict JSON for files that people hand us: located errors, no repeated keys, bounded depth and size.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "framework/core/status.h"

namespace dsv {

/// Deepest nesting accepted; a longer run of brackets is refused at that depth.
inline constexpr std::size_t kMaxJsonDepth = 32;

/// Parses one JSON value. Errors are "line:column: what is wrong"; a key that an object repeats is one.
flow::Result<boost::json::value> parse_json(std::string_view text);

/// "line:column" of a byte of a text, both counted from 1.
std::string text_position(std::string_view text, std::size_t offset);

/// Where each key of a text that parse_json accepts stands ("line:column"), by its dotted path.
std::map<std::string, std::string, std::less<>> key_positions(std::string_view text);

/// Reads a whole regular file. Errors name the file; a file over `max_bytes` is refused before it is read.
flow::Result<std::string> read_file(const std::filesystem::path& file, std::uint64_t max_bytes);

/// read_file and parse_json. Errors are "file:line:column: ...".
flow::Result<boost::json::value> load_json(const std::filesystem::path& file,
                                           std::uint64_t max_bytes = 256u << 20);

/// "string", "whole number", "list", ...: the kind of a value, for messages.
std::string_view json_kind(const boost::json::value& value);

}  // namespace dsv
