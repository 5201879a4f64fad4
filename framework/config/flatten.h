// Unrolls composites and repeats into a tree of instances and a list of nodes.
#pragma once

#include <string>
#include <vector>

#include "framework/config/entry.h"
#include "framework/config/files.h"
#include "framework/config/overlay.h"
#include "framework/config/services.h"
#include "framework/config/tree.h"

namespace flow::config {

/// Limits against mistakes such as a repeat count that is a number of bytes.
inline constexpr std::size_t kMaxInstances = 100'000;
inline constexpr std::size_t kMaxCompositeDepth = 32;

/// The nested graph, and its stages as nodes that lack only their edges.
struct FlatGraph {
  Body root;
  std::vector<NodePlan> nodes;              ///< in the order of the files
  std::vector<const Instance*> of_node;     ///< the instance of each node
  std::vector<const Instance*> composites;  ///< in the order of the files
};

class Flattener {
 public:
  /// `values` is what composites see of the pipeline. All references must outlive the flattener.
  Flattener(Files& files, Patches& patches, const ServiceTable& services, const Scope& values, Errors& errors)
      : files_(files),
        patches_(patches),
        services_(services),
        values_(values),
        errors_(errors),
        types_(registered_packet_types()) {}

  /// `scope` holds the parameters of the pipeline.
  void run(const YamlNode& pipeline, const Scope& scope, FlatGraph& graph);

 private:
  /// One copy of an entry that is being made.
  struct Copy {
    std::string name;
    const Scope& scope;    // of the parent, with the variable of the repeat
    std::string variable;  // of the repeat; may be empty
    std::vector<Binding> carried;
  };

  void add_body(const YamlNode* stages, const Location& where, const Scope& scope, const std::string& prefix,
                Body& body);
  void add_entry(const YamlNode& node, const Scope& scope, const std::string& prefix, Body& body);
  void add_copies(const YamlNode& node, const YamlNode& repeat, const std::string& name, const Scope& scope,
                  Body& body, Entry& entry);
  std::unique_ptr<Instance> make_instance(const YamlNode& node, const Copy& copy, const Body& body);
  void make_stage(const YamlNode& node, const Copy& copy, Instance& made);
  void make_composite(const YamlNode& node, const Copy& copy, Instance& made);
  void make_composite_body(const YamlNode& node, const YamlNode& file, const Copy& copy, Instance& made);
  const YamlNode* load_composite(const YamlNode& graph, const std::string& name, const std::string& subject);
  Scope composite_scope(const YamlNode& node, const YamlNode& file, const Copy& copy, const Instance& made);

  Files& files_;
  Patches& patches_;
  const ServiceTable& services_;
  const Scope& values_;
  Errors& errors_;
  PacketTypes types_;
  FlatGraph* graph_ = nullptr;
  std::size_t instances_ = 0;
  bool full_ = false;
  std::vector<std::string> open_files_;  // the composites being unrolled, outermost first
};

}  // namespace flow::config
