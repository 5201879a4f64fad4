#include "framework/config/services.h"

#include <algorithm>

#include "framework/config/order.h"
#include "framework/config/params.h"
#include "framework/config/substitution.h"
#include "framework/core/exception.h"
#include "framework/core/names.h"

namespace flow::config {
namespace {

// What `values:` and `services:` entries share: a map with a `type`.
template <class Info>
const Info* entry_type(const YamlMember& entry, std::string_view kind, const std::vector<const Info*>& all,
                       const Scope& scope, Errors& errors) {
  const std::string subject = fmt::format("{} '{}'", kind, entry.key);
  const YamlNode* node = entry.value.find("type");
  if (!entry.value.is_map() || !node) {
    errors.add(entry.where, subject, fmt::format("expected a map with a type and options"));
    return nullptr;
  }
  const auto name = read_text(*node, scope);
  if (!name.ok()) errors.add(node->where, subject, name.status().in("type"));
  if (!name.ok() || !*name) return nullptr;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Info* i) { return i->name == **name; });
  if (found != all.end()) return *found;
  errors.add(node->where, subject, unknown_name(fmt::format("{} type", kind), **name, names_of(all)));
  return nullptr;
}

bool is_section(const YamlNode* section, std::string_view name, Errors& errors) {
  if (section && !section->is_map()) {
    errors.add(section->where, name, fmt::format("expected a map, found {}", section->shown()));
  }
  return section && section->is_map();
}

std::string subject_of(const ServicePlan& service) {
  return fmt::format("service '{}' ({})", service.name, service.type->name);
}

std::string type_named(std::type_index type) {
  for (const ServiceInfo* info : Registry::instance().services()) {
    if (info->type == type) return info->name;
  }
  return "a type that is not registered";
}

// The code of value types is not ours: whatever it throws is an error of the value.
Result<boost::json::object> guarded_load(const ValueInfo& info, const void* options) {
  try {
    return info.load(options);
  } catch (...) {
    return exception_status();
  }
}

Value load_value(const YamlMember& entry, const Scope& scope, Errors& errors) {
  const ValueInfo* info = entry_type(entry, "value", Registry::instance().values(), scope, errors);
  if (!info) return std::nullopt;
  const std::string subject = fmt::format("value '{}' ({})", entry.key, info->name);
  const auto options = read_options(info->options, entry.value, {"type"}, scope, subject, errors);
  Result<boost::json::object> loaded = guarded_load(*info, options.get());
  if (loaded.ok()) return Value(*std::move(loaded));
  errors.add(entry.where, subject, loaded.status());
  return std::nullopt;
}

}  // namespace

void load_values(const YamlNode* section, const Scope& params, Scope& values, Errors& errors) {
  if (!is_section(section, "values", errors)) return;
  for (const YamlMember& entry : section->members) {
    const std::string subject = fmt::format("value '{}'", entry.key);
    if (const Status name = check_variable(entry.key); !name.ok()) {
      errors.add(entry.where, subject, name);
    } else if (params.find(entry.key)) {
      errors.add(entry.where, subject, "a param has the same name");
    } else {
      values.set(entry.key, load_value(entry, params, errors));
    }
  }
}

ServiceTable::ServiceTable(const YamlNode* section, const Scope& scope, Errors& errors) {
  if (!is_section(section, "services", errors)) return;
  for (const YamlMember& entry : section->members) declare(entry, scope, errors);
  bind_each_other(*section, errors);
  sort(errors);
}

void ServiceTable::declare(const YamlMember& entry, const Scope& scope, Errors& errors) {
  ServicePlan service;
  service.name = entry.key;
  service.where = entry.where;
  if (!is_name(entry.key)) {
    errors.add(entry.where, fmt::format("service '{}'", entry.key),
               "the name of a service has letters, digits, '_' and '-' only");
  } else {
    service.type = entry_type(entry, "service", Registry::instance().services(), scope, errors);
  }
  if (service.type) {
    std::vector<std::string> other_keys = names_of(service.type->uses);
    other_keys.push_back("type");
    service.options =
        read_options(service.type->options, entry.value, other_keys, scope, subject_of(service), errors);
  }
  services_.push_back(std::move(service));
}

void ServiceTable::bind_each_other(const YamlNode& section, Errors& errors) {
  for (std::size_t i = 0; i < services_.size(); ++i) {
    ServicePlan& service = services_[i];
    if (!service.type) continue;
    const std::vector<std::string> uses = names_of(service.type->uses);
    YamlNode bindings;
    for (const YamlMember& m : section.members[i].value.members) {
      if (std::find(uses.begin(), uses.end(), m.key) != uses.end()) bindings.members.push_back(m);
    }
    service.uses = bind(service.type->uses, &bindings, service.where, subject_of(service), errors);
  }
}

void ServiceTable::sort(Errors& errors) {
  std::vector<std::vector<int>> needs;
  for (const ServicePlan& service : services_) {
    needs.push_back(service.uses);
    std::erase(needs.back(), -1);
  }
  const Ordering ordering = order_by_needs(needs);
  for (const std::vector<int>& cycle : ordering.cycles) {
    std::vector<std::string> names;
    for (const int i : cycle) names.push_back(services_[static_cast<std::size_t>(i)].name);
    errors.add(services_[static_cast<std::size_t>(cycle[0])].where, "services",
               "they need each other: " + cycle_text(names));
  }
  std::vector<int> position(services_.size());
  std::vector<ServicePlan> sorted;
  for (const int i : ordering.order) {
    position[static_cast<std::size_t>(i)] = static_cast<int>(sorted.size());
    sorted.push_back(std::move(services_[static_cast<std::size_t>(i)]));
  }
  for (ServicePlan& service : sorted) {
    for (int& use : service.uses) use = use < 0 ? -1 : position[static_cast<std::size_t>(use)];
  }
  services_ = std::move(sorted);
}

std::vector<int> ServiceTable::bind(const std::vector<UseInfo>& uses, const YamlNode* bindings,
                                    const Location& where, std::string_view subject, Errors& errors) const {
  if (bindings) {
    for (const YamlMember& m : bindings->members) {
      const std::vector<std::string> known = names_of(uses);
      if (std::find(known.begin(), known.end(), m.key) == known.end()) {
        errors.add(m.where, subject, unknown_name("service use", m.key, known));
      }
    }
  }
  std::vector<int> indices;
  for (const UseInfo& use : uses) {
    const YamlNode* to = bindings ? bindings->find(use.name) : nullptr;
    indices.push_back(to ? bound(use, *to, subject, errors) : chosen(use, where, subject, errors));
  }
  return indices;
}

int ServiceTable::bound(const UseInfo& use, const YamlNode& to, std::string_view subject,
                        Errors& errors) const {
  const int i = to.is_scalar() ? index(to.text) : -1;
  if (!to.is_scalar()) {
    errors.add(to.where, subject, fmt::format("expected the name of a service, found {}", to.shown()));
  } else if (i < 0) {
    errors.add(to.where, subject, unknown_name("service", to.text, names_of(services_)));
  } else if (const ServicePlan& service = services_[static_cast<std::size_t>(i)]; !service.type) {
    return -1;
  } else if (!fits(i, use)) {
    errors.add(to.where, subject,
               fmt::format("'{}' takes a {}, but service '{}' is a {}", use.name, type_named(use.type),
                           service.name, service.type->name));
  } else {
    return i;
  }
  return -1;
}

int ServiceTable::chosen(const UseInfo& use, const Location& where, std::string_view subject,
                         Errors& errors) const {
  std::vector<int> fitting;
  bool unknown = false;
  for (int i = 0; i < static_cast<int>(services_.size()); ++i) {
    const ServicePlan& service = services_[static_cast<std::size_t>(i)];
    unknown = unknown || !service.type;
    if (!fits(i, use)) continue;
    if (service.name == use.name) return i;
    fitting.push_back(i);
  }
  if (fitting.size() == 1) return fitting[0];
  if (!fitting.empty()) {
    errors.add(where, subject,
               fmt::format("uses a {}, and there are {}; say which: {{{}: NAME}}", type_named(use.type),
                           fitting.size(), use.name));
  } else if (!unknown) {
    errors.add(
        where, subject,
        fmt::format("uses service '{}' of type {}, and none is declared", use.name, type_named(use.type)));
  }
  return -1;
}

bool ServiceTable::fits(int service, const UseInfo& use) const {
  const ServiceInfo* type = services_[static_cast<std::size_t>(service)].type;
  return type && type->type == use.type;
}

int ServiceTable::index(std::string_view name) const {
  for (std::size_t i = 0; i < services_.size(); ++i) {
    if (services_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace flow::config
