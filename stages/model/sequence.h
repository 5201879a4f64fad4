// One text being read and continued. Everything that later passes need of earlier ones is here, so that
// sequences cannot touch each other and dropping the object is the reset.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "stages/engram/hash.h"
#include "stages/model/kv_cache.h"
#include "stages/text/tokenizer.h"

namespace dsv {

struct Sequence {
  Sequence(const ModelConfig& config, std::uint64_t number, std::uint64_t seed)
      : id(number), kv(config), random(seed) {}

  std::uint64_t id;
  std::string prompt_text;
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> generated;
  std::vector<double> log_probabilities;                            ///< of each generated or given token
  std::int64_t position = 0;                                        ///< tokens read so far
  std::shared_ptr<const std::vector<std::int64_t>> prefill_begins;  ///< see prefill.h; null: every position

  KvCache kv;
  EngramLookback engram;
  std::mt19937_64 random;
  std::optional<StreamDecoder> decoder;  ///< set by the stage that writes the text
  std::string text;                      ///< of the generated tokens

  using Clock = std::chrono::steady_clock;
  Clock::time_point started = Clock::now();
  std::optional<Clock::time_point> prompt_read;  ///< when the pass over the prompt was done
};

}  // namespace dsv
