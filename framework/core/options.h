// Options: typed, documented, range-checked fields of a stage, a service or a value provider.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace flow {

/// A number of bytes; written "12GiB", "64 MiB", "4096".
struct Bytes {
  std::uint64_t count = 0;
};

/// How the text of an option or parameter is read.
enum class OptionType { boolean, integer, number, text, path, bytes, integers, texts };

/// "int", "text", ... as used in `params:` and in messages.
std::string_view option_type_name(OptionType type);
/// The inverse; nullopt for an unknown name.
std::optional<OptionType> option_type_named(std::string_view name);

/// Reads `text` as a value of `type` (YAML 1.2 core schema for scalars; lists are separated by commas).
/// The error says what was found and what was expected.
Result<boost::json::value> parse_option(OptionType type, std::string_view text);

/// How a C++ member type is described, read and written. Specializations are in options.cc.
template <class T>
struct OptionCodec {
  static const OptionType type;
  static Status read(const boost::json::value& value, T& out);
  static boost::json::value write(const T& value);
};

/// Description of one option. `set` stores a checked value into the options object.
struct OptionInfo {
  std::string name;
  std::string doc;
  OptionType type = OptionType::text;
  bool required = false;
  boost::json::value default_value;
  std::optional<double> min = {}, max = {};
  std::vector<std::string> choices = {};
  std::function<Status(void* options, const boost::json::value& value)> set;

  /// Range and choice check, then `set`. The message has no location and no option name.
  Status assign(void* options, const boost::json::value& value) const;
};

/// Refines the option that was just added.
class OptionBuilder {
 public:
  explicit OptionBuilder(OptionInfo& info) : info_(info) {}
  OptionBuilder& range(double min, double max = std::numeric_limits<double>::infinity()) {
    info_.min = min;
    info_.max = max;
    return *this;
  }
  OptionBuilder& choices(std::vector<std::string> names) {
    info_.choices = std::move(names);
    return *this;
  }
  OptionBuilder& required() {
    info_.required = true;
    return *this;
  }

 private:
  OptionInfo& info_;
};

/// The options of one stage or service type, and how to make the object that holds them.
struct OptionSet {
  std::vector<OptionInfo> options;
  std::function<std::shared_ptr<void>()> make;  ///< a default-constructed Options object

  const OptionInfo* find(std::string_view name) const;
  OptionBuilder add(OptionInfo info);
};

template <class Options, class M>
OptionBuilder add_option(OptionSet& set, std::string name, M Options::*member, std::string doc) {
  return set.add({.name = std::move(name),
                  .doc = std::move(doc),
                  .type = OptionCodec<M>::type,
                  .default_value = OptionCodec<M>::write(Options{}.*member),
                  .set = [member](void* options, const boost::json::value& value) {
                    return OptionCodec<M>::read(value, static_cast<Options*>(options)->*member);
                  }});
}

}  // namespace flow
