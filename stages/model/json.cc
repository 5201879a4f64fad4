#include "stages/model/json.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <system_error>
#include <unordered_set>

namespace dsv {

namespace {

namespace json = boost::json;
using flow::errorf;
using flow::Result;

/// Builds a value from parser events, refuses repeated keys, and reads floating numbers correctly
/// rounded (this parser's own conversion may be off by one ulp).
class StrictHandler {
 public:
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  json::value release() { return stack_.release(); }
  const std::string& complaint() const { return complaint_; }
  void reset() { stack_.reset(); }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
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
  bool on_key_part(json::string_view s, std::size_t, json::error_code&) {
    text_.append(s.data(), s.size());
    return true;
  }
  bool on_key(json::string_view s, std::size_t, json::error_code& ec) {
    text_.append(s.data(), s.size());
    stack_.push_key(text_);
    if (!keys_.back().insert(text_).second) {
      complaint_ = fmt::format("key '{}' is given twice", text_);
      ec = make_error_code(std::errc::invalid_argument);
    }
    text_.clear();
    return !ec;
  }
  bool on_string_part(json::string_view s, std::size_t, json::error_code&) {
    text_.append(s.data(), s.size());
    return true;
  }
  bool on_string(json::string_view s, std::size_t, json::error_code&) {
    text_.append(s.data(), s.size());
    stack_.push_string(text_);
    text_.clear();
    return true;
  }
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
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  json::value_stack stack_;
  std::vector<std::unordered_set<std::string>> keys_;
  std::string text_, number_, complaint_;
};

/// "line:column" of a byte offset, both counted from 1.
std::string position(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("{}:{}", line, before.size() - start + 1);
}

}  // namespace

Result<json::value> parse_json(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  json::basic_parser<StrictHandler> parser(options);
  parser.handler().reset();
  json::error_code ec;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), ec);
  if (ec) {
    const std::string& complaint = parser.handler().complaint();
    const std::string why = ec == json::error::too_deep ? fmt::format("nested deeper than {}", kMaxJsonDepth)
                            : complaint.empty()         ? "not JSON: " + ec.message()
                                                        : complaint;
    return errorf("{}: {}", position(text, used), why);
  }
  const std::size_t rest = text.find_first_not_of(" \t\r\n", used);
  if (rest != text.npos) return errorf("{}: text after the end of the JSON value", position(text, rest));
  return parser.handler().release();
}

Result<std::string> read_file(const std::filesystem::path& file, std::uint64_t max_bytes) {
  std::error_code error;
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
