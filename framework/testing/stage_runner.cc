#include "framework/testing/stage_runner.h"

#include <utility>

#include "framework/runtime/control.h"

namespace flow {
namespace {

/// Values as they are, texts also in the notation of the option's type ("12GiB").
Status assign(const OptionInfo& option, void* options, const boost::json::value& value) {
  const bool textual = option.type == OptionType::text || option.type == OptionType::path;
  if (!value.is_string() || textual) return option.assign(options, value);
  FLOW_ASSIGN(const boost::json::value parsed, parse_option(option.type, value.get_string()));
  return option.assign(options, parsed);
}

Status fill(const OptionSet& set, void* options, const boost::json::object& values) {
  for (const auto& [key, value] : values) {
    const OptionInfo* option = set.find(key);
    if (!option) return errorf("no option '{}'", std::string_view(key));
    FLOW_TRY(assign(*option, options, value).in(fmt::format("option '{}'", option->name)));
  }
  for (const OptionInfo& option : set.options) {
    if (option.required && !values.contains(option.name))
      return errorf("option '{}' is missing", option.name);
  }
  return {};
}

Status check_count(const PortInfo& port, std::size_t packets) {
  if (port.arity == Arity::one && packets != 1) {
    return errorf("input '{}' has {} packets instead of one", port.name, packets);
  }
  if (port.arity == Arity::optional && packets > 1) {
    return errorf("input '{}' has {} packets instead of one at most", port.name, packets);
  }
  return {};
}

}  // namespace

void CapturingConsole::out(std::string_view text) {
  const std::lock_guard lock(mutex_);
  text_ += text;
}
void CapturingConsole::note(std::string_view line) {
  const std::lock_guard lock(mutex_);
  notes_ += line;
  notes_ += '\n';
}
std::string CapturingConsole::text() const {
  const std::lock_guard lock(mutex_);
  return text_;
}
std::string CapturingConsole::notes() const {
  const std::lock_guard lock(mutex_);
  return notes_;
}

StageRunner::StageRunner(std::string_view stage, boost::json::object options) {
  built_ = guarded([&] { return build(stage, options); }).in(fmt::format("stage {}", stage));
}

StageRunner::~StageRunner() = default;

Status StageRunner::build(std::string_view stage, const boost::json::object& options) {
  info_ = Registry::instance().stage(stage);
  if (!info_) return Status::error("is not registered");
  options_ = info_->options.make();
  FLOW_TRY(fill(info_->options, options_.get(), options));
  stage_ = info_->make(options_.get());
  return {};
}

StageRunner& StageRunner::service(std::string_view use, std::shared_ptr<Service> object) {
  services_[std::string(use)] = std::move(object);
  return *this;
}

Status StageRunner::open() {
  FLOW_TRY(built_);
  std::vector<std::shared_ptr<Service>> bound;
  for (const UseInfo& use : info_->uses) {
    const auto service = services_.find(use.name);
    bound.push_back(service == services_.end() ? nullptr : service->second);
  }
  const Opening opening(info_->name, info_->uses, std::move(bound), console_, cancelled_, telemetry_);
  opened_ = true;
  return guarded([&] { return stage_->open(opening); }).in(info_->name);
}

Result<Inputs> StageRunner::bound_inputs() const {
  Inputs bound(info_->inputs.size());
  for (const auto& [name, packets] : inputs_) {
    const int port = info_->input(name);
    if (port < 0) return errorf("no input '{}'", name);
    bound[static_cast<std::size_t>(port)] = packets;
  }
  for (std::size_t port = 0; port < bound.size() && info_->policy == InputPolicy::all; ++port) {
    FLOW_TRY(check_count(info_->inputs[port], bound[port].size()));
  }
  return bound;
}

Status StageRunner::run(Stamp stamp) {
  if (!opened_) FLOW_TRY(open());
  auto inputs = bound_inputs();
  if (!inputs.ok()) return inputs.status().in(info_->name);
  Context context(*info_, *std::move(inputs), stamp, console_, report_, cancelled_, telemetry_);
  Status status = guarded([&] { return stage_->process(context); });
  emissions_ = std::move(context.emissions());
  finished_ = context.finished();
  return status.in(info_->name);
}

Status StageRunner::close() {
  FLOW_TRY(built_);
  return guarded([&] { return stage_->close(console_, report_); }).in(info_->name);
}

}  // namespace flow
