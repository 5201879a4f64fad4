// Which page leaves a full expert cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dsv {

/// What a pass is for.
enum class Phase : std::uint8_t { prefill, decode };

/// How one expert of a layer was used. Times count the uses of all experts of the cache.
struct ExpertUse {
  std::uint64_t last = 0;         ///< time of its last use; 0 = never
  std::uint64_t last_decode = 0;  ///< the same for passes that decode
  std::uint64_t count = 0;        ///< uses, older ones halved again and again
};

/// Whether a page with use `a` leaves before one with use `b`. A strict weak order.
using LeavesFirst = bool (*)(const ExpertUse& a, const ExpertUse& b);

/// lru: the one not used for longest. frequency: the one used least often. decode_first: one that no decoding
/// pass has used, so that a prompt cannot push out what decoding needs; else the one not decoded for longest.
const std::vector<std::string>& cache_policies();
/// `name` is one of these.
LeavesFirst cache_policy(const std::string& name);

}  // namespace dsv
