#include "framework/cli/command_line.h"

#include <boost/program_options.hpp>
#include <sstream>

#include "framework/cli/files.h"
#include "framework/core/names.h"

namespace flow::cli {
namespace {

namespace po = boost::program_options;
using Texts = std::vector<std::string>;

po::options_description described(std::span<const OptionText> options) {
  po::options_description all("Options", 100, 60);
  for (const OptionText& o : options) {
    if (!o.value) {
      all.add_options()(o.name, o.doc);
    } else if (o.many) {
      all.add_options()(o.name, po::value<Texts>()->value_name(o.value), o.doc);
    } else {
      all.add_options()(o.name, po::value<std::string>()->value_name(o.value), o.doc);
    }
  }
  return all;
}

Status unknown_option(std::span<const OptionText> options, const std::string& name) {
  Texts names;
  for (const OptionText& o : options) {
    const std::string_view long_name = o.name;
    names.push_back(fmt::format("--{}", long_name.substr(0, long_name.find(','))));
  }
  return Status::error(unknown_name("option", name, names));
}

}  // namespace

Result<CommandLine> CommandLine::parse(std::span<const OptionText> options, int argc,
                                       const char* const* argv) {
  po::options_description all = described(options);
  all.add_options()("file", po::value<Texts>());
  po::positional_options_description files;
  files.add("file", -1);
  const int style = po::command_line_style::unix_style ^ po::command_line_style::allow_guessing;
  try {
    const po::parsed_options parsed =
        po::command_line_parser(argc, argv).options(all).positional(files).style(style).run();
    po::variables_map checked;
    po::store(parsed, checked);
    CommandLine line;
    for (const auto& option : parsed.options) {
      Texts& values = option.string_key == "file" ? line.files_ : line.values_[option.string_key];
      values.insert(values.end(), option.value.begin(), option.value.end());
    }
    return line;
  } catch (const po::unknown_option& e) {
    return unknown_option(options, e.get_option_name());
  } catch (const po::error& e) {
    return Status::error(e.what());
  }
}

std::optional<std::string> CommandLine::text(const char* option) const {
  return has(option) ? std::optional(texts(option).back()) : std::nullopt;
}

Texts CommandLine::texts(const char* option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? Texts() : found->second;
}

Result<std::vector<std::pair<std::string, std::string>>> CommandLine::pairs(const char* option,
                                                                            std::string_view form) const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string& item : texts(option)) {
    const auto equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      return errorf("--{} {}: expected {}", option, item, form);
    }
    result.emplace_back(item.substr(0, equals), item.substr(equals + 1));
  }
  return result;
}

std::string option_list(std::span<const OptionText> options) {
  std::ostringstream text;
  text << described(options);
  return text.str();
}

std::function<Result<std::string>(const std::string&)> value_reader() {
  return [used = false](const std::string& text) mutable -> Result<std::string> {
    if (text.starts_with("@@")) return text.substr(1);
    if (text.starts_with('@')) return read_value(text.substr(1));
    if (text != "-") return text;
    if (std::exchange(used, true)) return errorf("standard input is read by another --set");
    return read_value("-");
  };
}

}  // namespace flow::cli
