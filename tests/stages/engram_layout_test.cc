// Bucket sizes, offsets and multipliers of the Engram tables.
#include <gmock/gmock.h>

#include <numeric>
#include <set>

#include "stages/engram/layout.h"
#include "tests/stages/engram_golden.h"

namespace dsv {
namespace {

TEST(EngramLayout, EqualsTheReferencePrimesAndMultipliersOfTheReleasedLayout) {
  const boost::json::value golden = golden_json("tests/golden/engram-hash.json");
  const auto layout = EngramLayout::derive(released_engram());
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  for (const EngramLayerLayout& layer : layout->layers) {
    const std::string key = std::to_string(layer.layer_id);
    EXPECT_EQ(layer.primes, int64s_of(golden.at("primes").at(key))) << key;
    EXPECT_EQ(layer.multipliers, int64s_of(golden.at("multipliers").at(key))) << key;
  }
}

TEST(EngramLayout, DerivesTheDeclaredRowsOfEveryKnownCheckpoint) {
  for (const char* config : {"tests/golden/released", "tests/golden/a/checkpoint", "pipelines/demo"}) {
    const auto layout = EngramLayout::derive(engram_of(std::string(config) + "/inference/config.json"));
    ASSERT_TRUE(layout.ok()) << layout.status().message();
    EXPECT_TRUE(layout->verify().ok()) << config << ": " << layout->verify().message();
  }
}

TEST(EngramLayout, UsesEveryPrimeOnceAcrossLayersInIncreasingOrder) {
  const auto layout = EngramLayout::derive({{0, 3, 7}, 3, 5, 10, 50, 0, {}});
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  std::vector<std::int64_t> primes;
  for (const auto& layer : layout->layers) {
    ASSERT_EQ(layer.primes.size(), 10u);
    ASSERT_EQ(layer.multipliers.size(), 3u);
    EXPECT_EQ(layer.rows, std::accumulate(layer.primes.begin(), layer.primes.end(), std::int64_t{0}));
    EXPECT_EQ(layer.offsets.back() + layer.primes.back(), layer.rows);
    primes.insert(primes.end(), layer.primes.begin(), layer.primes.end());
  }
  EXPECT_EQ(primes.front(), 11);
  EXPECT_TRUE(std::is_sorted(primes.begin(), primes.end()));
  EXPECT_EQ(std::set<std::int64_t>(primes.begin(), primes.end()).size(), primes.size());
}

TEST(EngramLayout, MultipliersAreOddAndKeepProductsBelowTwoToThe63) {
  const auto layout = EngramLayout::derive(released_engram());
  ASSERT_TRUE(layout.ok());
  for (const auto& layer : layout->layers)
    for (const std::int64_t multiplier : layer.multipliers) {
      EXPECT_EQ(multiplier % 2, 1);
      EXPECT_LT(static_cast<unsigned __int128>(multiplier) * 99091, static_cast<unsigned __int128>(1) << 63);
    }
}

TEST(EngramLayout, NamesTheLayerWhoseDeclaredRowsAreWrong) {
  EngramParams params = released_engram();
  params.declared_rows[1] += 1;
  const auto layout = EngramLayout::derive(params);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->verify().message(),
            "engram_num_embeddings gives layer 14 384016683 rows; its buckets add up to 384016682");
  params.declared_rows.pop_back();
  EXPECT_EQ(EngramLayout::derive(params)->verify().message(),
            "engram_num_embeddings has 1 entries for 2 Engram layers");
}

TEST(EngramLayout, RefusesParametersOutOfRange) {
  const struct {
    EngramParams params;
    const char* message;
  } cases[] = {
      {{{1}, 1, 2, 10, 5, 0, {}}, "engram_max_ngram_size is 1; expected 2 to 65536"},
      {{{1}, 2, 0, 10, 5, 0, {}}, "engram_n_heads is 0; expected 1 to 65536"},
      {{{1}, 2, 1, 0, 5, 0, {}}, "engram_vocab_size is 0; expected 1 to 1099511627776"},
      {{{1}, 2, 1, 10, 0, 0, {}}, "engram_compressed_vocab_size is 0; expected 1 to 2147483647"},
      {{{1}, 2, 1, 10, 5, -1, {}}, "engram_pad_id is -1; expected 0 to 2147483647"},
      {{{1, -4}, 2, 1, 10, 5, 0, {}}, "a layer of engram_layer_ids is -4; expected 0 to 1048576"},
      {{{1, 2}, 300, 300, 10, 5, 0, {}},
       "2 Engram layers of 299 n-gram sizes and 300 heads make more than 65536 buckets"},
  };
  for (const auto& item : cases)
    EXPECT_EQ(EngramLayout::derive(item.params).status().message(), item.message);
}

TEST(EngramLayout, PrimalityIsExact) {
  std::vector<bool> composite(20000);
  for (std::size_t n = 2; n < composite.size(); ++n) {
    EXPECT_EQ(is_prime(n), !composite[n]) << n;
    for (std::size_t multiple = 2 * n; multiple < composite.size(); multiple += n) composite[multiple] = true;
  }
  EXPECT_FALSE(is_prime(0));
  EXPECT_FALSE(is_prime(1));
  EXPECT_TRUE(is_prime(18446744073709551557u));  // the largest below 2^64
  EXPECT_FALSE(is_prime(18446744073709551556u));
  EXPECT_FALSE(is_prime(3825123056546413051u));           // passes for the bases 2 to 23
  EXPECT_FALSE(is_prime(4294967291ull * 4294967279ull));  // product of two large primes
}

}  // namespace
}  // namespace dsv
