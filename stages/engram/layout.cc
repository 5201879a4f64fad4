#include "stages/engram/layout.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <utility>

#include "stages/engram/numpy_random.h"

namespace dsv {

using flow::errorf;
using flow::Result;
using flow::Status;

namespace {

constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kSeedPerLayer = 10007;
constexpr std::int64_t kMaxBuckets = 1 << 16;        // of all layers; each costs a search for a prime
constexpr std::int64_t kMaxBucketFloor = 1ll << 40;  // keeps sums of buckets far from 2^63
constexpr std::int64_t kMaxLayerId = 1 << 20;

std::uint64_t power_mod(std::uint64_t base, std::uint64_t exponent, std::uint64_t modulus) {
  unsigned __int128 result = 1, factor = base % modulus;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = result * factor % modulus;
    factor = factor * factor % modulus;
  }
  return static_cast<std::uint64_t>(result);
}

/// Miller-Rabin: whether n = odd * 2^twos + 1 behaves as a prime to `base`.
bool passes(std::uint64_t n, std::uint64_t base, std::uint64_t odd, int twos) {
  unsigned __int128 x = power_mod(base, odd, n);
  if (x == 1 || x == n - 1) return true;
  for (int i = 1; i < twos; ++i) {
    x = x * x % n;
    if (x == n - 1) return true;
  }
  return false;
}

Status in_range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return Status();
  return errorf("{} is {}; expected {} to {}", name, value, low, high);
}

Status check(const EngramParams& p) {
  FLOW_TRY(in_range("engram_max_ngram_size", p.max_ngram, 2, kMaxBuckets));
  FLOW_TRY(in_range("engram_n_heads", p.n_heads, 1, kMaxBuckets));
  FLOW_TRY(in_range("engram_vocab_size", p.bucket_floor, 1, kMaxBucketFloor));
  FLOW_TRY(in_range("engram_compressed_vocab_size", p.compressed_vocab, 1,
                    std::numeric_limits<std::int32_t>::max()));
  FLOW_TRY(in_range("engram_pad_id", p.pad_id, 0, std::numeric_limits<std::int32_t>::max()));
  for (const std::int64_t id : p.layer_ids)
    FLOW_TRY(in_range("a layer of engram_layer_ids", id, 0, kMaxLayerId));
  const std::int64_t layers = static_cast<std::int64_t>(p.layer_ids.size());
  if (layers > kMaxBuckets || layers * (p.max_ngram - 1) > kMaxBuckets / p.n_heads)
    return errorf("{} Engram layers of {} n-gram sizes and {} heads make more than {} buckets", layers,
                  p.max_ngram - 1, p.n_heads, kMaxBuckets);
  return Status();
}

/// Odd numbers whose product with any class stays below 2^63.
std::vector<std::int64_t> draw_multipliers(const EngramParams& p, std::int64_t layer_id) {
  const std::int64_t bound = std::max<std::int64_t>(1, kMaxInt64 / p.compressed_vocab / 2);
  NumpyGenerator generator(kSeedPerLayer * static_cast<std::uint64_t>(layer_id));
  std::vector<std::int64_t> multipliers = generator.integers(0, bound, static_cast<int>(p.max_ngram));
  for (std::int64_t& multiplier : multipliers) multiplier = multiplier * 2 + 1;
  return multipliers;
}

}  // namespace

bool is_prime(std::uint64_t n) {
  constexpr std::uint64_t kBases[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};  // decide all n < 2^64
  for (const std::uint64_t base : kBases)
    if (n % base == 0) return n == base;
  if (n < 2) return false;
  const int twos = std::countr_zero(n - 1);
  return std::all_of(std::begin(kBases), std::end(kBases),
                     [&](std::uint64_t base) { return passes(n, base, (n - 1) >> twos, twos); });
}

Result<EngramLayout> EngramLayout::derive(EngramParams params) {
  FLOW_TRY(check(params));
  EngramLayout layout;
  layout.params = std::move(params);
  const EngramParams& p = layout.params;
  std::int64_t candidate = p.bucket_floor;
  for (const std::int64_t layer_id : p.layer_ids) {
    EngramLayerLayout layer;
    layer.layer_id = layer_id;
    layer.multipliers = draw_multipliers(p, layer_id);
    for (std::int64_t column = 0; column < layout.columns(); ++column) {
      while (!is_prime(static_cast<std::uint64_t>(candidate))) ++candidate;
      layer.primes.push_back(candidate);
      layer.offsets.push_back(layer.rows);
      layer.rows += candidate++;
    }
    layout.layers.push_back(std::move(layer));
  }
  return layout;
}

Status EngramLayout::verify() const {
  if (params.declared_rows.size() != layers.size())
    return errorf("engram_num_embeddings has {} entries for {} Engram layers", params.declared_rows.size(),
                  layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (params.declared_rows[i] != layers[i].rows)
      return errorf("engram_num_embeddings gives layer {} {} rows; its buckets add up to {}",
                    layers[i].layer_id, params.declared_rows[i], layers[i].rows);
  return Status();
}

}  // namespace dsv
