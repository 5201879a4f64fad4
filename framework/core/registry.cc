#include "framework/core/registry.h"

#include <algorithm>

namespace flow {
namespace {

template <class Info>
const Info* find(const std::vector<std::unique_ptr<Info>>& list, std::string_view name) {
  for (const auto& info : list) {
    if (info->name == name) return info.get();
  }
  return nullptr;
}

template <class Info>
std::vector<const Info*> sorted(const std::vector<std::unique_ptr<Info>>& list) {
  std::vector<const Info*> all;
  for (const auto& info : list) all.push_back(info.get());
  std::sort(all.begin(), all.end(), [](const Info* a, const Info* b) { return a->name < b->name; });
  return all;
}

int index_of(const std::vector<PortInfo>& ports, std::string_view name) {
  const auto it = std::find_if(ports.begin(), ports.end(), [&](const PortInfo& p) { return p.name == name; });
  return it == ports.end() ? -1 : static_cast<int>(it - ports.begin());
}

}  // namespace

Registry& Registry::instance() {
  static Registry registry;
  return registry;
}

void Registry::add(StageInfo info) {
  if (find(stages_, info.name)) conflicts_.push_back(info.name);
  stages_.push_back(std::make_unique<StageInfo>(std::move(info)));
}
void Registry::add(ServiceInfo info) {
  if (find(services_, info.name)) conflicts_.push_back(info.name);
  services_.push_back(std::make_unique<ServiceInfo>(std::move(info)));
}
void Registry::add(ValueInfo info) {
  if (find(values_, info.name)) conflicts_.push_back(info.name);
  values_.push_back(std::make_unique<ValueInfo>(std::move(info)));
}
void Registry::add(TapFormat format) {
  taps_.push_back(std::move(format));
}

const StageInfo* Registry::stage(std::string_view name) const {
  return find(stages_, name);
}
const ServiceInfo* Registry::service(std::string_view name) const {
  return find(services_, name);
}
const ValueInfo* Registry::value(std::string_view name) const {
  return find(values_, name);
}
const TapFormat* Registry::tap_format(std::string_view extension) const {
  const auto it =
      std::find_if(taps_.begin(), taps_.end(), [&](const TapFormat& f) { return f.extension == extension; });
  return it == taps_.end() ? nullptr : &*it;
}
std::vector<std::string> Registry::tap_extensions() const {
  std::vector<std::string> extensions;
  for (const TapFormat& format : taps_) extensions.push_back(format.extension);
  return extensions;
}
std::vector<const StageInfo*> Registry::stages() const {
  return sorted(stages_);
}
std::vector<const ServiceInfo*> Registry::services() const {
  return sorted(services_);
}
std::vector<const ValueInfo*> Registry::values() const {
  return sorted(values_);
}

int StageInfo::input(std::string_view port) const {
  return index_of(inputs, port);
}
int StageInfo::output(std::string_view port) const {
  return index_of(outputs, port);
}

const StepVector<Packet>& Context::packets(std::string_view port) const {
  static const StepVector<Packet> none;
  const int index = info_.input(port);
  return index < 0 ? none : inputs_[static_cast<std::size_t>(index)];
}

std::size_t Context::expected_emissions(const StageInfo& info) {
  return info.outputs.size();
}

int Context::output_index(std::string_view port) const {
  return info_.output(port);
}

std::shared_ptr<Service> Opening::find(std::string_view use) const {
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    if (uses_[i].name == use) return services_[i];
  }
  return nullptr;
}

}  // namespace flow
