#include "stages/engram/numpy_random.h"

#include <bit>
#include <limits>

namespace dsv {

namespace {

// Constants of numpy's SeedSequence and of the PCG-64 generator (XSL-RR, 128-bit state).
constexpr int kPoolSize = 4;
constexpr std::uint32_t kInitA = 0x43B0D7E5, kMultA = 0x931E8875;
constexpr std::uint32_t kInitB = 0x8B51F9DD, kMultB = 0x58F38DED;
constexpr std::uint32_t kMixLeft = 0xCA01F9DD, kMixRight = 0x4973F715;
constexpr unsigned __int128 kPcgMultiplier =
    static_cast<unsigned __int128>(2549297995355413924u) << 64 | 4865540595714422341u;

/// A hash whose constant moves on with every value.
class RollingHash {
 public:
  RollingHash(std::uint32_t init, std::uint32_t multiplier) : constant_(init), multiplier_(multiplier) {}

  std::uint32_t operator()(std::uint32_t value) {
    value ^= constant_;
    constant_ *= multiplier_;
    value *= constant_;
    return value ^ value >> 16;
  }

 private:
  std::uint32_t constant_, multiplier_;
};

std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t mixed = kMixLeft * x - kMixRight * y;
  return mixed ^ mixed >> 16;
}

std::array<std::uint32_t, kPoolSize> entropy_pool(std::uint64_t entropy) {
  std::array<std::uint32_t, kPoolSize> pool{static_cast<std::uint32_t>(entropy),
                                            static_cast<std::uint32_t>(entropy >> 32)};
  RollingHash hash(kInitA, kMultA);
  for (std::uint32_t& word : pool) word = hash(word);
  for (int from = 0; from < kPoolSize; ++from)
    for (int to = 0; to < kPoolSize; ++to)
      if (from != to) pool[to] = mix(pool[to], hash(pool[from]));
  return pool;
}

}  // namespace

std::vector<std::uint64_t> seed_sequence(std::uint64_t entropy, int n) {
  const std::array<std::uint32_t, kPoolSize> pool = entropy_pool(entropy);
  RollingHash hash(kInitB, kMultB);
  std::vector<std::uint64_t> words;
  for (int i = 0; i < n; ++i) {
    const std::uint64_t low = hash(pool[2 * i % kPoolSize]);
    words.push_back(low | std::uint64_t{hash(pool[(2 * i + 1) % kPoolSize])} << 32);
  }
  return words;
}

NumpyGenerator::NumpyGenerator(std::uint64_t seed) {
  const std::vector<std::uint64_t> words = seed_sequence(seed, 4);
  const auto wide = [&](int i) { return static_cast<unsigned __int128>(words[i]) << 64 | words[i + 1]; };
  increment_ = wide(2) << 1 | 1;
  state_ = (increment_ + wide(0)) * kPcgMultiplier + increment_;
}

std::uint64_t NumpyGenerator::next_uint64() {
  state_ = state_ * kPcgMultiplier + increment_;
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

std::uint32_t NumpyGenerator::next_uint32() {
  has_half_ = !has_half_;
  if (!has_half_) return half_;
  const std::uint64_t both = next_uint64();
  half_ = static_cast<std::uint32_t>(both >> 32);
  return static_cast<std::uint32_t>(both);
}

std::uint64_t NumpyGenerator::bounded(std::uint64_t range) {
  constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();
  if (range == 0) return 0;
  if (range < kMax32) return bounded_32(static_cast<std::uint32_t>(range));
  if (range == kMax32) return next_uint32();
  if (range == std::numeric_limits<std::uint64_t>::max()) return next_uint64();
  return bounded_64(range);
}

// Lemire's method: the high half of random * count, rejecting low halves below 2^bits mod count.

std::uint64_t NumpyGenerator::bounded_64(std::uint64_t range) {
  const std::uint64_t count = range + 1, rejected = (0 - count) % count;
  unsigned __int128 product = 0;
  do {
    product = static_cast<unsigned __int128>(next_uint64()) * count;
  } while (static_cast<std::uint64_t>(product) < rejected);
  return static_cast<std::uint64_t>(product >> 64);
}

std::uint32_t NumpyGenerator::bounded_32(std::uint32_t range) {
  const std::uint32_t count = range + 1, rejected = (0 - count) % count;
  std::uint64_t product = 0;
  do {
    product = std::uint64_t{next_uint32()} * count;
  } while (static_cast<std::uint32_t>(product) < rejected);
  return static_cast<std::uint32_t>(product >> 32);
}

std::vector<std::int64_t> NumpyGenerator::integers(std::int64_t low, std::int64_t high, int n) {
  const auto base = static_cast<std::uint64_t>(low);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - 1 - base;
  std::vector<std::int64_t> values;
  for (int i = 0; i < n; ++i) values.push_back(static_cast<std::int64_t>(base + bounded(range)));
  return values;
}

}  // namespace dsv
