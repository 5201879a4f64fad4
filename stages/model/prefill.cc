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

}  // namespace dsv
