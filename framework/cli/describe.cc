#include "framework/cli/describe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "framework/config/expression.h"
#include "framework/config/utf8.h"
#include "framework/core/names.h"
#include "framework/core/units.h"

namespace flow::cli {
namespace {

using Row = std::vector<std::string>;

constexpr std::size_t kLineWidth = 100, kLeastWidth = 30, kLongestDefault = 24;

// The text in lines of at most `width` bytes, where its words allow that.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

// Rows with aligned columns, indented by two; the last column is wrapped.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) line += fmt::format("  {:<{}}", row[i], widths[i]);
    const std::size_t indent = line.size() + 2;
    for (const std::string& part :
         wrapped(row.back(), std::max(kLeastWidth, kLineWidth - std::min(indent, kLineWidth)))) {
      line += std::string(indent - line.size(), ' ') + part;
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      line.clear();
    }
  }
  return text;
}

std::string section(std::string_view title, const std::vector<Row>& rows) {
  return rows.empty() ? "" : fmt::format("\n{}:\n{}", title, table(rows));
}

std::string first_sentence(const std::string& doc) {
  const auto line_end = std::min(doc.find('\n'), doc.size());
  const auto end = std::min(doc.find(". "), line_end);
  return doc.substr(0, end);
}

template <class Info>
std::string type_list(std::string_view title, const std::vector<const Info*>& types) {
  std::vector<Row> rows;
  for (const Info* type : types) rows.push_back({type->name, first_sentence(type->doc)});
  return rows.empty() ? "" : fmt::format("{}:\n{}", title, table(rows));
}

std::string number(double value) {
  return fmt::format("{}", value);
}

// "int, 1 to 9".
std::string type_and_range(const OptionInfo& option) {
  std::string text(option_type_name(option.type));
  const bool max = option.max && std::isfinite(*option.max);
  if (option.min && max) {
    text += fmt::format(", {} to {}", number(*option.min), number(*option.max));
  } else if (option.min) {
    text += fmt::format(", from {}", number(*option.min));
  } else if (max) {
    text += fmt::format(", up to {}", number(*option.max));
  }
  return text;
}

std::string doc_and_choices(const OptionInfo& option) {
  if (option.choices.empty()) return option.doc;
  return fmt::format("{}{}one of: {}", option.doc, option.doc.empty() ? "" : "; ",
                     fmt::join(option.choices, ", "));
}

std::string default_text(const OptionInfo& option) {
  if (option.required) return "required";
  if (option.type == OptionType::bytes && option.default_value.is_number()) {
    return bytes_text(option.default_value.to_number<std::uint64_t>());
  }
  const std::string text = config::shown(option.default_value);
  return text.size() <= kLongestDefault
             ? text
             : fmt::format("{}...", config::utf8_prefix(text, kLongestDefault - 3));
}

std::vector<Row> option_rows(const std::vector<OptionInfo>& options) {
  std::vector<Row> rows;
  for (const OptionInfo& o : options)
    rows.push_back({o.name, type_and_range(o), default_text(o), doc_and_choices(o)});
  return rows;
}

std::vector<Row> port_rows(const std::vector<PortInfo>& ports) {
  std::vector<Row> rows;
  for (const PortInfo& port : ports) {
    const char* arity = port.arity == Arity::optional ? ", optional"
                        : port.arity == Arity::many   ? ", many"
                                                      : "";
    rows.push_back({port.name, std::string(port.type->name) + arity, port.doc});
  }
  return rows;
}

std::string service_type(const Registry& registry, std::type_index type) {
  for (const ServiceInfo* service : registry.services()) {
    if (service->type == type) return service->name;
  }
  return "?";
}

std::vector<Row> use_rows(const Registry& registry, const std::vector<UseInfo>& uses) {
  std::vector<Row> rows;
  for (const UseInfo& use : uses) rows.push_back({use.name, service_type(registry, use.type), use.doc});
  return rows;
}

std::string heading(const TypeInfo& type, std::string_view kind) {
  return fmt::format("{} ({})\n{}", type.name, kind, type.doc.empty() ? "" : type.doc + "\n");
}

std::string describe_stage(const Registry& registry, const StageInfo& stage) {
  std::string text = heading(stage, "stage") + section("inputs", port_rows(stage.inputs)) +
                     section("outputs", port_rows(stage.outputs)) +
                     section("options", option_rows(stage.options.options)) +
                     section("services", use_rows(registry, stage.uses));
  const bool any = stage.policy == InputPolicy::any && !stage.inputs.empty();
  text += fmt::format("\nruns on the {} executor{}{}\n", stage.executor == Executor::io ? "io" : "compute",
                      any ? ", for each packet" : "",
                      stage.concurrency > 1 ? fmt::format(", up to {} at once", stage.concurrency) : "");
  return text;
}

Row plan_row(const std::string& what, const PlanLine& line) {
  return {what, bytes_text(line.resident_bytes), bytes_text(line.read_bytes),
          bytes_text(line.step_read_bytes)};
}

}  // namespace

std::string list_types(const Registry& registry) {
  std::string text = type_list("stages", registry.stages());
  for (const std::string& more :
       {type_list("services", registry.services()), type_list("values", registry.values())}) {
    if (!more.empty()) text += (text.empty() ? "" : "\n") + more;
  }
  return text;
}

Result<std::string> describe_type(const Registry& registry, const std::string& name) {
  if (const StageInfo* stage = registry.stage(name)) return describe_stage(registry, *stage);
  if (const ServiceInfo* service = registry.service(name)) {
    return heading(*service, "service") + section("options", option_rows(service->options.options)) +
           section("services", use_rows(registry, service->uses));
  }
  if (const ValueInfo* value = registry.value(name)) {
    return heading(*value, "value") + section("options", option_rows(value->options.options));
  }
  std::vector<std::string> names = names_of(registry.stages());
  for (const ServiceInfo* s : registry.services()) names.push_back(s->name);
  for (const ValueInfo* v : registry.values()) names.push_back(v->name);
  return Status::error(unknown_name("stage, service or value", name, names) +
                       (nearest(name, names).empty() ? "; --list-stages shows all" : ""));
}

std::string describe_help(const PipelineHelp& help) {
  std::string text = help.file + "\n";
  if (!help.doc.empty()) text += help.doc + "\n";
  if (help.params.empty()) return text + "\nIt has no parameters.\n";
  return text + section("parameters (--set NAME=VALUE)", option_rows(help.params));
}

PlanLine plan_total(const std::vector<PlanLine>& lines) {
  PlanLine total;
  total.what = "total";
  for (const PlanLine& line : lines) {
    total.resident_bytes += line.resident_bytes;
    total.read_bytes += line.read_bytes;
    total.step_read_bytes += line.step_read_bytes;
  }
  return total;
}

std::string plan_table(const std::vector<PlanLine>& lines) {
  std::vector<Row> rows = {{"", "in memory", "read once", "read per step"}};
  for (const PlanLine& line : lines) rows.push_back(plan_row(line.what, line));
  rows.push_back(plan_row("total", plan_total(lines)));
  return table(rows);
}

}  // namespace flow::cli
