// Row ids equal the reference's, for any chunking of a sequence.
#include <gmock/gmock.h>

#include <random>

#include "stages/engram/hash.h"
#include "tests/stages/engram_golden.h"

namespace dsv {
namespace {

using Rows = std::vector<EngramRowIds>;

/// Hashes a sequence in chunks of `chunk` tokens.
Rows hash_in_chunks(const EngramHasher& hasher, std::span<const std::int32_t> ids,
                    std::span<const std::uint8_t> dead, std::size_t chunk) {
  Rows all(hasher.layout().layers.size());
  EngramLookback lookback;
  for (std::size_t at = 0; at < ids.size(); at += chunk) {
    const std::size_t size = std::min(chunk, ids.size() - at);
    const auto rows =
        hasher.hash(ids.subspan(at, size), dead.empty() ? dead : dead.subspan(at, size), lookback);
    EXPECT_TRUE(rows.ok()) << rows.status().message();
    for (std::size_t layer = 0; layer < all.size(); ++layer)
      all[layer].insert(all[layer].end(), (*rows)[layer].begin(), (*rows)[layer].end());
  }
  return all;
}

/// A hasher over `params` whose tokens are classes themselves.
EngramHasher identity_hasher(const EngramParams& params) {
  TokenMap map;
  map.classes = static_cast<std::int32_t>(params.compressed_vocab);
  for (std::int32_t id = 0; id < map.classes; ++id) map.class_of.push_back(id);
  auto layout = EngramLayout::derive(params);
  EXPECT_TRUE(layout.ok()) << layout.status().message();
  auto hasher = EngramHasher::make(std::make_shared<EngramLayout>(*layout), std::make_shared<TokenMap>(map));
  EXPECT_TRUE(hasher.ok()) << hasher.status().message();
  return *std::move(hasher);
}

const EngramParams kSmall{{1, 4, 6}, 3, 2, 50, 100, 2, {}};

TEST(EngramHash, EqualsTheReferenceOnTheReleasedLayout) {
  const auto layout = EngramLayout::derive(released_engram());
  const auto map = build_token_map(*golden_tokenizer(kReleasedTokenizer));
  ASSERT_TRUE(layout.ok() && map.ok());
  const auto hasher =
      EngramHasher::make(std::make_shared<EngramLayout>(*layout), std::make_shared<TokenMap>(*map));
  ASSERT_TRUE(hasher.ok()) << hasher.status().message();
  const boost::json::value golden = golden_json("tests/golden/engram-hash.json");
  ASSERT_EQ(golden.at("cases").as_array().size(), 4u);
  EXPECT_EQ(map->class_of[2], golden.at("pad_compressed").as_int64());
  for (const auto& item : golden.at("cases").as_array()) {
    const std::vector<std::int32_t> ids = ids_of(item.at("ids"));
    std::vector<std::uint8_t> dead;
    if (const auto* alive = item.at("mask").if_array())
      for (const auto& flag : *alive) dead.push_back(!flag.as_bool());
    for (const std::size_t chunk : {ids.size(), std::size_t{1}, std::size_t{3}}) {
      const Rows rows = hash_in_chunks(*hasher, ids, dead, chunk);
      for (std::size_t layer = 0; layer < rows.size(); ++layer) {
        EngramRowIds expected;
        const std::string key = std::to_string(layout->layers[layer].layer_id);
        for (const auto& token : item.at("hash_ids").at(key).as_array())
          for (const auto& row : token.as_array()) expected.push_back(row.as_int64());
        EXPECT_EQ(rows[layer], expected) << "layer " << key << ", chunks of " << chunk;
      }
    }
  }
}

TEST(EngramHash, IsTheSameForAnyChunking) {
  const EngramHasher hasher = identity_hasher(kSmall);
  std::mt19937 random(7);
  std::vector<std::int32_t> ids(64);
  std::vector<std::uint8_t> dead(64);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 100);
  for (std::uint8_t& mark : dead) mark = random() % 5 == 0;
  const Rows whole = hash_in_chunks(hasher, ids, dead, ids.size());
  for (const std::size_t chunk : {1, 2, 3, 5, 7, 63})
    EXPECT_EQ(hash_in_chunks(hasher, ids, dead, chunk), whole) << chunk;
}

TEST(EngramHash, ATokenInAnImageHidesEverythingBeforeIt) {
  const EngramHasher hasher = identity_hasher(kSmall);
  const std::vector<std::uint8_t> dead{0, 1, 0, 0, 0};
  const Rows one = hash_in_chunks(hasher, std::vector<std::int32_t>{10, 11, 12, 13, 14}, dead, 5);
  const Rows other = hash_in_chunks(hasher, std::vector<std::int32_t>{50, 51, 12, 13, 14}, dead, 5);
  const auto columns = hasher.layout().columns();
  for (std::size_t layer = 0; layer < one.size(); ++layer) {
    EXPECT_NE(EngramRowIds(one[layer].begin(), one[layer].begin() + columns),
              EngramRowIds(other[layer].begin(), other[layer].begin() + columns));
    EXPECT_EQ(EngramRowIds(one[layer].begin() + columns, one[layer].end()),
              EngramRowIds(other[layer].begin() + columns, other[layer].end()));
  }
}

TEST(EngramHash, ADeadTokenAndWhatIsNotThereHashAsThePadToken) {
  const EngramHasher hasher = identity_hasher(kSmall);
  const Rows dead = hash_in_chunks(hasher, std::vector<std::int32_t>{10}, std::vector<std::uint8_t>{1}, 1);
  const Rows pads = hash_in_chunks(hasher, std::vector<std::int32_t>{2, 2, 2}, {}, 3);
  const auto columns = static_cast<std::size_t>(hasher.layout().columns());
  for (std::size_t layer = 0; layer < dead.size(); ++layer)
    for (std::size_t token = 0; token < 3; ++token)
      for (std::size_t column = 0; column < columns; ++column)
        EXPECT_EQ(pads[layer][token * columns + column], dead[layer][column]);
}

TEST(EngramHash, TwoSequencesDoNotTouchEachOther) {
  const EngramHasher hasher = identity_hasher(kSmall);
  const std::vector<std::int32_t> a{1, 2, 3, 4, 5, 6}, b{90, 80, 70, 60, 50, 40};
  EngramLookback lookback_a, lookback_b;
  Rows mixed_a(3);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto rows = hasher.hash({&a[i], 1}, {}, lookback_a);
    ASSERT_TRUE(rows.ok());
    for (std::size_t layer = 0; layer < 3; ++layer)
      mixed_a[layer].insert(mixed_a[layer].end(), (*rows)[layer].begin(), (*rows)[layer].end());
    ASSERT_TRUE(hasher.hash({&b[i], 1}, {}, lookback_b).ok());
  }
  EXPECT_EQ(mixed_a, hash_in_chunks(hasher, a, {}, a.size()));
}

TEST(EngramHash, RowsLieInTheirColumnsBucket) {
  const EngramHasher hasher = identity_hasher(kSmall);
  std::vector<std::int32_t> ids(500);
  std::mt19937 random(9);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 100);
  const Rows rows = hash_in_chunks(hasher, ids, {}, ids.size());
  for (std::size_t l = 0; l < rows.size(); ++l) {
    const EngramLayerLayout& layer = hasher.layout().layers[l];
    ASSERT_EQ(rows[l].size(), ids.size() * layer.primes.size());
    for (std::size_t i = 0; i < rows[l].size(); ++i) {
      const std::size_t column = i % layer.primes.size();
      ASSERT_GE(rows[l][i], layer.offsets[column]);
      ASSERT_LT(rows[l][i], layer.offsets[column] + layer.primes[column]);
    }
  }
}

TEST(EngramHash, RefusesIdsOutsideTheVocabularyAndKeepsTheLookback) {
  const EngramHasher hasher = identity_hasher(kSmall);
  EngramLookback lookback;
  ASSERT_TRUE(hasher.hash(std::vector<std::int32_t>{5, 6}, {}, lookback).ok());
  const auto before = lookback.recent;
  EXPECT_EQ(hasher.hash(std::vector<std::int32_t>{7, 100}, {}, lookback).status().message(),
            "token id 100 at 1 of the chunk is outside the vocabulary of 100");
  EXPECT_EQ(hasher.hash(std::vector<std::int32_t>{-1}, {}, lookback).status().message(),
            "token id -1 at 0 of the chunk is outside the vocabulary of 100");
  EXPECT_EQ(
      hasher.hash(std::vector<std::int32_t>{1, 2}, std::vector<std::uint8_t>{0}, lookback).status().message(),
      "1 dead marks for 2 tokens");
  EXPECT_EQ(lookback.recent, before);
}

TEST(EngramHash, RefusesAMapThatDoesNotFitTheConfiguration) {
  const auto layout = std::make_shared<EngramLayout>(*EngramLayout::derive(kSmall));
  auto map = std::make_shared<TokenMap>(TokenMap{{0, 1, 0}, 2});
  EXPECT_EQ(EngramHasher::make(layout, map).status().message(),
            "the tokenizer has 2 token classes; engram_compressed_vocab_size is 100");
  EngramParams params = kSmall;
  params.compressed_vocab = 2;
  params.pad_id = 3;
  EXPECT_EQ(EngramHasher::make(std::make_shared<EngramLayout>(*EngramLayout::derive(params)), map)
                .status()
                .message(),
            "engram_pad_id is 3; the tokenizer has 3 ids");
}

}  // namespace
}  // namespace dsv
