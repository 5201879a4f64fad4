// The part of numpy's random module that Engram's multipliers were drawn with: SeedSequence, PCG64 and
// Generator.integers, equal to numpy bit for bit.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace dsv {

/// numpy.random.SeedSequence(entropy).generate_state(n, uint64) for a non-negative integer entropy.
std::vector<std::uint64_t> seed_sequence(std::uint64_t entropy, int n);

/// numpy.random.Generator(PCG64(seed)), also known as default_rng(seed).
class NumpyGenerator {
 public:
  explicit NumpyGenerator(std::uint64_t seed);

  /// Next 64 or 32 random bits; a 32-bit draw takes half of a 64-bit one and keeps the other half.
  std::uint64_t next_uint64();
  std::uint32_t next_uint32();

  /// Uniform integer of [0, range], both ends included.
  std::uint64_t bounded(std::uint64_t range);

  /// integers(low, high, size=n, dtype=int64): uniform in [low, high). Requires low < high.
  std::vector<std::int64_t> integers(std::int64_t low, std::int64_t high, int n);

 private:
  std::uint64_t bounded_64(std::uint64_t range);
  std::uint32_t bounded_32(std::uint32_t range);

  unsigned __int128 state_ = 0;
  unsigned __int128 increment_ = 0;
  bool has_half_ = false;
  std::uint32_t half_ = 0;
};

}  // namespace dsv
