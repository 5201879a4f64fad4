#include "framework/config/overlay.h"

#include <algorithm>

#include "framework/core/names.h"

namespace flow::config {
namespace {

const std::vector<std::string> kPipelineKeys = {"doc",     "base",   "plugins",  "params",
                                                "runtime", "values", "services", "stages"};

// "layers.3.attention" -> "layers.*.attention".
std::string generalized(std::string_view name) {
  std::string result;
  while (true) {
    const auto dot = std::min(name.find('.'), name.size());
    const bool number = dot > 0 && name[0] >= '0' && name[0] <= '9';
    result += number ? "*" : name.substr(0, dot);
    if (dot == name.size()) return result;
    result += '.';
    name.remove_prefix(dot + 1);
  }
}

void merge_entry(YamlNode& entry, const YamlNode& fields) {
  YamlNode parts, rest;
  for (const YamlMember& m : fields.members) {
    const bool part = m.key == "in" || m.key == "options" || m.key == "params" || m.key == "services";
    (part ? parts : rest).members.push_back(m);
  }
  merge_maps(entry, parts, 1);
  merge_maps(entry, rest, 0);
}

// Merges one overlay into the pipeline.
class OverlayMerger {
 public:
  OverlayMerger(PipelineSource& base, Errors& errors) : base_(base), errors_(errors) {
    const YamlNode* stages = base.root.find("stages");
    for (const YamlNode& entry : stages ? stages->items : std::vector<YamlNode>()) {
      if (const YamlNode* name = entry.find("name")) stage_names_.insert(name->text);
    }
  }

  void merge(const YamlNode& overlay) {
    check_keys(overlay, kPipelineKeys, "", errors_);
    for (const char* section : {"params", "values", "services", "runtime"}) merge_section(overlay, section);
    if (overlay.find("base")) take_name(overlay);
    if (const YamlNode* plugins = overlay.find("plugins")) append("plugins", plugins->items);
    if (const YamlNode* stages = overlay.find("stages")) merge_stages(*stages);
  }

 private:
  // A file with a base is a pipeline of its own.
  void take_name(const YamlNode& overlay) {
    base_.root.where = overlay.where;
    if (const YamlNode* doc = overlay.find("doc")) merge_maps(base_.root, map_of("doc", *doc), 0);
  }
  static YamlNode map_of(std::string_view key, const YamlNode& value) {
    YamlNode map;
    map.kind = YamlNode::Kind::map;
    map.members.push_back({std::string(key), value.where, value});
    return map;
  }
  void merge_section(const YamlNode& overlay, std::string_view name) {
    const YamlNode* patch = overlay.find(name);
    if (!patch) return;
    if (!patch->is_map()) {
      errors_.add(patch->where, name, fmt::format("expected a map, found {}", patch->shown()));
      return;
    }
    YamlNode section = map_of(name, *patch);
    if (name == "params") expand_defaults(section.members[0].value);
    merge_maps(base_.root, section, 2);
  }

  // `params: {n: 5}` stands for `params: {n: {default: 5}}`.
  static void expand_defaults(YamlNode& params) {
    for (YamlMember& m : params.members) {
      if (m.value.is_map() || m.value.is_null()) continue;
      YamlNode decl;
      decl.kind = YamlNode::Kind::map;
      decl.where = m.value.where;
      decl.members.push_back({"default", m.where, std::move(m.value)});
      m.value = std::move(decl);
    }
  }

  void append(const std::string& section, const std::vector<YamlNode>& items) {
    YamlMember* member = base_.root.member(section);
    if (!member) {
      base_.root.members.push_back({section, base_.root.where, {}});
      member = &base_.root.members.back();
      member->value.kind = YamlNode::Kind::list;
      member->value.where = base_.root.where;
    }
    member->value.items.insert(member->value.items.end(), items.begin(), items.end());
  }

  void merge_stages(const YamlNode& stages) {
    for (const YamlMember& m : stages.members) merge_stage(m.key, m.where, m.value);
    for (const YamlNode& entry : stages.items) {
      const YamlNode* name = entry.find("name");
      if (!name) {
        errors_.add(entry.where, "", "a stage needs a name");
        continue;
      }
      YamlNode fields = entry;
      std::erase_if(fields.members, [](const YamlMember& m) { return m.key == "name"; });
      merge_stage(name->text, name->where, fields);
    }
  }

  // A plain name that the pipeline lacks is a new stage; anything else changes what is there.
  void merge_stage(const std::string& name, const Location& where, const YamlNode& fields) {
    if (!fields.is_map()) {
      errors_.add(fields.where, fmt::format("stage '{}'", name),
                  fmt::format("expected a map, found {}", fields.shown()));
      return;
    }
    if (fields.members.empty()) {
      errors_.add(where, fmt::format("stage '{}'", name), "nothing is changed; a name alone says nothing");
      return;
    }
    const bool complete = fields.find("stage") || fields.find("graph");
    if (!complete || !is_name(name) || stage_names_.contains(name)) {
      base_.patches.add(name, fields, where);
      return;
    }
    YamlNode entry = fields;
    YamlNode text;
    text.kind = YamlNode::Kind::scalar;
    text.text = name;
    text.where = where;
    entry.members.push_back({"name", where, text});
    append("stages", {entry});
  }

  PipelineSource& base_;
  Errors& errors_;
  std::set<std::string> stage_names_;
};

// Loads a file after the files that it is based on; false after an error.
bool load_with_bases(const Result<std::string>& path, const Location& named_at, Files& files, Errors& errors,
                     std::vector<const YamlNode*>& chain) {
  if (!path.ok()) {
    errors.add(named_at, "", path.status());
    return false;
  }
  const auto document = files.load(*path);
  if (!document.ok()) errors.add(named_at, "", document.status());
  if (!document.ok() || !*document) return false;
  if (std::find(chain.begin(), chain.end(), *document) != chain.end()) {
    errors.add(named_at, "base", fmt::format("'{}' is based on itself", *path));
    return false;
  }
  chain.insert(chain.begin(), *document);
  const YamlNode* base = (*document)->find("base");
  if (!base) return true;
  if (!base->is_scalar()) {
    errors.add(base->where, "base", fmt::format("expected the name of a file, found {}", base->shown()));
    return false;
  }
  return load_with_bases(files.find_base(base->text, *path), base->where, files, errors, chain);
}

// Whether a file changes stages instead of listing them.
bool is_overlay(const YamlNode& root) {
  const YamlNode* stages = root.find("stages");
  if (!stages) {
    return std::any_of(root.members.begin(), root.members.end(), [](const YamlMember& m) {
      return m.key == "params" || m.key == "values" || m.key == "services" || m.key == "runtime";
    });
  }
  return stages->is_map() &&
         std::none_of(stages->members.begin(), stages->members.end(),
                      [](const YamlMember& m) { return m.value.find("stage") || m.value.find("graph"); });
}

// False when the file cannot be run as a pipeline at all.
bool check_base(const YamlNode& root, Errors& errors) {
  for (const YamlMember& m : root.members) {
    if (m.key != "inputs" && m.key != "outputs") continue;
    errors.add(m.where, "", "this file is a composite, it runs only as a part of a pipeline");
    return false;
  }
  if (is_overlay(root)) {
    errors.add(root.where, "",
               fmt::format("this file is an overlay, it runs only after the pipeline that it changes, for "
                           "example: dsv41-run greedy {}",
                           root.where.file));
    return false;
  }
  check_keys(root, kPipelineKeys, "", errors);
  check_doc(root, "", errors);
  return true;
}

}  // namespace

void Patches::add(const std::string& pattern, const YamlNode& fields, const Location& where) {
  patches_.push_back({pattern, fields, where});
}

void Patches::add_swap(const std::string& pattern, const std::string& type) {
  YamlNode value;
  value.kind = YamlNode::Kind::scalar;
  value.text = type;
  value.where = {fmt::format("--swap {}={}", pattern, type)};
  YamlNode fields;
  fields.kind = YamlNode::Kind::map;
  fields.members.push_back({"stage", value.where, value});
  patches_.push_back({pattern, fields, value.where, true});
}

std::optional<YamlNode> Patches::apply(const std::string& name, const YamlNode& entry) {
  if (patches_.empty()) return std::nullopt;
  names_.insert(name);
  names_.insert(generalized(name));
  std::optional<YamlNode> result;
  for (Patch& patch : patches_) {
    if (!matches(patch.pattern, name) || (patch.swap && entry.find("graph"))) continue;
    patch.used = true;
    if (!result) result = entry;
    merge_entry(*result, patch.fields);
  }
  return result;
}

void Patches::report_unused(Errors& errors) const {
  const std::vector<std::string> names(names_.begin(), names_.end());
  for (const Patch& patch : patches_) {
    if (patch.used) continue;
    errors.add(patch.where, "", unknown_name("stage", patch.pattern, names));
  }
}

std::optional<PipelineSource> read_pipeline(const LoadRequest& request, Files& files, Errors& errors) {
  if (request.files.empty()) {
    errors.add({}, "", "no pipeline is given");
    return std::nullopt;
  }
  std::vector<const YamlNode*> documents;
  for (const std::string& name : request.files) {
    std::vector<const YamlNode*> chain;
    const bool whole = load_with_bases(files.find_pipeline(name), {}, files, errors, chain);
    if (!whole && documents.empty()) return std::nullopt;
    documents.insert(documents.end(), chain.begin(), chain.end());
  }
  PipelineSource source{*documents[0], {}};
  if (!check_base(source.root, errors)) return std::nullopt;
  for (std::size_t i = 1; i < documents.size(); ++i) OverlayMerger(source, errors).merge(*documents[i]);
  for (const auto& [pattern, type] : request.swaps) source.patches.add_swap(pattern, type);
  return source;
}

}  // namespace flow::config
