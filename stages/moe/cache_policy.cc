#include "stages/moe/cache_policy.h"

#include <algorithm>
#include <tuple>

namespace dsv {
namespace {

bool lru(const ExpertUse& a, const ExpertUse& b) {
  return a.last < b.last;
}
bool frequency(const ExpertUse& a, const ExpertUse& b) {
  return std::tie(a.count, a.last) < std::tie(b.count, b.last);
}
bool decode_first(const ExpertUse& a, const ExpertUse& b) {
  return std::tie(a.last_decode, a.last) < std::tie(b.last_decode, b.last);
}

const std::vector<LeavesFirst> kPolicies = {lru, frequency, decode_first};

}  // namespace

const std::vector<std::string>& cache_policies() {
  static const std::vector<std::string> names = {"lru", "frequency", "decode_first"};
  return names;
}

LeavesFirst cache_policy(const std::string& name) {
  const auto& names = cache_policies();
  return kPolicies.at(static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin()));
}

}  // namespace dsv
