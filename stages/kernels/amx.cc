// The AMX variant: the AVX-512 variant with fp4 products of 16 and more tokens on tiles of bytes.
//
// Tiles multiply the signed digits of 16 tokens with the signed codes of 16 rows; a block of 32 columns is
// one half-filled tile. The sums are the same integers as everywhere, so the bits are those of the other
// variants.
#include <immintrin.h>

#include <cstring>

#include "stages/kernels/kernels.h"
#include "stages/kernels/limbs.h"
#include "stages/kernels/variants.h"

// GCC 12 takes the undefined registers of its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni,amx-tile,amx-int8,avx2,fma,f16c")

namespace dsv::amx {
namespace {

// clang-format off
#include "stages/kernels/lanes_avx512.inc"
#include "stages/kernels/fp4_avx512.inc"
#include "stages/kernels/generic_fp4.inc"
#include "stages/kernels/generic_fp4_tiles.inc"
// clang-format on

constexpr int kTokens = 16;  // rows of a tile

/// The digits of one block of one token, [coarse, middle, fine][even columns, odd columns]: a row of a tile
/// each.
struct BlockDigits {
  std::int8_t digit[3][32];
};

// A prepared token: that of AVX-512, then the digits of each block.
std::int64_t prepared_bytes(std::int64_t cols) {
  return limb_prepared_bytes(cols) + (cols / 32 * std::int64_t{sizeof(BlockDigits)} + 63) / 64 * 64;
}

const BlockDigits* block_digits(const std::byte* prepared, std::int64_t cols) {
  return reinterpret_cast<const BlockDigits*>(prepared + limb_prepared_bytes(cols));
}

void prepare(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols, std::byte* prepared) {
  kAvx512Kernels.prepare(codes, scales, cols, prepared);
  const LimbGroup* groups = limb_groups(prepared, cols);
  auto* digits = const_cast<BlockDigits*>(block_digits(prepared, cols));
  for (std::int64_t b = 0; b < cols / 32; ++b) {
    const LimbGroup& g = groups[b / 4];
    for (int odd = 0; odd < 2; ++odd) {
      const std::int64_t at = b % 4 * 16;
      std::memcpy(digits[b].digit[0] + 16 * odd, g.coarse[odd] + at, 16);
      std::memcpy(digits[b].digit[1] + 16 * odd, g.middle[odd] + at, 16);
      std::memcpy(digits[b].digit[2] + 16 * odd, g.fine[odd] + at, 16);
    }
  }
}

/// The tile registers for as long as it lives: 0 .. 2 sums [token][row], 3 codes, 4 .. 6 digits [token].
class TileRegisters {
 public:
  TileRegisters() {
    Config config{};
    for (int i = 0; i < 7; ++i) {
      const bool codes = i == 3, digits = i > 3;
      config.rows[i] = codes ? 8 : kTokens;
      config.row_bytes[i] = digits ? 32 : 64;
    }
    _tile_loadconfig(&config);
  }
  ~TileRegisters() { _tile_release(); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

 private:
  struct alignas(64) Config {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
};

inline void store_signed_codes(Words packed, std::uint8_t* even, std::uint8_t* odd) {
  const __m512i table =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
  _mm512_store_si512(even, _mm512_permutexvar_epi8(packed, table));
  _mm512_store_si512(odd, _mm512_permutexvar_epi8(_mm512_srli_epi16(packed, 4), table));
}

/// Sums of one block with each digit, [token][row].
struct alignas(64) DigitSums {
  std::int32_t digit[3][kTokens][kTileRows];
};

inline void multiply(const TileCodes& codes, const BlockDigits* x, std::int64_t stride, bool fine,
                     DigitSums& out) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_loadd(3, codes, 64);
  _tile_loadd(4, x->digit[0], stride);
  _tile_dpbssd(0, 4, 3);
  _tile_loadd(5, x->digit[1], stride);
  _tile_dpbssd(1, 5, 3);
  _tile_stored(0, out.digit[0], 64);
  _tile_stored(1, out.digit[1], 64);
  if (!fine) return;
  _tile_zero(2);
  _tile_loadd(6, x->digit[2], stride);
  _tile_dpbssd(2, 6, 3);
  _tile_stored(2, out.digit[2], 64);
}

/// Sixteen tokens: where their groups and digits lie, `stride` bytes apart.
struct TokenTile {
  const LimbGroup* groups;
  const BlockDigits* digits;
  std::int64_t stride;
  const LimbGroup& group(int token, std::int64_t block) const {
    return *reinterpret_cast<const LimbGroup*>(reinterpret_cast<const std::byte*>(groups + block / 4) +
                                               token * stride);
  }
  bool has_fine(std::int64_t block) const {
    bool fine = false;
    for (int t = 0; t < kTokens; ++t) fine |= group(t, block).has_fine;
    return fine;
  }
};

inline __m512 block_values(const DigitSums& sums, int token, bool fine) {
  __m512i sum = _mm512_slli_epi32(_mm512_load_si512(sums.digit[0][token]), 8);
  sum = _mm512_add_epi32(sum, _mm512_load_si512(sums.digit[1][token]));
  if (fine) sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 3), _mm512_load_si512(sums.digit[2][token]));
  return _mm512_cvtepi32_ps(sum);
}

// Adds blocks [block, block + count) of sixteen tokens to sums [token][row].
inline void add_tokens(const TileScratch& s, const TokenTile& x, std::int64_t block, std::int64_t count,
                       float (*sums)[kTileRows]) {
  DigitSums products[2];
  __m512 sum[kTokens];
  for (int t = 0; t < kTokens; ++t) sum[t] = _mm512_load_ps(sums[t]);
  for (std::int64_t b = 0; b < count; ++b) {
    DigitSums& product = products[b % 2];
    multiply(s.codes[b], x.digits + block + b, x.stride, x.has_fine(block + b), product);
    const __m512 weight_scale = _mm512_load_ps(s.scales[b]);
    for (int t = 0; t < kTokens; ++t) {
      const LimbGroup& g = x.group(t, block + b);
      const __m512 scale = _mm512_mul_ps(weight_scale, _mm512_set1_ps(g.scale[(block + b) % 4 * 4]));
      sum[t] = _mm512_add_ps(sum[t], _mm512_mul_ps(block_values(product, t, g.has_fine), scale));
    }
  }
  for (int t = 0; t < kTokens; ++t) _mm512_store_ps(sums[t], sum[t]);
}

// Rows r .. r+count-1 of `tokens` tokens, a multiple of sixteen.
inline void tile_rows(const Fp4Matrix& w, const QuantizedActivations& x, std::int64_t r, std::int64_t count,
                      std::int64_t first, std::int64_t tokens, bf16* y, std::int64_t y_stride) {
  TileScratch s;
  std::memset(s.sums, 0, sizeof s.sums);
  const TileRows rows(w, r, count);
  const std::int64_t blocks = w.cols / 32, stride = x.prepared(1) - x.prepared(0);
  for (std::int64_t b = 0; b < blocks; b += kTileBlocks) {
    const std::int64_t n = blocks - b < kTileBlocks ? blocks - b : kTileBlocks;
    decode_scales(rows, b, n, s);
    decode_codes(rows, b, n, s, store_signed_codes);
    for (std::int64_t t = 0; t < tokens; t += kTokens) {
      const std::byte* prepared = x.prepared(first + t);
      add_tokens(s, {limb_groups(prepared, w.cols), block_digits(prepared, w.cols), stride}, b, n,
                 s.sums + t);
    }
  }
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < count; ++i) y[(first + t) * y_stride + r + i] = bf16(s.sums[t][i]);
  }
}

void fp4_product(const Fp4Matrix& w, const QuantizedActivations& x, Range rows, bf16* y,
                 std::int64_t y_stride) {
  if (x.tokens() == 1) return fp4_single_token(w, x, rows, y);
  const std::int64_t whole = x.tokens() / kTokens * kTokens;
  if (whole > 0) {
    const TileRegisters registers;
    for (std::int64_t first = 0; first < whole; first += kTileTokens) {
      const std::int64_t tokens = whole - first < kTileTokens ? whole - first : kTileTokens;
      for (std::int64_t r = rows.begin; r < rows.end; r += kTileRows) {
        const std::int64_t count = rows.end - r < kTileRows ? rows.end - r : kTileRows;
        tile_rows(w, x, r, count, first, tokens, y, y_stride);
      }
    }
  }
  fp4_tiles(w, x, {whole, x.tokens()}, rows, y, y_stride);
}

}  // namespace
}  // namespace dsv::amx

#pragma GCC pop_options

namespace dsv {

const Kernels kAmxKernels = [] {
  Kernels kernels = kAvx512Kernels;
  kernels.name = "amx";
  kernels.prepared_bytes = amx::prepared_bytes;
  kernels.prepare = amx::prepare;
  kernels.fp4_product = amx::fp4_product;
  return kernels;
}();

}  // namespace dsv
