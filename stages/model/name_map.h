// Hash tables by tensor name. A checkpoint has some hundred thousand names, far more than the processor's
// caches hold: flat tables touch memory once for a name that is not there and twice for one that is.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <string>
#include <string_view>

namespace dsv {

struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};
/// Owns its names.
template <class T>
using NameMap = boost::unordered_flat_map<std::string, T, NameHash, std::equal_to<>>;
/// Its names belong to what it points to.
template <class T>
using NameViewMap = boost::unordered_flat_map<std::string_view, T, NameHash, std::equal_to<>>;

}  // namespace dsv
