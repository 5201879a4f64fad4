// The graph after unrolling, while it is still nested and its edges are still text.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/plan.h"

namespace flow::config {

/// One end of an edge as written by its consumer, ${...} already replaced.
struct Ref {
  std::string text;  ///< "node.port", "node.instance.port", "node[*].port" or "$input", maybe with '?'
  Location where;
  bool feedback = false;
  bool unknown = false;  ///< the text has an error that is reported
};

/// What is connected to one input.
struct Binding {
  std::string port;
  Location where;
  std::vector<Ref> refs;
};

struct Body;

/// A stage or a composite, or one copy of a repeated one.
struct Instance {
  enum class Kind {
    stage,
    composite,
    left_out,  ///< by `when` or `remove`: passes its inputs on
    unknown    ///< has an error; what refers to it is not judged
  };
  Kind kind = Kind::unknown;
  std::string name;     ///< full name
  std::string subject;  ///< for messages: "stage 'layers.0.hash' (EngramHash)"
  Location where;
  const Body* parent = nullptr;
  std::vector<Binding> inputs;
  bool unsure = false;         ///< an input has an error in its name: it may be any of those that lack
  int node = -1;               ///< of a stage: index among the nodes
  std::unique_ptr<Body> body;  ///< of a composite

  const Binding* input(std::string_view port) const {
    for (const Binding& b : inputs) {
      if (b.port == port) return &b;
    }
    return nullptr;
  }
};

/// One entry of `stages:`: a single instance, or the copies that `repeat` makes.
struct Entry {
  bool repeated = false;
  bool unknown = false;           ///< it is not known how many copies there are
  std::vector<Binding> carry;     ///< of the first copy; every other one takes the outputs of its predecessor
  std::vector<std::string> keys;  ///< of a repeat: the last part of each instance's name
  std::map<std::string, std::size_t, std::less<>> index;  ///< of each key
  std::vector<std::unique_ptr<Instance>> instances;
};

/// A declared input of a composite.
struct InputDecl {
  std::string name;
  const PacketType* type = nullptr;  ///< null after an error
  Arity arity = Arity::one;
};

/// The stages of the pipeline or of one composite.
struct Body {
  const Instance* owner = nullptr;  ///< the composite; null for the pipeline
  bool unsure = false;              ///< an entry has an error in its name
  std::map<std::string, Entry, std::less<>> entries;
  std::vector<InputDecl> inputs;
  std::vector<Binding> outputs;  ///< each with one Ref
};

}  // namespace flow::config
