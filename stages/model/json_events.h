// What every handler of JSON parser events has in common.
#pragma once

#include <boost/json/basic_parser_impl.hpp>
#include <cstddef>
#include <string>
#include <system_error>

#include "framework/core/status.h"
#include "stages/model/json.h"

namespace dsv {

/// Base of a handler for boost::json::basic_parser: joins keys and strings that arrive in parts and hands
/// them to Derived::key(std::string&, ec) and Derived::string(std::string&, ec), which may take the text.
/// Derived adds the events for objects, lists, numbers, bool and null. An event calls refuse() to end
/// parsing.
template <class Derived>
class JsonEvents {
 public:
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  /// Why the handler refused; empty when it did not.
  const std::string& complaint() const { return complaint_; }

  bool on_document_begin(boost::json::error_code&) { return true; }
  bool on_document_end(boost::json::error_code&) { return true; }
  bool on_comment_part(boost::json::string_view, boost::json::error_code&) { return true; }
  bool on_comment(boost::json::string_view, boost::json::error_code&) { return true; }
  bool on_number_part(boost::json::string_view, boost::json::error_code&) { return true; }
  bool on_key_part(boost::json::string_view part, std::size_t, boost::json::error_code&) {
    return join(part);
  }
  bool on_string_part(boost::json::string_view part, std::size_t, boost::json::error_code&) {
    return join(part);
  }
  bool on_key(boost::json::string_view part, std::size_t, boost::json::error_code& ec) {
    join(part);
    static_cast<Derived*>(this)->key(text_, ec);
    text_.clear();
    return !ec;
  }
  bool on_string(boost::json::string_view part, std::size_t, boost::json::error_code& ec) {
    join(part);
    static_cast<Derived*>(this)->string(text_, ec);
    text_.clear();
    return !ec;
  }

 protected:
  /// Ends parsing with this error.
  bool refuse(boost::json::error_code& ec, std::string complaint) {
    complaint_ = std::move(complaint);
    ec = make_error_code(std::errc::invalid_argument);
    return false;
  }

 private:
  bool join(boost::json::string_view part) {
    text_.append(part.data(), part.size());
    return true;
  }
  std::string text_, complaint_;
};

/// Feeds one JSON value to a parser whose handler is a JsonEvents. Errors are "line:column: what is wrong".
template <class Handler>
flow::Status parse_events(boost::json::basic_parser<Handler>& parser, std::string_view text) {
  boost::json::error_code ec;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), ec);
  const std::string& complaint = parser.handler().complaint();
  if (!complaint.empty()) return flow::errorf("{}: {}", text_position(text, used), complaint);
  if (ec == boost::json::error::too_deep)
    return flow::errorf("{}: nested deeper than {}", text_position(text, used), kMaxJsonDepth);
  if (ec) return flow::errorf("{}: not JSON: {}", text_position(text, used), ec.message());
  const std::size_t rest = text.find_first_not_of(" \t\r\n", used);
  if (rest == text.npos) return {};
  return flow::errorf("{}: text after the end of the JSON value", text_position(text, rest));
}

/// Options for such a parser: standard JSON, at most kMaxJsonDepth deep.
inline boost::json::parse_options strict_options() {
  boost::json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  return options;
}

}  // namespace dsv
