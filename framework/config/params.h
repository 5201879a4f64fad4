// Parameters of pipelines and composites, and the options of stages, services and values.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/config/expression.h"
#include "framework/config/load.h"
#include "framework/config/yaml.h"
#include "framework/core/options.h"

namespace flow::config {

/// One entry of a `params:` section.
struct ParamDecl {
  OptionInfo info;  ///< `set` only checks; default_value is null
  Location where;
  YamlNode fallback;    ///< the default; null when a value is required
  bool broken = false;  ///< the declaration has an error that leaves the value unknown
};

/// Values given to parameters from outside; nullopt for one whose error is reported.
using GivenParams = std::map<std::string, Value, std::less<>>;

std::vector<ParamDecl> read_param_decls(const YamlNode* section, Errors& errors);

/// The pairs of --set as values of the declared parameters.
GivenParams params_from_text(const std::vector<ParamDecl>& decls, const LoadRequest& request, Errors& errors);

/// The `params:` of a composite's entry, evaluated in the scope of the parent.
GivenParams params_from_yaml(const std::vector<ParamDecl>& decls, const YamlNode* section, const Scope& scope,
                             std::string_view subject, Errors& errors);

/// Adds every parameter to `scope`, given or default; defaults see the parameters before them. One that is
/// required and not given is unknown.
void set_params(const std::vector<ParamDecl>& decls, const GivenParams& given, Scope& scope, Errors& errors);

/// Reports the members of `map` that are neither options nor among `other_keys`.
void check_option_names(const OptionSet& set, const YamlNode& map, const std::vector<std::string>& other_keys,
                        std::string_view subject, Errors& errors);

/// A new Options object filled from the members of `map` that are not among `other_keys`. Names, types,
/// ranges and required options are checked.
std::shared_ptr<void> read_options(const OptionSet& set, const YamlNode& map,
                                   const std::vector<std::string>& other_keys, const Scope& scope,
                                   std::string_view subject, Errors& errors);

}  // namespace flow::config
