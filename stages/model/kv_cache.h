// What attention keeps of the tokens it has seen, in the formats the model stores them in.
//
// Sizes of the released geometry: a window row is 512 + 16 bytes, a compressed position 256 + 32, an index
// key 64 + 4.
#pragma once

#include <cstdint>
#include <vector>

#include "stages/kernels/kernels.h"
#include "stages/model/config.h"

namespace dsv {

/// Quantized rows of one width, addressed by position: codes and scales apart.
class QuantizedRows {
 public:
  QuantizedRows() = default;
  QuantizedRows(std::int64_t code_bytes, std::int64_t scale_bytes)
      : code_bytes_(code_bytes), scale_bytes_(scale_bytes) {}

  std::int64_t size() const { return size_; }
  void resize(std::int64_t rows);
  /// Makes room for `rows` rows, so that growing to them allocates nothing.
  void reserve(std::int64_t rows);
  std::uint8_t* codes(std::int64_t row) { return codes_.data() + row * code_bytes_; }
  std::uint8_t* scales(std::int64_t row) { return scales_.data() + row * scale_bytes_; }
  const std::uint8_t* codes(std::int64_t row) const { return codes_.data() + row * code_bytes_; }
  const std::uint8_t* scales(std::int64_t row) const { return scales_.data() + row * scale_bytes_; }
  std::int64_t row_bytes() const { return code_bytes_ + scale_bytes_; }

 private:
  std::int64_t code_bytes_ = 0, scale_bytes_ = 0, size_ = 0;
  std::vector<std::uint8_t> codes_, scales_;
};

/// The cache of one layer of one sequence.
struct LayerCache {
  /// Last window_size positions, fp8 with a scale for 32 columns; position p is in row p mod window_size.
  QuantizedRows window;
  /// Positions [window_begin, window_end) were written without a break; earlier ones are not there.
  std::int64_t window_begin = 0, window_end = 0;
  /// One row for each completed group (Full layers), fp4 with E4M3 scales for 16 columns.
  QuantizedRows compressed;
  /// Index key of each completed group (Full layers), fp4 with E8M0 scales for 32 columns.
  QuantizedRows index_keys;
  /// Tokens of the group that is still open (Full layers of ratio > 1): fp32 [token][head_dim].
  std::vector<float> open_kv, open_score;
};

/// All layers of one sequence, and which layer wrote the shared index-key slot last (the reference's
/// behaviour, used only with index_keys: reference_slot).
struct KvCache {
  explicit KvCache(const ModelConfig& config);
  /// Makes room for `tokens` tokens. Untouched room costs no memory.
  void reserve(const ModelConfig& config, std::int64_t tokens);
  std::vector<LayerCache> layers;
  int index_slot = -1;
};

/// Bytes that a sequence of `tokens` tokens keeps at most.
std::uint64_t kv_cache_bytes(const ModelConfig& config, std::int64_t tokens);

}  // namespace dsv
