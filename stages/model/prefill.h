// Which positions of a prompt each layer has to compute.
//
// Layers after the last KV source see earlier tokens through their sliding windows alone, so what the last
// token and the tokens after the prompt need of them is a triangle at the prompt's end: the stream before
// layer l at the last window_size + (window_size - 1) * (layers above l) positions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "stages/model/config.h"

namespace dsv {

enum class Prefill : std::uint8_t {
  full,     ///< every position in every layer
  exact,    ///< what can reach the last position's logits and the windows of later tokens; the same bits
  bounded,  ///< after the last KV source only the last window_size positions: an approximation
};

Prefill prefill_of(std::string_view name);

/// First position of a prompt of `tokens` tokens that the stream before each layer, and after the last one,
/// has to hold: n_layers + 1 values, 0 up to and including the last KV source (everywhere without one).
/// Source: MODEL "Attention"; `bounded` is the model card's bounded prefill.
std::vector<std::int64_t> prefill_begins(const ModelConfig& config, Prefill prefill, std::int64_t tokens);

/// About what a pass over `tokens` tokens holds at its widest point beside weights and caches: the stream
/// before and after a sub-block and a normalized copy, the rows of the routed experts twice (as they are
/// computed, and in one piece), and the shared expert with its quantized inputs.
std::uint64_t pass_bytes(const ModelConfig& config, std::int64_t tokens);

}  // namespace dsv
