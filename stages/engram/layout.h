// Where Engram's n-gram hashes land: bucket sizes, offsets and multipliers of every Engram layer, derived
// from the configuration.
//
// A table has one bucket per n-gram size (2..max_ngram) and head, in that order; a *column* is one of
// them. Bucket sizes are distinct primes, the next unused one >= bucket_floor each time, counted over all
// layers in the order of layer_ids.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/status.h"

namespace dsv {

/// What the layout is derived from; the config keys in brackets.
struct EngramParams {
  std::vector<std::int64_t> layer_ids;      ///< layers that own a table [engram_layer_ids]
  std::int64_t max_ngram = 0;               ///< longest n-gram, >= 2 [engram_max_ngram_size]
  std::int64_t n_heads = 0;                 ///< buckets per n-gram size [engram_n_heads]
  std::int64_t bucket_floor = 0;            ///< smallest bucket allowed [engram_vocab_size]
  std::int64_t compressed_vocab = 0;        ///< token classes [engram_compressed_vocab_size]
  std::int64_t pad_id = 0;                  ///< token id that stands for "nothing" [engram_pad_id]
  std::vector<std::int64_t> declared_rows;  ///< rows of each table per the config [engram_num_embeddings]
};

/// The table of one layer.
struct EngramLayerLayout {
  std::int64_t layer_id = 0;
  std::vector<std::int64_t> primes;       ///< [columns] bucket sizes
  std::vector<std::int64_t> offsets;      ///< [columns] first row of each bucket
  std::vector<std::int64_t> multipliers;  ///< [max_ngram] odd, one per look-back distance
  std::int64_t rows = 0;                  ///< sum of primes
};

/// The tables of all Engram layers, in the order of EngramParams::layer_ids.
struct EngramLayout {
  EngramParams params;
  std::vector<EngramLayerLayout> layers;

  /// Columns of one layer: (max_ngram - 1) * n_heads.
  std::int64_t columns() const { return (params.max_ngram - 1) * params.n_heads; }

  /// Derives the layout. Fails on parameters that make no sense or overflow.
  static flow::Result<EngramLayout> derive(EngramParams params);

  /// Fails, naming the layer and both numbers, when the derived rows are not the declared ones.
  flow::Status verify() const;
};

/// True when n is prime; exact for all 64-bit numbers.
bool is_prime(std::uint64_t n);

}  // namespace dsv
