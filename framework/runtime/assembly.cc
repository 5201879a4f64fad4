#include "framework/runtime/assembly.h"

#include <utility>

namespace flow {
namespace {

/// Adds the lines of one object, each with its name in front.
Status append(std::vector<PlanLine>& all, const std::string& name, Result<std::vector<PlanLine>> lines) {
  if (!lines.ok()) return lines.status();
  for (PlanLine& line : *lines) {
    line.what = line.what.empty() ? name : fmt::format("{}: {}", name, line.what);
    all.push_back(std::move(line));
  }
  return {};
}

}  // namespace

Assembly::~Assembly() {
  stages_.clear();
  while (!services_.empty()) services_.pop_back();
}

Status Assembly::make() {
  for (const ServicePlan& service : plan_.services) {
    FLOW_TRY(guarded([&]() -> Status {
               services_.push_back(service.type->make(service.options.get()));
               return {};
             }).in(subject(service)));
  }
  for (const NodePlan& node : plan_.nodes) {
    FLOW_TRY(guarded([&]() -> Status {
               stages_.push_back(node.stage->make(node.options.get()));
               return {};
             }).in(subject(node)));
  }
  return {};
}

template <class Plan>
Opening Assembly::opening(const Plan& plan, const TypeInfo& type) const {
  std::vector<std::shared_ptr<Service>> bound;
  for (const int use : plan.uses) {
    bound.push_back(use < 0 ? nullptr : services_[static_cast<std::size_t>(use)]);
  }
  return Opening(plan.name, type.uses, std::move(bound), control_.console(), control_.stop_flag(),
                 control_.telemetry(plan.name));
}

Result<std::vector<PlanLine>> Assembly::needs() {
  std::vector<PlanLine> all;
  for (std::size_t i = 0; i < services_.size(); ++i) {
    const ServicePlan& plan = plan_.services[i];
    auto lines = guarded([&] { return services_[i]->plan(opening(plan, *plan.type)); });
    FLOW_TRY(append(all, plan.name, std::move(lines)).in(subject(plan)));
  }
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const NodePlan& plan = plan_.nodes[i];
    auto lines = guarded([&] { return stages_[i]->plan(opening(plan, *plan.stage)); });
    FLOW_TRY(append(all, plan.name, std::move(lines)).in(subject(plan)));
  }
  return all;
}

Status Assembly::open() {
  for (; open_services_ < services_.size(); ++open_services_) {
    if (control_.stopped()) return {};
    const ServicePlan& plan = plan_.services[open_services_];
    Service& service = *services_[open_services_];
    FLOW_TRY(guarded([&] { return service.open(opening(plan, *plan.type)); }).in(subject(plan)));
  }
  for (; open_stages_ < stages_.size(); ++open_stages_) {
    if (control_.stopped()) return {};
    const NodePlan& plan = plan_.nodes[open_stages_];
    Stage& stage = *stages_[open_stages_];
    FLOW_TRY(guarded([&] { return stage.open(opening(plan, *plan.stage)); }).in(subject(plan)));
  }
  return {};
}

Status Assembly::close() {
  Status first;
  const auto keep = [&](Status status) {
    if (first.ok()) first = std::move(status);
  };
  while (open_stages_ > 0) {
    Stage& stage = *stages_[--open_stages_];
    keep(guarded([&] {
           return stage.close(control_.console(), control_.report());
         }).in(subject(plan_.nodes[open_stages_])));
  }
  while (open_services_ > 0) {
    Service& service = *services_[--open_services_];
    keep(guarded([&]() -> Status {
           service.close(control_.report());
           return {};
         }).in(subject(plan_.services[open_services_])));
  }
  return first;
}

}  // namespace flow
