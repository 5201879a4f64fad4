// The `values:` and `services:` sections.
#pragma once

#include <string>
#include <vector>

#include "framework/config/expression.h"
#include "framework/config/yaml.h"
#include "framework/core/plan.h"

namespace flow::config {

/// Loads every value of the section, in the order of the file, into `values`. Their options see `params` and
/// the values before them. A value that fails is reported and unknown.
void load_values(const YamlNode* section, const Scope& params, Scope& values, Errors& errors);

/// The declared services, in opening order, and the choice among them.
class ServiceTable {
 public:
  /// Reads the section: types, options, and which service uses which; cycles are reported.
  ServiceTable(const YamlNode* section, const Scope& scope, Errors& errors);

  /// For each use, the index of the service bound to it; -1 after an error. `bindings` is a map from use to
  /// service, may be null. Without a binding it is the service of the use's name, else the only one of its
  /// type.
  std::vector<int> bind(const std::vector<UseInfo>& uses, const YamlNode* bindings, const Location& where,
                        std::string_view subject, Errors& errors) const;

  std::vector<ServicePlan> take() { return std::move(services_); }

 private:
  void declare(const YamlMember& entry, const Scope& scope, Errors& errors);
  void bind_each_other(const YamlNode& section, Errors& errors);
  void sort(Errors& errors);
  int index(std::string_view name) const;
  int bound(const UseInfo& use, const YamlNode& to, std::string_view subject, Errors& errors) const;
  int chosen(const UseInfo& use, const Location& where, std::string_view subject, Errors& errors) const;
  bool fits(int service, const UseInfo& use) const;

  std::vector<ServicePlan> services_;  // of a broken declaration `type` is null
};

}  // namespace flow::config
