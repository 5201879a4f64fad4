#include "stages/model/json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/value_stack.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <system_error>
#include <unordered_set>
#include <vector>

#include "stages/model/json_events.h"

namespace dsv {

namespace {

namespace json = boost::json;
using flow::errorf;
using flow::Result;

/// Builds a value from parser events, refuses repeated keys, and reads floating numbers correctly
/// rounded (this parser's own conversion may be off by one ulp).
class StrictHandler : public JsonEvents<StrictHandler> {
 public:
  json::value release() { return stack_.release(); }
  void reset() { stack_.reset(); }

  bool on_object_begin(json::error_code&) {
    keys_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t n, json::error_code&) {
    stack_.push_object(n);
    keys_.pop_back();
    return true;
  }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_array_end(std::size_t n, json::error_code&) {
    stack_.push_array(n);
    return true;
  }
  void key(std::string& text, json::error_code& ec) {
    stack_.push_key(text);
    if (!keys_.back().insert(text).second) refuse(ec, fmt::format("key '{}' is given twice", text));
  }
  void string(std::string& text, json::error_code&) { stack_.push_string(text); }
  bool on_number_part(json::string_view s, json::error_code&) {
    number_.append(s.data(), s.size());
    return true;
  }
  bool on_int64(std::int64_t i, json::string_view, json::error_code&) {
    number_.clear();
    stack_.push_int64(i);
    return true;
  }
  bool on_uint64(std::uint64_t u, json::string_view, json::error_code&) {
    number_.clear();
    stack_.push_uint64(u);
    return true;
  }
  bool on_double(double d, json::string_view s, json::error_code&) {
    number_.append(s.data(), s.size());
    double exact = 0;
    const char* end = number_.data() + number_.size();
    const auto [stop, error] = std::from_chars(number_.data(), end, exact);
    stack_.push_double(error == std::errc() && stop == end ? exact : d);
    number_.clear();
    return true;
  }
  bool on_bool(bool b, json::error_code&) {
    stack_.push_bool(b);
    return true;
  }
  bool on_null(json::error_code&) {
    stack_.push_null();
    return true;
  }

 private:
  json::value_stack stack_;
  std::vector<std::unordered_set<std::string>> keys_;
  std::string number_;
};

}  // namespace

std::string text_position(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("{}:{}", line, before.size() - start + 1);
}

Result<json::value> parse_json(std::string_view text) {
  json::basic_parser<StrictHandler> parser(strict_options());
  parser.handler().reset();
  FLOW_TRY(parse_events(parser, text));
  return parser.handler().release();
}

std::map<std::string, std::string, std::less<>> key_positions(std::string_view text) {
  constexpr std::size_t kLongestKey = 100;  // a longer one is left out, for every key below it repeats it
  std::map<std::string, std::string, std::less<>> positions;
  std::vector<std::string_view> path;  // the last key of each object that is open
  std::size_t line = 1, line_start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') ++line, line_start = i + 1;
    if (text[i] == '{') path.emplace_back();
    if (text[i] == '}') path.pop_back();
    if (text[i] != '"') continue;
    const std::size_t start = i;
    while (text[++i] != '"')
      if (text[i] == '\\') ++i;
    const std::size_t next = text.find_first_not_of(" \t\r\n", i + 1);
    if (next == text.npos || text[next] != ':') continue;
    path.back() = i - start > kLongestKey ? "" : text.substr(start + 1, i - start - 1);
    positions.emplace(fmt::format("{}", fmt::join(path, ".")),
                      fmt::format("{}:{}", line, start - line_start + 1));
  }
  return positions;
}

Result<std::string> read_file(const std::filesystem::path& file, std::uint64_t max_bytes) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (!error && !std::filesystem::is_regular_file(status))
    return errorf("{}: not a regular file", file.string());
  const std::uint64_t size = std::filesystem::file_size(file, error);
  if (error) return errorf("{}: {}", file.string(), error.message());
  if (size > max_bytes)
    return errorf("{}: {} bytes, more than the {} that such a file may have", file.string(), size, max_bytes);
  std::ifstream in(file, std::ios::binary);
  std::string text(size, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size)))
    return errorf("{}: cannot read: {}", file.string(), std::strerror(errno));
  return text;
}

Result<json::value> load_json(const std::filesystem::path& file, std::uint64_t max_bytes) {
  FLOW_ASSIGN(const std::string text, read_file(file, max_bytes));
  Result<json::value> value = parse_json(text);
  if (!value.ok()) return errorf("{}:{}", file.string(), value.status().message());
  return value;
}

std::string_view json_kind(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "true or false";
    case json::kind::int64:
    case json::kind::uint64:
      return "whole number";
    case json::kind::double_:
      return "number";
    case json::kind::string:
      return "string";
    case json::kind::array:
      return "list";
    case json::kind::object:
      return "object";
  }
  return "value";
}

}  // namespace dsv
