// Port and service constants: declared once in a stage, used to describe it and to look values up.
#pragma once

#include <string_view>

#include "framework/core/packet.h"

namespace flow {

/// How many edges an input takes.
enum class Arity {
  one,       ///< exactly one edge
  optional,  ///< one edge or none
  many       ///< any number of edges, at least one
};

/// An input that must be connected. Bodies read it with `context.in(kPort)`.
template <class T>
struct In {
  std::string_view name, doc;
};
/// An input that may stay unconnected; `context.in` gives a pointer, null when unconnected.
template <class T>
struct OptionalIn {
  std::string_view name, doc;
};
/// An input with one edge or more; `context.in` gives a vector in edge order.
template <class T>
struct ManyIn {
  std::string_view name, doc;
};
/// An output; `context.emit(kPort, value)`.
template <class T>
struct Out {
  std::string_view name, doc;
};
/// A service that a stage (or another service) uses; `opening.service(kUse)`.
template <class T>
struct Uses {
  std::string_view name, doc;
};

struct PortInfo {
  std::string name, doc;
  const PacketType* type = nullptr;
  Arity arity = Arity::one;
};

struct UseInfo {
  std::string name, doc;
  std::type_index type = typeid(void);
};

}  // namespace flow
