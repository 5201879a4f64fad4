// Packets: immutable, reference-counted values that travel along the edges of a graph.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "framework/core/recycler.h"

namespace flow {

/// Identity of a packet: the source invocation it descends from, and the turn of a feedback loop.
/// A stage with several inputs runs on packets of equal stamps.
struct Stamp {
  std::uint64_t sequence = 0;
  std::uint64_t step = 0;
  friend auto operator<=>(const Stamp&, const Stamp&) = default;
};

/// A named array inside a packet, as `--tap` writes it. dtype is a safetensors name ("BF16", "F32", "I32",
/// ...).
struct TensorRef {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// What the framework knows of a packet type. Specialize with FLOW_PACKET_TYPE, or by hand to add
/// `static std::vector<TensorRef> tensors(const T&)`, which makes the type tappable, and with that
/// `static constexpr bool result = true`.
template <class T>
struct PacketTraits;

/// Run-time description of a packet type; one object per type.
struct PacketType {
  std::string_view name;
  std::type_index id;
  /// Arrays of a value; empty function when the type has none to show.
  std::function<std::vector<TensorRef>(const void*)> tensors;
  /// What a run is for: comparisons of runs look at packets of such types.
  bool result = false;
};

template <class T>
const PacketType& packet_type() {
  static const PacketType type = [] {
    PacketType t{PacketTraits<T>::name, typeid(T), {}, requires {requires PacketTraits<T>::result;
  }
};
if constexpr (requires(const T& v) { PacketTraits<T>::tensors(v); }) {
  t.tensors = [](const void* v) { return PacketTraits<T>::tensors(*static_cast<const T*>(v)); };
}
return t;
}
();
return type;
}

/// One value in flight. Copying shares the value.
class Packet {
 public:
  Packet() = default;
  template <class T>
  static Packet of(std::shared_ptr<const T> value, Stamp stamp) {
    Packet p;
    p.value_ = std::move(value);
    p.type_ = &packet_type<T>();
    p.stamp_ = stamp;
    return p;
  }
  explicit operator bool() const { return value_ != nullptr; }
  const PacketType& type() const { return *type_; }
  Stamp stamp() const { return stamp_; }
  const void* data() const { return value_.get(); }
  template <class T>
  const T& get() const {
    return *static_cast<const T*>(value_.get());
  }
  template <class T>
  std::shared_ptr<const T> share() const {
    return std::static_pointer_cast<const T>(value_);
  }

 private:
  std::shared_ptr<const void> value_;
  const PacketType* type_ = nullptr;
  Stamp stamp_;
};

/// The packets of one invocation, [input port][edge of the port].
using Inputs = StepVector<StepVector<Packet>>;

}  // namespace flow

/// Names a packet type for YAML, messages and drawings: FLOW_PACKET_TYPE(dsv::TokenIds, "TokenIds").
/// Use at global scope, in the header that declares the type.
#define FLOW_PACKET_TYPE(Type, Name)               \
  template <>                                      \
  struct flow::PacketTraits<Type> {                \
    static constexpr std::string_view name = Name; \
  }
