#include "stages/model/prefill.h"

#include <algorithm>

namespace dsv {

Prefill prefill_of(std::string_view name) {
  return name == "full" ? Prefill::full : name == "bounded" ? Prefill::bounded : Prefill::exact;
}

std::vector<std::int64_t> prefill_begins(const ModelConfig& config, Prefill prefill, std::int64_t tokens) {
  const auto layers = static_cast<std::size_t>(config.n_layers);
  std::vector<std::int64_t> begins(layers + 1, 0);
  if (prefill == Prefill::full) return begins;
  std::int64_t needed = prefill == Prefill::exact ? 1 : config.window_size;
  for (std::size_t l = layers; l > 0; --l) {
    begins[l] = std::max<std::int64_t>(0, tokens - needed);
    if (config.role(static_cast<int>(l) - 1) == LayerRole::Full) break;
    if (prefill == Prefill::exact) needed += config.window_size - 1;
  }
  if (prefill == Prefill::bounded) begins[layers] = std::max<std::int64_t>(0, tokens - 1);
  return begins;
}

std::uint64_t pass_bytes(const ModelConfig& c, std::int64_t tokens) {
  constexpr std::int64_t kQuantized = 8;  // bytes of a quantized column in the form that products read
  const std::int64_t dim = c.dim, shared = std::int64_t{c.moe_inter_dim} * c.n_shared_experts;
  const std::int64_t streams = 3 * c.hc_mult * dim * 2, rows = 2 * c.n_activated_experts * dim * 2,
                     normalized = 2 * dim * 2 + kQuantized * dim, expert = (3 * 2 + kQuantized) * shared;
  return static_cast<std::uint64_t>(tokens * (streams + rows + normalized + expert));
}

}  // namespace dsv
