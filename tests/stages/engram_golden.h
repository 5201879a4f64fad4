// Engram parameters and golden JSON of the Engram tests.
#pragma once

#include "stages/engram/layout.h"
#include "tests/stages/tokenizer_golden.h"

namespace dsv {

inline std::vector<std::int64_t> int64s_of(const boost::json::value& list) {
  return boost::json::value_to<std::vector<std::int64_t>>(list);
}

/// The Engram parameters of a flat config file of the source tree.
inline EngramParams engram_of(const std::string& path) {
  const boost::json::value config = golden_json(path);
  const auto number = [&](const char* key) { return config.at(key).to_number<std::int64_t>(); };
  return {int64s_of(config.at("engram_layer_ids")),
          number("engram_max_ngram_size"),
          number("engram_n_heads"),
          number("engram_vocab_size"),
          number("engram_compressed_vocab_size"),
          number("engram_pad_id"),
          int64s_of(config.at("engram_num_embeddings"))};
}

inline EngramParams released_engram() {
  return engram_of("tests/golden/released/inference/config.json");
}

}  // namespace dsv
