#include "framework/config/flatten.h"

#include <algorithm>
#include <filesystem>

#include "framework/config/order.h"
#include "framework/config/params.h"
#include "framework/config/substitution.h"
#include "framework/core/names.h"

namespace flow::config {
namespace {

const std::vector<std::string> kStageKeys = {"name",     "stage",  "in",   "options", "services",
                                             "executor", "repeat", "when", "remove"};
const std::vector<std::string> kGraphKeys = {"name", "graph", "in", "params", "repeat", "when", "remove"};
const std::vector<std::string> kCompositeKeys = {"doc", "inputs", "outputs", "params", "stages"};

std::string stage_subject(const std::string& name, const std::string& type = {}) {
  return type.empty() ? fmt::format("stage '{}'", name) : fmt::format("stage '{}' ({})", name, type);
}

void check_ports(Instance& made, const std::vector<std::string>& known, const Reading& reading) {
  for (const Binding& b : made.inputs) {
    if (std::find(known.begin(), known.end(), b.port) != known.end()) continue;
    reading.fail(b.where, unknown_name("input", b.port, known));
    made.unsure = true;
  }
}

bool is_map_or_absent(const YamlNode* node) {
  return !node || node->is_map();
}

// The inputs of `in`, then the carried ones.
std::vector<Binding> all_inputs(const YamlNode& node, const std::vector<Binding>& carried,
                                const Reading& reading) {
  std::vector<Binding> inputs = read_bindings(node.find("in"), "in", reading);
  for (const Binding& carry : carried) {
    const bool twice =
        std::any_of(inputs.begin(), inputs.end(), [&](const Binding& b) { return b.port == carry.port; });
    if (twice) {
      reading.fail(carry.where, fmt::format("input '{}' is both in 'in' and in 'carry'", carry.port));
    } else {
      inputs.push_back(carry);
    }
  }
  return inputs;
}

// The map of options; an empty one at the place of the stage when there is none.
YamlNode options_of(const YamlNode& node, const Reading& reading) {
  YamlNode none;
  none.where = node.where;
  const YamlNode* options = node.find("options");
  if (!options) return none;
  if (!options->is_map()) {
    reading.fail(options->where, fmt::format("options: expected a map, found {}", options->shown()));
  }
  return *options;
}

// What a copy after the first takes: the same ports of its predecessor.
std::vector<Binding> from_predecessor(const std::vector<Binding>& carry, const std::string& predecessor) {
  std::vector<Binding> bindings = carry;
  for (Binding& b : bindings) {
    const Location where = b.refs.empty() ? b.where : b.refs[0].where;
    b.refs = {Ref{predecessor + "." + b.port, where}};
  }
  return bindings;
}

std::string no_stage_type(const std::string& name) {
  const Registry& registry = Registry::instance();
  if (registry.service(name)) return fmt::format("'{}' is a service; it is declared in 'services'", name);
  if (registry.value(name)) return fmt::format("'{}' is a value; it is declared in 'values'", name);
  return unknown_name("stage type", name, names_of(registry.stages()));
}

// The first key that only pipelines have; nullptr in a composite.
const YamlMember* pipeline_key(const YamlNode& file) {
  for (const YamlMember& m : file.members) {
    for (const char* key : {"base", "plugins", "runtime", "values", "services"}) {
      if (m.key == key) return &m;
    }
  }
  return nullptr;
}

}  // namespace

void Flattener::run(const YamlNode& pipeline, const Scope& scope, FlatGraph& graph) {
  graph_ = &graph;
  add_body(pipeline.find("stages"), pipeline.where, scope, "", graph.root);
  if (graph.nodes.empty() && errors_.empty()) errors_.add(pipeline.where, "", "the graph has no stages");
}

void Flattener::add_body(const YamlNode* stages, const Location& where, const Scope& scope,
                         const std::string& prefix, Body& body) {
  if (!stages) return errors_.add(where, "", "there are no 'stages'");
  if (!stages->is_list()) {
    return errors_.add(stages->where, "stages", fmt::format("expected a list, found {}", stages->shown()));
  }
  for (const YamlNode& entry : stages->items) {
    if (!full_) add_entry(entry, scope, prefix, body);
  }
}

void Flattener::add_entry(const YamlNode& node, const Scope& scope, const std::string& prefix, Body& body) {
  const YamlNode* name = node.find("name");
  body.unsure = body.unsure || !name || !is_name(name->text);
  if (!name) return errors_.add(node.where, "", "a stage is a map with a name");
  const std::string full_name = prefix + name->text;
  if (!is_name(name->text)) {
    return errors_.add(name->where, stage_subject(full_name),
                       "a name has letters, digits, '_' and '-', and begins with a letter");
  }
  const auto [place, fresh] = body.entries.try_emplace(name->text);
  if (!fresh) return errors_.add(name->where, stage_subject(full_name), "the name is taken already");
  const auto patched = patches_.apply(full_name, node);
  const YamlNode& entry = patched ? *patched : node;
  if (const YamlNode* repeat = entry.find("repeat")) {
    add_copies(entry, *repeat, full_name, scope, body, place->second);
  } else {
    place->second.instances.push_back(make_instance(entry, {full_name, scope, {}, {}}, body));
  }
}

void Flattener::add_copies(const YamlNode& node, const YamlNode& repeat, const std::string& name,
                           const Scope& scope, Body& body, Entry& entry) {
  const Reading reading{scope, stage_subject(name), errors_};
  entry.repeated = true;
  entry.carry = read_bindings(repeat.find("carry"), "carry", reading);
  const auto copies = read_repeat(repeat, kMaxInstances - instances_, reading);
  entry.unknown = !copies;
  if (!copies) return;
  entry.keys = copies->keys;
  for (std::size_t i = 0; i < entry.keys.size(); ++i) entry.index[entry.keys[i]] = i;
  const std::string local_name = name.substr(name.rfind('.') + 1);
  for (std::size_t i = 0; i < copies->values.size() && !full_; ++i) {
    const std::string copy_name = name + "." + entry.keys[i];
    Scope copy_scope(&scope);
    copy_scope.set(copies->variable, copies->values[i]);
    const auto patched = patches_.apply(copy_name, node);
    auto carried = i == 0 ? entry.carry : from_predecessor(entry.carry, local_name + "." + entry.keys[i - 1]);
    entry.instances.push_back(make_instance(
        patched ? *patched : node, {copy_name, copy_scope, copies->variable, std::move(carried)}, body));
  }
}

std::unique_ptr<Instance> Flattener::make_instance(const YamlNode& node, const Copy& copy, const Body& body) {
  auto made = std::make_unique<Instance>();
  made->name = copy.name;
  made->where = node.where;
  made->parent = &body;
  if (instances_ == kMaxInstances) {
    if (!full_) errors_.add(node.where, "", fmt::format("more than {} stages", kMaxInstances));
    full_ = true;
    return made;
  }
  ++instances_;
  const bool is_stage = node.find("stage") != nullptr;
  if (is_stage == (node.find("graph") != nullptr)) {
    errors_.add(node.where, stage_subject(copy.name), "needs either 'stage' or 'graph'");
  } else if (is_stage) {
    make_stage(node, copy, *made);
  } else {
    make_composite(node, copy, *made);
  }
  return made;
}

void Flattener::make_stage(const YamlNode& node, const Copy& copy, Instance& made) {
  const YamlNode& type = *node.find("stage");
  const auto type_name = read_entry_text(&type, "stage", {copy.scope, stage_subject(copy.name), errors_});
  if (!type_name) return;
  const StageInfo* info = Registry::instance().stage(*type_name);
  if (!info) {
    return errors_.add(type.where, stage_subject(copy.name), no_stage_type(*type_name));
  }
  made.subject = stage_subject(copy.name, info->name);
  const Reading reading{copy.scope, made.subject, errors_};
  check_keys(node, kStageKeys, made.subject, errors_);
  made.inputs = all_inputs(node, copy.carried, reading);
  made.unsure = !is_map_or_absent(node.find("in"));
  check_ports(made, names_of(info->inputs), reading);
  const YamlNode options = options_of(node, reading);
  if (const auto left_out = is_left_out(node, reading); !left_out || *left_out) {
    if (left_out) made.kind = Instance::Kind::left_out;
    return check_option_names(info->options, options, {}, made.subject, errors_);
  }
  made.kind = Instance::Kind::stage;
  made.node = static_cast<int>(graph_->nodes.size());
  graph_->of_node.push_back(&made);
  graph_->nodes.push_back(
      {.name = copy.name,
       .where = node.where,
       .stage = info,
       .options = read_options(info->options, options, {}, copy.scope, made.subject, errors_),
       .uses = services_.bind(info->uses, node.find("services"), node.where, made.subject, errors_),
       .inputs = {},
       .executor = read_executor(node.find("executor"), info->executor, reading)});
}

void Flattener::make_composite(const YamlNode& node, const Copy& copy, Instance& made) {
  const YamlNode& graph = *node.find("graph");
  const auto name = read_entry_text(&graph, "graph", {copy.scope, stage_subject(copy.name), errors_});
  if (!name) return;
  made.subject = stage_subject(copy.name, *name);
  const Reading reading{copy.scope, made.subject, errors_};
  check_keys(node, kGraphKeys, made.subject, errors_);
  made.inputs = all_inputs(node, copy.carried, reading);
  made.unsure = !is_map_or_absent(node.find("in"));
  const std::optional<bool> left_out = is_left_out(node, reading);
  if (left_out && *left_out) made.kind = Instance::Kind::left_out;
  if (!left_out || *left_out) return;
  if (const YamlNode* file = load_composite(graph, *name, made.subject)) {
    open_files_.push_back(file->where.file);
    make_composite_body(node, *file, copy, made);
    open_files_.pop_back();
  }
}

const YamlNode* Flattener::load_composite(const YamlNode& graph, const std::string& name,
                                          const std::string& subject) {
  const auto path = files_.find_composite(name, graph.where.file);
  if (!path.ok()) {
    errors_.add(graph.where, subject, path.status());
    return nullptr;
  }
  if (const auto seen = std::find(open_files_.begin(), open_files_.end(), *path); seen != open_files_.end()) {
    const std::vector<std::string> cycle(seen, open_files_.end());
    errors_.add(graph.where, "", "a composite contains itself: " + cycle_text(cycle));
    return nullptr;
  }
  if (open_files_.size() == kMaxCompositeDepth) {
    errors_.add(graph.where, "",
                fmt::format("composites are nested deeper than {} levels", kMaxCompositeDepth));
    return nullptr;
  }
  const auto file = files_.load(*path);
  if (!file.ok()) errors_.add(graph.where, subject, file.status());
  if (!file.ok() || !*file) return nullptr;
  if (const YamlMember* key = pipeline_key(**file)) {
    errors_.add(graph.where, subject,
                fmt::format("'{}' is a pipeline, not a composite: it has '{}'", name, key->key));
    return nullptr;
  }
  return *file;
}

void Flattener::make_composite_body(const YamlNode& node, const YamlNode& file, const Copy& copy,
                                    Instance& made) {
  check_keys(file, kCompositeKeys, "", errors_);
  check_doc(file, "", errors_);
  made.kind = Instance::Kind::composite;
  made.body = std::make_unique<Body>();
  made.body->owner = &made;
  made.body->inputs = read_input_decls(file.find("inputs"), types_, errors_);
  graph_->composites.push_back(&made);
  check_ports(made, names_of(made.body->inputs), {copy.scope, made.subject, errors_});
  const Scope scope = composite_scope(node, file, copy, made);
  made.body->outputs = read_output_decls(file.find("outputs"), {scope, "outputs", errors_});
  add_body(file.find("stages"), file.where, scope, copy.name + ".", *made.body);
}

Scope Flattener::composite_scope(const YamlNode& node, const YamlNode& file, const Copy& copy,
                                 const Instance& made) {
  const std::vector<ParamDecl> decls = read_param_decls(file.find("params"), errors_);
  const GivenParams given = params_from_yaml(decls, node.find("params"), copy.scope, made.subject, errors_);
  for (const ParamDecl& decl : decls) {
    if (decl.info.required && !decl.broken && !given.contains(decl.info.name)) {
      errors_.add(made.where, made.subject, fmt::format("param '{}' needs a value", decl.info.name));
    }
  }
  Scope scope(&values_);
  if (!copy.variable.empty()) scope.set(copy.variable, *copy.scope.find(copy.variable));
  set_params(decls, given, scope, errors_);
  return scope;
}

}  // namespace flow::config
