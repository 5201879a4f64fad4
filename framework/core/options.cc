#include "framework/core/options.h"

#include <array>
#include <charconv>
#include <cmath>

namespace flow {
namespace json = boost::json;
namespace {

constexpr std::array<std::string_view, 8> kTypeNames = {"bool", "int",   "float", "text",
                                                        "path", "bytes", "ints",  "texts"};

std::string_view trim(std::string_view s) {
  const auto from = s.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  return s.substr(from, s.find_last_not_of(" \t") - from + 1);
}

std::string shown(const json::value& value) {
  return value.is_double() ? fmt::format("{}", value.get_double()) : json::serialize(value);
}

Result<json::value> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) return errorf("'{}' does not fit into 64 bits", text);
  if (error != std::errc() || end != digits.data() + digits.size())
    return errorf("expected int, found '{}'", text);
  return json::value(value);
}

Result<json::value> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return errorf("expected float, found '{}'", text);
  }
  return json::value(value);
}

Result<json::value> parse_boolean(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return json::value(true);
  if (text == "false" || text == "False" || text == "FALSE") return json::value(false);
  return errorf("expected bool (true or false), found '{}'", text);
}

Result<json::value> parse_bytes(std::string_view text) {
  struct Unit {
    std::string_view name;
    double factor;
  };
  constexpr double k = 1024;
  constexpr Unit kUnits[] = {{"KiB", k},  {"MiB", k * k}, {"GiB", k * k * k}, {"TiB", k * k * k * k},
                             {"KB", 1e3}, {"MB", 1e6},    {"GB", 1e9},        {"TB", 1e12},
                             {"B", 1},    {"", 1}};
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    auto number = parse_number(trim(text.substr(0, text.size() - unit.name.size())));
    if (!number.ok()) break;
    const double bytes = number->as_double() * unit.factor;
    if (bytes < 0 || bytes > 9e18) break;
    return json::value(static_cast<std::uint64_t>(bytes));
  }
  return errorf("expected bytes such as 512MiB or 12GiB, found '{}'", text);
}

/// A list of texts in JSON, whose items may hold commas. nullopt when it is something else.
std::optional<json::value> json_texts(std::string_view text) {
  boost::system::error_code error;
  json::value list = json::parse(text, error);
  if (error || !list.is_array()) return std::nullopt;
  const auto is_text = [](const json::value& item) { return item.is_string(); };
  if (!std::all_of(list.get_array().begin(), list.get_array().end(), is_text)) return std::nullopt;
  return list;
}

Result<json::value> parse_list(std::string_view text, OptionType element) {
  json::array list;
  text = trim(text);
  if (element == OptionType::text) {
    if (auto texts = json_texts(text)) return *std::move(texts);
  }
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  while (!trim(text).empty()) {
    const auto comma = text.find(',');
    FLOW_ASSIGN(json::value item, parse_option(element, trim(text.substr(0, comma))));
    list.push_back(std::move(item));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return json::value(std::move(list));
}

Status wrong_type(std::string_view expected, const json::value& found) {
  return errorf("expected {}, found {}", expected, shown(found));
}

template <class Int>
Status read_integer(const json::value& value, Int& out) {
  const auto* number = value.if_int64();
  if (!number) return wrong_type("int", value);
  if (!std::in_range<Int>(*number)) {
    return errorf("{} is outside {} to {}", *number, std::numeric_limits<Int>::min(),
                  std::numeric_limits<Int>::max());
  }
  out = static_cast<Int>(*number);
  return {};
}

}  // namespace

std::string_view option_type_name(OptionType type) {
  return kTypeNames[static_cast<std::size_t>(type)];
}

std::optional<OptionType> option_type_named(std::string_view name) {
  for (std::size_t i = 0; i < kTypeNames.size(); ++i) {
    if (kTypeNames[i] == name) return static_cast<OptionType>(i);
  }
  return std::nullopt;
}

Result<json::value> parse_option(OptionType type, std::string_view text) {
  switch (type) {
    case OptionType::boolean:
      return parse_boolean(trim(text));
    case OptionType::integer:
      return parse_integer(trim(text));
    case OptionType::number:
      return parse_number(trim(text));
    case OptionType::bytes:
      return parse_bytes(trim(text));
    case OptionType::integers:
      return parse_list(text, OptionType::integer);
    case OptionType::texts:
      return parse_list(text, OptionType::text);
    case OptionType::text:
    case OptionType::path:
      break;
  }
  return json::value(text);
}

Status OptionInfo::assign(void* options, const json::value& value) const {
  if (value.is_number()) {
    const double number = value.to_number<double>();
    const bool low = min && number < *min, high = max && number > *max;
    const bool both = min && max && std::isfinite(*max);
    if (both && (low || high)) return errorf("{} is outside {} to {}", shown(value), *min, *max);
    if (low) return errorf("{} is below {}", shown(value), *min);
    if (high) return errorf("{} is above {}", shown(value), *max);
  }
  if (!choices.empty() && value.is_string()) {
    const std::string_view text = value.get_string();
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return errorf("'{}' is none of: {}", text, fmt::format("{}", fmt::join(choices, ", ")));
    }
  }
  return set(options, value);
}

const OptionInfo* OptionSet::find(std::string_view name) const {
  for (const OptionInfo& option : options) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

OptionBuilder OptionSet::add(OptionInfo info) {
  options.push_back(std::move(info));
  return OptionBuilder(options.back());
}

#define FLOW_OPTION_CODEC(T, kind) \
  template <>                      \
  const OptionType OptionCodec<T>::type = OptionType::kind

FLOW_OPTION_CODEC(bool, boolean);
FLOW_OPTION_CODEC(int, integer);
FLOW_OPTION_CODEC(std::int64_t, integer);
FLOW_OPTION_CODEC(double, number);
FLOW_OPTION_CODEC(std::string, text);
FLOW_OPTION_CODEC(std::filesystem::path, path);
FLOW_OPTION_CODEC(Bytes, bytes);
FLOW_OPTION_CODEC(std::vector<std::int64_t>, integers);
FLOW_OPTION_CODEC(std::vector<std::string>, texts);
#undef FLOW_OPTION_CODEC

template <>
Status OptionCodec<bool>::read(const json::value& value, bool& out) {
  if (!value.is_bool()) return wrong_type("bool", value);
  out = value.get_bool();
  return {};
}
template <>
Status OptionCodec<int>::read(const json::value& value, int& out) {
  return read_integer(value, out);
}
template <>
Status OptionCodec<std::int64_t>::read(const json::value& value, std::int64_t& out) {
  return read_integer(value, out);
}
template <>
Status OptionCodec<double>::read(const json::value& value, double& out) {
  if (!value.is_number()) return wrong_type("float", value);
  out = value.to_number<double>();
  return {};
}
template <>
Status OptionCodec<std::string>::read(const json::value& value, std::string& out) {
  if (!value.is_string()) return wrong_type("text", value);
  out = std::string(value.get_string());
  return {};
}
template <>
Status OptionCodec<std::filesystem::path>::read(const json::value& value, std::filesystem::path& out) {
  if (!value.is_string()) return wrong_type("path", value);
  out = std::string(value.get_string());
  return {};
}
template <>
Status OptionCodec<Bytes>::read(const json::value& value, Bytes& out) {
  boost::system::error_code error;
  out.count = value.to_number<std::uint64_t>(error);
  return error ? wrong_type("bytes", value) : Status();
}
template <>
Status OptionCodec<std::vector<std::int64_t>>::read(const json::value& value,
                                                    std::vector<std::int64_t>& out) {
  if (!value.is_array()) return wrong_type("list of int", value);
  out.clear();
  for (const json::value& item : value.get_array()) {
    FLOW_TRY(read_integer(item, out.emplace_back()));
  }
  return {};
}
template <>
Status OptionCodec<std::vector<std::string>>::read(const json::value& value, std::vector<std::string>& out) {
  if (!value.is_array()) return wrong_type("list of text", value);
  out.clear();
  for (const json::value& item : value.get_array()) {
    FLOW_TRY(OptionCodec<std::string>::read(item, out.emplace_back()));
  }
  return {};
}

template <>
json::value OptionCodec<bool>::write(const bool& value) {
  return value;
}
template <>
json::value OptionCodec<int>::write(const int& value) {
  return value;
}
template <>
json::value OptionCodec<std::int64_t>::write(const std::int64_t& value) {
  return value;
}
template <>
json::value OptionCodec<double>::write(const double& value) {
  return value;
}
template <>
json::value OptionCodec<std::string>::write(const std::string& value) {
  return json::value(value);
}
template <>
json::value OptionCodec<std::filesystem::path>::write(const std::filesystem::path& value) {
  return json::value(value.string());
}
template <>
json::value OptionCodec<Bytes>::write(const Bytes& value) {
  return value.count;
}
template <>
json::value OptionCodec<std::vector<std::int64_t>>::write(const std::vector<std::int64_t>& value) {
  return json::value_from(value);
}
template <>
json::value OptionCodec<std::vector<std::string>>::write(const std::vector<std::string>& value) {
  return json::value_from(value);
}

}  // namespace flow
