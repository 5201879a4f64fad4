// Follows references to the outputs of nodes: through composites, repeats and stages that are left out.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/errors.h"
#include "framework/config/flatten.h"

namespace flow::config {

/// An output of a node.
struct Source {
  int node = 0;
  int output = 0;
  bool feedback = false;  ///< some reference on the way is marked
};
using Sources = std::vector<Source>;

/// Longest way of one reference through composites and left-out stages.
inline constexpr int kMaxHops = 500;
/// Most outputs that all references of a graph may stand for: `[*]` in a repeated stage makes their number
/// quadratic.
inline constexpr std::size_t kMaxSources = 2'000'000;

class Resolver {
 public:
  Resolver(const FlatGraph& graph, Errors& errors) : nodes_(graph.nodes), errors_(errors) {}

  /// What `ref`, written in `body` by `subject`, stands for. Empty: nothing is connected. nullopt: unknown,
  /// the error is reported.
  std::optional<Sources> resolve(const Body& body, const Ref& ref, std::string_view subject);
  /// All of a binding, in order.
  std::optional<Sources> resolve(const Body& body, const Binding& binding, std::string_view subject);
  /// What a composite's declared input stands for; checks it once.
  std::optional<Sources> input(const Instance& composite, const InputDecl& decl);

  const PortInfo& port(const Source& source) const;
  std::string name(const Source& source) const;  ///< "node.port"

 private:
  // Absent: there is no such thing (a message); nullopt inside: unknown.
  using Found = Result<std::optional<Sources>>;

  Found find(const Body& body, std::string_view text);
  Found find_input(const Body& body, std::string_view name);
  Found find_in_entry(const Body& body, std::string_view name, std::string_view rest);
  Found all_copies(const Entry& entry, std::string_view port);
  Found last_copy(const Body& body, const Entry& entry, std::string_view name, std::string_view port);
  Found output(const Instance& instance, const std::string& port);
  Found find_output(const Instance& instance, const std::string& port);
  Found composite_output(const Instance& instance, const std::string& port);
  Found bypass(const Instance& instance, const std::string& port);
  bool spend(const Sources& sources, const Ref& ref, std::string_view subject);
  bool check_input(const Instance& composite, const InputDecl& decl, const Sources& sources,
                   const Location& where);

  const std::vector<NodePlan>& nodes_;
  Errors& errors_;
  // nullopt while it is being found: coming back to it is a circle.
  std::map<std::pair<const Instance*, std::string>, std::optional<Found>> outputs_;
  std::map<std::pair<const Instance*, std::string>, std::optional<Sources>> inputs_;
  int hops_ = 0;
  std::size_t spent_ = 0;  // of kMaxSources
};

}  // namespace flow::config
