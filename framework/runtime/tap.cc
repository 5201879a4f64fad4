#include "framework/runtime/tap.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <set>
#include <utility>

#include "framework/core/names.h"
#include "framework/core/output_file.h"

namespace flow {
namespace {

std::string tap_subject(const TapRequest& request) {
  return fmt::format("tap {}={}", request.port, request.path);
}

constexpr std::string_view kInput = "packet";

class ProbeStage final : public Stage {
 public:
  explicit ProbeStage(std::function<Status(const Packet&)> see) : see_(std::move(see)) {}
  Status process(Context& context) override { return see_(context.packets(kInput).front()); }

 private:
  std::function<Status(const Packet&)> see_;
};

const PortInfo& port_of(const GraphPlan& plan, Output output) {
  return plan.nodes[static_cast<std::size_t>(output.node)]
      .stage->outputs[static_cast<std::size_t>(output.port)];
}

Result<const TapFormat*> find_format(const TapRequest& request) {
  const std::string extension = std::filesystem::path(request.path).extension();
  if (const TapFormat* format = Registry::instance().tap_format(extension)) return format;
  std::vector<std::string> known = Registry::instance().tap_extensions();
  if (!extension.empty()) return Status::error(unknown_name("tap format", extension, known));
  return errorf("the name of the file needs an extension: {}", fmt::join(known, ", "));
}

/// Everything about a request that can be checked before its file is made.
Status check(const TapRequest& request, const GraphPlan& plan, std::set<std::filesystem::path>& targets) {
  FLOW_TRY(check_recordable(plan, request.port));
  FLOW_TRY(find_format(request).status());
  if (!targets.insert(output_target(request.path)).second) return errorf("another tap writes this file");
  return {};
}

StageInfo describe_probe(const PortInfo& port, std::function<Status(const Packet&)> see) {
  StageInfo info;
  info.name = "Tap";
  info.executor = Executor::io;
  info.policy = InputPolicy::any;
  info.inputs.push_back({std::string(kInput), "what to record", port.type, Arity::one});
  info.make = [see = std::move(see)](const void*) { return std::make_unique<ProbeStage>(see); };
  return info;
}

NodePlan plan_probe(const std::string& port, const GraphPlan& plan, Output output, const StageInfo& info) {
  NodePlan node;
  node.name = "tap " + port;
  node.where = plan.nodes[static_cast<std::size_t>(output.node)].where;
  node.stage = &info;
  node.inputs.push_back({0, output.node, output.port, false, node.where});
  node.executor = info.executor;
  return node;
}

}  // namespace

Result<Output> find_output(const GraphPlan& plan, const std::string& name) {
  std::vector<std::string> known;
  for (std::size_t node = 0; node < plan.nodes.size(); ++node) {
    const auto& outputs = plan.nodes[node].stage->outputs;
    for (std::size_t port = 0; port < outputs.size(); ++port) {
      known.push_back(plan.nodes[node].name + "." + outputs[port].name);
      if (known.back() == name) return Output{static_cast<int>(node), static_cast<int>(port)};
    }
  }
  return Status::error(unknown_name("output", name, known));
}

Status check_recordable(const GraphPlan& plan, const std::string& name) {
  FLOW_ASSIGN(const Output output, find_output(plan, name));
  const PacketType& type = *port_of(plan, output).type;
  return type.tensors ? Status() : errorf("packets of type {} have no arrays", type.name);
}

Status Tap::add(const Packet& packet) {
  const std::lock_guard lock(mutex_);
  if (!writer_) return {};
  const Stamp stamp = packet.stamp();
  return writer_->add(fmt::format("{}.{}.", stamp.sequence, stamp.step),
                      packet.type().tensors(packet.data()));
}

Status Tap::commit() {
  const std::lock_guard lock(mutex_);
  const Status status = writer_->close();
  writer_.reset();
  return status.in(subject_);
}

void Tap::discard() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) writer_.reset();
}

Status check_taps(const std::vector<TapRequest>& requests, const GraphPlan& plan) {
  std::set<std::filesystem::path> targets;
  for (const TapRequest& request : requests) {
    FLOW_TRY(check(request, plan, targets).in(tap_subject(request)));
  }
  return {};
}

Status Taps::attach(const std::vector<TapRequest>& requests, const std::vector<Probe>& probes,
                    GraphPlan& plan) {
  FLOW_TRY(check_taps(requests, plan));
  std::vector<Output> probed;
  for (const Probe& probe : probes) {
    FLOW_ASSIGN(const Output output, find_output(plan, probe.port));
    probed.push_back(output);
  }
  for (const TapRequest& request : requests) {
    FLOW_ASSIGN(const Output output, find_output(plan, request.port));
    FLOW_ASSIGN(const TapFormat* format, find_format(request));
    const std::string subject = "tap " + request.port;
    FLOW_TRY(can_write(request.path).in(subject));
    FLOW_ASSIGN(auto writer, format->open(request.path).in(subject));
    taps_.push_back(std::make_shared<Tap>(subject, std::move(writer)));
    add({request.port, [tap = taps_.back()](const Packet& packet) { return tap->add(packet); }}, output,
        plan);
  }
  for (std::size_t i = 0; i < probes.size(); ++i) add(probes[i], probed[i], plan);
  return {};
}

void Taps::add(const Probe& probe, Output output, GraphPlan& plan) {
  stages_.push_back(describe_probe(port_of(plan, output), probe.see));
  plan.nodes.push_back(plan_probe(probe.port, plan, output, stages_.back()));
}

Status Taps::commit() {
  for (const auto& tap : taps_) FLOW_TRY(tap->commit());
  return {};
}

void Taps::discard() {
  for (const auto& tap : taps_) tap->discard();
}

}  // namespace flow
