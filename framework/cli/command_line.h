// Command lines of the tools: options from a table, files, and values that come from files.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/status.h"

namespace flow::cli {

/// One option of a tool.
struct OptionText {
  const char* name;
  const char* value;  ///< what its value is called; null for a switch
  bool many;          ///< may be given several times
  const char* doc;
};

/// What a user wrote.
class CommandLine {
 public:
  /// Errors: unknown options (with the nearest one), missing values.
  static Result<CommandLine> parse(std::span<const OptionText> options, int argc, const char* const* argv);

  const std::vector<std::string>& files() const { return files_; }
  bool has(const char* option) const { return values_.contains(option); }
  std::optional<std::string> text(const char* option) const;
  std::vector<std::string> texts(const char* option) const;
  /// The values of an option as "name=value" pairs. `form` is how they should look, for the error.
  Result<std::vector<std::pair<std::string, std::string>>> pairs(const char* option,
                                                                 std::string_view form) const;

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;  // of the options given
  std::vector<std::string> files_;
};

/// The options as --help lists them.
std::string option_list(std::span<const OptionText> options);

/// What "@FILE", "-" and "@@TEXT" stand for as the value of a --set. Standard input can be read once.
std::function<Result<std::string>(const std::string&)> value_reader();

}  // namespace flow::cli
