// Reading a config file of either layout into ModelConfig.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <limits>
#include <map>

#include "stages/model/config_schema.h"
#include "stages/model/json.h"

namespace dsv {

namespace json = boost::json;
namespace fs = std::filesystem;
using flow::errorf;
using flow::Result;
using flow::Status;

namespace {

// Keys that say nothing about running the model.
constexpr std::array<std::string_view, 4> kIgnoredKeys = {"text_config.attention_dropout",
                                                          "text_config.initializer_range",
                                                          "text_config.use_cache", "transformers_version"};

/// The value at a dotted path, or nullptr.
const json::value* at_path(const json::object& root, std::string_view path) {
  const std::size_t dot = path.find('.');
  const json::value* value = root.if_contains(path.substr(0, dot));
  if (dot == path.npos || value == nullptr) return value;
  const json::object* inner = value->if_object();
  return inner == nullptr ? nullptr : at_path(*inner, path.substr(dot + 1));
}

// Each `convert` stores a JSON value in a member's type, or returns false. `expectation` words the type.

template <std::integral T>
requires(!std::same_as<T, bool>) bool convert(const json::value& v, T& out) {
  if (!v.is_int64() || !std::in_range<T>(v.get_int64())) return false;
  out = static_cast<T>(v.get_int64());
  return true;
}
bool convert(const json::value& v, double& out) {
  if (!v.is_number()) return false;
  out = v.is_double() ? v.get_double() : v.to_number<double>();
  return std::isfinite(out);
}
bool convert(const json::value& v, bool& out) {
  if (v.is_bool()) out = v.get_bool();
  return v.is_bool();
}
bool convert(const json::value& v, std::string& out) {
  if (v.is_string()) out = v.get_string();
  return v.is_string();
}
template <class T>
bool convert(const json::value& v, std::vector<T>& out) {
  out.clear();
  if (!v.is_array()) return false;
  for (const json::value& item : v.get_array())
    if (!convert(item, out.emplace_back())) return false;
  return true;
}
template <class T>
bool convert(const json::value& v, std::optional<T>& out) {
  return convert(v, out.emplace());
}
/// The one field that may be null.
bool convert(const json::value& v, std::optional<double>& out) {
  if (!v.is_null()) return convert(v, out.emplace());
  out.reset();
  return true;
}

std::string_view expectation(const int*) {
  return "a whole number of 32 bits";
}
std::string_view expectation(const double*) {
  return "a number";
}
std::string_view expectation(const bool*) {
  return "true or false";
}
std::string_view expectation(const std::string*) {
  return "a string";
}
std::string_view expectation(const std::vector<int>*) {
  return "a list of whole numbers";
}
std::string_view expectation(const std::vector<std::int64_t>*) {
  return "a list of whole numbers";
}
std::string_view expectation(const std::vector<std::string>*) {
  return "a list of strings";
}
template <class T>
std::string_view expectation(const std::optional<T>*) {
  return expectation(static_cast<const T*>(nullptr));
}
std::string_view expectation(const std::optional<double>*) {
  return "a number or null";
}

std::string shorten(std::string text) {
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

template <class T>
Status store_member(T& member, std::string_view key, const json::value& value) {
  if (convert(value, member)) return {};
  return errorf("key '{}' is {}, expected {}", key, shorten(json::serialize(value)), expectation(&member));
}

/// Stores a value in a field and marks it present; `key` is its name in messages.
Status store_value(ModelConfig& config, const ConfigField& field, std::string_view key,
                   const json::value& value) {
  config.present.emplace(field.flat);
  config.places.erase(std::string(field.flat));
  const auto store = [&]<class M>(const M& member) {
    if constexpr (std::is_same_v<M, WholeIfPossible>)
      return store_member(config.*member.member, key, value);
    else
      return store_member(config.*member, key, value);
  };
  return std::visit(store, field.member);
}

/// "file:line:column: message".
Status located(const fs::path& file, const ConfigProblem& problem, std::string_view rest = "") {
  return errorf("{}:{}{}{}", file.string(), problem.place.empty() ? " " : "", problem.text(), rest);
}

class ConfigReader {
 public:
  ConfigReader(const json::object& root, std::string_view text, ModelConfig& config)
      : root_(root), positions_(key_positions(text)), config_(config) {}

  Status read() {
    if (const json::value* type = root_.if_contains("model_type"); type && *type != kModelType)
      return located(config_.path,
                     {place_of("model_type"), fmt::format("model_type is {}; this program runs {:?} only",
                                                          shown(*type), kModelType)});
    config_.layout = root_.contains("text_config") ? ConfigLayout::Nested : ConfigLayout::Flat;
    for (const ConfigField& field : config_fields()) read_field(field);
    if (config_.present.empty())
      return errorf("{}: holds no key of a DeepSeek-V4.1 config", config_.path.string());
    if (config_.layout == ConfigLayout::Nested) read_nested_extras();
    list_unknown(root_, "");
    if (errors_.empty()) return {};
    std::string others;
    for (std::size_t i = 1; i < errors_.size(); ++i) others += "; " + errors_[i].text();
    return located(config_.path, errors_[0], others);
  }

 private:
  static std::string shown(const json::value& value) { return shorten(json::serialize(value)); }
  std::string place_of(std::string_view path) const {
    const auto at = positions_.find(path);
    return at == positions_.end() ? "" : at->second;
  }
  void error(std::string_view path, std::string message) {
    errors_.push_back({place_of(path), std::move(message)});
  }

  void read_field(const ConfigField& field) {
    const std::string_view key = spelled(field, config_.layout);
    known_.push_back(key);
    const json::value* value = at_path(root_, key);
    if (value == nullptr) return;
    if (const Status stored = store_value(config_, field, key, *value); !stored.ok())
      error(key, stored.message());
    config_.places.emplace(field.flat, place_of(key));
  }

  void read_nested_extras() {
    for (const NestedConstant& constant : nested_constants()) read_constant(constant);
    known_.insert(known_.end(), kIgnoredKeys.begin(), kIgnoredKeys.end());
    known_.push_back(kBlockSizePath);
    if (const json::value* block = at_path(root_, kBlockSizePath)) read_block_size(*block);
  }

  void read_constant(const NestedConstant& constant) {
    known_.push_back(constant.path);
    const json::value* value = at_path(root_, constant.path);
    if (value == nullptr) return;
    config_.present.emplace(constant.path == kOldScalingPath ? kScalingPath : constant.path);
    if (json::serialize(*value) != constant.value)
      error(constant.path, fmt::format("key '{}' is {}; this program runs {} only", constant.path,
                                       shown(*value), constant.value));
  }

  void read_block_size(const json::value& value) {
    std::vector<int> sizes;
    if (convert(value, sizes) && sizes.size() == 2 && sizes[0] > 0 && sizes[1] > 0)
      config_.weight_block_size = {sizes[0], sizes[1]};
    else
      error(kBlockSizePath,
            fmt::format("key '{}' is {}, expected two positive whole numbers", kBlockSizePath, shown(value)));
  }

  void list_unknown(const json::object& object, const std::string& prefix) {
    for (const auto& [name, value] : object) {
      const std::string path = prefix + std::string(name);
      if (std::ranges::find(known_, path) != known_.end()) continue;
      const bool has_known = std::ranges::any_of(known_, [&](auto k) { return k.starts_with(path + "."); });
      if (has_known && value.is_object())
        list_unknown(value.get_object(), path + ".");
      else
        config_.unknown_keys.push_back(path);
    }
  }

  const json::object& root_;
  const std::map<std::string, std::string, std::less<>> positions_;
  ModelConfig& config_;
  std::vector<std::string_view> known_;
  std::vector<ConfigProblem> errors_;
};

/// The file to read: `path`, or the first description that a folder holds.
Result<fs::path> resolve(const fs::path& path) {
  std::error_code error;
  if (path.empty()) return errorf("the path of the checkpoint is empty; 'demo' is the built-in one");
  if (!fs::is_directory(path, error)) return path;
  for (const char* name : {"config.json", "inference/config.json"}) {
    const fs::file_status status = fs::status(path / name, error);
    if (fs::exists(status)) return path / name;
    if (status.type() == fs::file_type::none)
      return errorf("{}: {}", (path / name).string(), error.message());
  }
  return errorf("{}: holds neither config.json nor inference/config.json", path.string());
}

/// "a, b, c", or the first few and how many more.
std::string first_few(const std::vector<std::string>& keys) {
  constexpr std::ptrdiff_t kShown = 5;
  const auto end = keys.begin() + std::min(std::ssize(keys), kShown);
  const std::ptrdiff_t more = keys.end() - end;
  return fmt::format("{}{}", fmt::join(keys.begin(), end, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

Result<ModelConfig> read_config(const fs::path& path) {
  FLOW_ASSIGN(const fs::path file, resolve(path));
  FLOW_ASSIGN(const std::string text, read_file(file, 16u << 20));
  const Result<json::value> document = parse_json(text);
  if (!document.ok()) return errorf("{}:{}", file.string(), document.status().message());
  if (!document->is_object()) return errorf("{}: is not a JSON object", file.string());
  ModelConfig config;
  config.path = file;
  FLOW_TRY(ConfigReader(document->get_object(), text, config).read());
  return config;
}

Status set_config_value(ModelConfig& config, std::string_view flat_key, const json::value& value) {
  for (const ConfigField& field : config_fields())
    if (field.flat == flat_key) return store_value(config, field, flat_key, value);
  return errorf("a config has no key '{}'", flat_key);
}

Status check_config(const ModelConfig& config) {
  if (const auto missing = config.missing(); !missing.empty())
    return errorf("{}: lacks the key{} {}", config.path.string(), missing.size() > 1 ? "s" : "",
                  first_few(missing));
  const std::vector<ConfigProblem> problems = config.verify();
  if (problems.empty()) return {};
  if (problems.size() == 1) return located(config.path, problems[0]);
  return located(config.path, problems[0],
                 fmt::format("; dsv41-run config --set checkpoint={} lists {} more", config.path.string(),
                             problems.size() - 1));
}

Result<ModelConfig> load_config(const fs::path& path) {
  FLOW_ASSIGN(ModelConfig config, read_config(path));
  FLOW_TRY(check_config(config));
  return config;
}

}  // namespace dsv
