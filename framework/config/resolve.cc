#include "framework/config/resolve.h"

#include <algorithm>

#include "framework/core/names.h"

namespace flow::config {
namespace {

Status malformed(std::string_view text) {
  return errorf("'{}' is no reference; write node.port, node.instance.port, node[*].port or $input", text);
}

std::vector<std::string> ports_of(const Body& body) {
  std::vector<std::string> names;
  for (const Binding& output : body.outputs) names.push_back(output.port);
  return names;
}

}  // namespace

const PortInfo& Resolver::port(const Source& source) const {
  return nodes_[static_cast<std::size_t>(source.node)]
      .stage->outputs[static_cast<std::size_t>(source.output)];
}

std::string Resolver::name(const Source& source) const {
  return nodes_[static_cast<std::size_t>(source.node)].name + "." + port(source).name;
}

std::optional<Sources> Resolver::resolve(const Body& body, const Ref& ref, std::string_view subject) {
  if (ref.unknown || spent_ > kMaxSources) return std::nullopt;
  if (hops_ == kMaxHops) {
    errors_.add(ref.where, subject, fmt::format("'{}' leads on more than {} times", ref.text, kMaxHops));
    return std::nullopt;
  }
  ++hops_;
  const bool may_be_absent = ref.text.ends_with('?');
  const std::string_view text =
      std::string_view(ref.text).substr(0, ref.text.size() - (may_be_absent ? 1 : 0));
  const Found found = find(body, text);
  --hops_;
  if (!found.ok()) {
    if (may_be_absent) return Sources();
    errors_.add(ref.where, subject, found.status());
    return std::nullopt;
  }
  std::optional<Sources> sources = *found;
  if (!sources || !spend(*sources, ref, subject)) return std::nullopt;
  for (Source& s : *sources) s.feedback = s.feedback || ref.feedback;
  return sources;
}

bool Resolver::spend(const Sources& sources, const Ref& ref, std::string_view subject) {
  spent_ += sources.size();
  if (spent_ > kMaxSources) {
    errors_.add(ref.where, subject, fmt::format("the graph has more than {} edges", kMaxSources));
  }
  return spent_ <= kMaxSources;
}

std::optional<Sources> Resolver::resolve(const Body& body, const Binding& binding, std::string_view subject) {
  std::optional<Sources> all = Sources();
  for (const Ref& ref : binding.refs) {
    const auto some = resolve(body, ref, subject);
    if (!some) {
      all.reset();
    } else if (all) {
      all->insert(all->end(), some->begin(), some->end());
    }
  }
  return all;
}

Resolver::Found Resolver::find(const Body& body, std::string_view text) {
  if (text.starts_with('$')) return find_input(body, text.substr(1));
  const auto end = text.find_first_of(".[");
  if (end == std::string_view::npos || !is_name(text.substr(0, end))) {
    return body.unsure ? Found(std::optional<Sources>()) : malformed(text);
  }
  return find_in_entry(body, text.substr(0, end), text.substr(end));
}

Resolver::Found Resolver::find_input(const Body& body, std::string_view name) {
  if (!body.owner) return errorf("'${}' is an input of a composite; a pipeline has none", name);
  const auto decl = std::find_if(body.inputs.begin(), body.inputs.end(),
                                 [&](const InputDecl& d) { return d.name == name; });
  if (decl == body.inputs.end()) return Status::error(unknown_name("input", name, names_of(body.inputs)));
  return input(*body.owner, *decl);
}

// `rest` is what follows the name: ".port", ".instance.port" or "[*].port".
Resolver::Found Resolver::find_in_entry(const Body& body, std::string_view name, std::string_view rest) {
  const auto found = body.entries.find(name);
  if (found == body.entries.end()) {
    if (body.unsure) return std::optional<Sources>();
    std::vector<std::string> names;
    for (const auto& [known, unused] : body.entries) names.push_back(known);
    return Status::error(unknown_name("stage", name, names));
  }
  const Entry& entry = found->second;
  const bool all = rest.starts_with("[*].");
  const std::string_view path = rest.substr(all ? 4 : 1);
  const auto dot = all ? std::string_view::npos : path.find('.');
  const std::string_view port = dot == std::string_view::npos ? path : path.substr(dot + 1);
  if (!is_name(port)) return malformed(fmt::format("{}{}", name, rest));
  if (entry.unknown) return std::optional<Sources>();
  if (all) return all_copies(entry, port);
  if (dot == std::string_view::npos) {
    if (entry.repeated) return last_copy(body, entry, name, port);
    if (entry.instances.empty()) return std::optional<Sources>();
    return output(*entry.instances[0], std::string(port));
  }
  const auto index = entry.index.find(path.substr(0, dot));
  if (!entry.repeated) return errorf("'{}' is not repeated; write {}.{}", name, name, port);
  if (index == entry.index.end()) {
    return Status::error(
        unknown_name("instance", path.substr(0, dot), entry.keys, fmt::format("'{}'", name)));
  }
  if (index->second >= entry.instances.size()) return std::optional<Sources>();
  return output(*entry.instances[index->second], std::string(port));
}

Resolver::Found Resolver::all_copies(const Entry& entry, std::string_view port) {
  std::optional<Sources> all = Sources();
  for (const auto& instance : entry.instances) {
    FLOW_ASSIGN(const std::optional<Sources> some, output(*instance, std::string(port)));
    if (!some) return some;
    all->insert(all->end(), some->begin(), some->end());
    if (all->size() > kMaxSources) break;
  }
  return all;
}

// Goes through the copies in order, so that a chain of left-out copies is not followed recursively.
Resolver::Found Resolver::last_copy(const Body& body, const Entry& entry, std::string_view name,
                                    std::string_view port) {
  if (entry.carry.empty()) {
    return errorf("'{0}' is repeated; write {0}.INSTANCE.{1} or {0}[*].{1}", name, port);
  }
  const auto carry =
      std::find_if(entry.carry.begin(), entry.carry.end(), [&](const Binding& b) { return b.port == port; });
  if (entry.instances.empty() && carry != entry.carry.end()) {
    return resolve(body, *carry, fmt::format("stage '{}'", name));
  }
  Found last = errorf("'{}' has no copies, and '{}' is not carried", name, port);
  for (const auto& instance : entry.instances) last = output(*instance, std::string(port));
  return last;
}

Resolver::Found Resolver::output(const Instance& instance, const std::string& port) {
  const auto [place, fresh] = outputs_.try_emplace({&instance, port});
  if (!fresh) {
    if (place->second) return *place->second;
    return errorf("'{}.{}' leads back to itself", instance.name, port);
  }
  const Found found = find_output(instance, port);
  place->second = found;
  return found;
}

Resolver::Found Resolver::find_output(const Instance& instance, const std::string& port) {
  switch (instance.kind) {
    case Instance::Kind::unknown:
      return std::optional<Sources>();
    case Instance::Kind::left_out:
      return bypass(instance, port);
    case Instance::Kind::composite:
      return composite_output(instance, port);
    case Instance::Kind::stage:
      break;
  }
  const StageInfo& stage = *nodes_[static_cast<std::size_t>(instance.node)].stage;
  const int index = stage.output(port);
  if (index >= 0) return std::optional(Sources{{instance.node, index}});
  return Status::error(unknown_name("output", port, names_of(stage.outputs), instance.subject));
}

Resolver::Found Resolver::composite_output(const Instance& instance, const std::string& port) {
  for (const Binding& output : instance.body->outputs) {
    if (output.port == port) return resolve(*instance.body, output, "outputs");
  }
  return Status::error(unknown_name("output", port, ports_of(*instance.body), instance.subject));
}

Resolver::Found Resolver::bypass(const Instance& instance, const std::string& port) {
  const Binding* input = instance.input(port);
  if (!input) {
    return errorf("{} is left out and has no input '{}' that could be passed on", instance.subject, port);
  }
  return resolve(*instance.parent, *input, instance.subject);
}

std::optional<Sources> Resolver::input(const Instance& composite, const InputDecl& decl) {
  const auto [place, fresh] = inputs_.try_emplace({&composite, decl.name});
  if (!fresh) return place->second;
  const Binding* binding = composite.input(decl.name);
  std::optional<Sources> sources = Sources();
  if (binding) sources = resolve(*composite.parent, *binding, composite.subject);
  if (sources && !check_input(composite, decl, *sources, binding ? binding->where : composite.where)) {
    sources.reset();
  }
  return place->second = sources;
}

bool Resolver::check_input(const Instance& composite, const InputDecl& decl, const Sources& sources,
                           const Location& where) {
  if (!decl.type) return false;
  const auto fail = [&](std::string_view message) {
    errors_.add(where, composite.subject, fmt::format("input '{}' {}", decl.name, message));
    return false;
  };
  if (sources.empty() && composite.unsure && !composite.input(decl.name)) return false;
  if (sources.empty() && decl.arity != Arity::optional) return fail("is not connected");
  if (sources.size() > 1 && decl.arity != Arity::many) {
    return fail(fmt::format("takes one edge, found {}", sources.size()));
  }
  for (const Source& s : sources) {
    if (port(s).type->id == decl.type->id) continue;
    return fail(fmt::format("takes {}, but {} gives {}", decl.type->name, name(s), port(s).type->name));
  }
  return true;
}

}  // namespace flow::config
