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

constexpr int kTokens = 16;   // rows of a tile
constexpr int kRowTiles = 2;  // tiles of rows that share the digits of the tokens

/// One token in the form of tiles, behind its AVX-512 form: [coarse, middle][even columns, odd columns] of
/// each block, the fine digits of each block, and for each block its scale and whether the fine digits count.
struct TokenDigits {
  const std::int8_t (*digits)[2][32];
  const std::int8_t (*fine)[32];
  const float* scales;
  const std::uint8_t* has_fine;

  TokenDigits(const std::byte* prepared, std::int64_t cols) {
    const std::byte* p = prepared + limb_prepared_bytes(cols);
    const std::int64_t blocks = cols / 32;
    digits = reinterpret_cast<const std::int8_t(*)[2][32]>(p);
    fine = reinterpret_cast<const std::int8_t(*)[32]>(p + 64 * blocks);
    scales = reinterpret_cast<const float*>(p + 96 * blocks);
    has_fine = reinterpret_cast<const std::uint8_t*>(p + 100 * blocks);
  }
};

std::int64_t prepared_bytes(std::int64_t cols) {
  return limb_prepared_bytes(cols) + (101 * (cols / 32) + 63) / 64 * 64;
}

void prepare(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols, std::byte* prepared) {
  kAvx512Kernels.prepare(codes, scales, cols, prepared);
  const LimbGroup* groups = limb_groups(prepared, cols);
  std::byte* p = prepared + limb_prepared_bytes(cols);
  const std::int64_t blocks = cols / 32;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const LimbGroup& g = groups[b / 4];
    for (int odd = 0; odd < 2; ++odd) {
      const std::int64_t at = b % 4 * 16;
      std::memcpy(p + 64 * b + 16 * odd, g.coarse[odd] + at, 16);
      std::memcpy(p + 64 * b + 32 + 16 * odd, g.middle[odd] + at, 16);
      std::memcpy(p + 64 * blocks + 32 * b + 16 * odd, g.fine[odd] + at, 16);
    }
    std::memcpy(p + 96 * blocks + 4 * b, &g.scale[b % 4 * 4], sizeof(float));
    p[100 * blocks + b] = std::byte{g.has_fine};
  }
}

/// The tile registers for as long as it lives: 0 .. 3 sums [token][row], 4 and 5 codes of rows, 6 and 7
/// digits of tokens.
class TileRegisters {
 public:
  TileRegisters() {
    Config config{};
    for (int i = 0; i < 8; ++i) {
      const bool codes = i == 4 || i == 5, digits = i > 5;
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

/// Sums of one block, [digit][row tile][token][row].
struct alignas(64) DigitSums {
  std::int32_t digit[3][kRowTiles][kTokens][kTileRows];
};

/// Sixteen tokens, `stride` bytes apart.
struct TokenTile {
  TokenDigits first;
  std::int64_t stride;
  template <class T>
  const T* token(int t, const T* p) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(p) + t * stride);
  }
};

/// Scales of sixteen tokens and some blocks, gathered from their tokens; which fine digits count.
struct TokenScales {
  float scale[kTokens][kTileBlocks];
  std::uint8_t has_fine[kTokens][kTileBlocks];
  std::uint8_t any_fine[kTileBlocks];

  TokenScales(const TokenTile& x, std::int64_t block, std::int64_t count) {
    const auto mask = static_cast<__mmask16>((1u << count) - 1);
    __m128i any = _mm_setzero_si128();
    for (int t = 0; t < kTokens; ++t) {
      const __m128i fine = _mm_maskz_loadu_epi8(mask, x.token(t, x.first.has_fine + block));
      _mm512_storeu_ps(scale[t], _mm512_maskz_loadu_ps(mask, x.token(t, x.first.scales + block)));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(has_fine[t]), fine);
      any = _mm_or_si128(any, fine);
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(any_fine), any);
  }
};

// The intrinsics do not tell the compiler which memory the tile loads read.
inline void order_memory() {
  __asm__ volatile("" ::: "memory");
}

inline void multiply(const TileScratch* s, std::int64_t b, const TokenTile& x, std::int64_t block,
                     DigitSums& out) {
  _tile_loadd(4, s[0].codes[b], 64);
  _tile_loadd(5, s[1].codes[b], 64);
  _tile_loadd(6, x.first.digits[block][0], x.stride);
  _tile_loadd(7, x.first.digits[block][1], x.stride);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_dpbssd(0, 6, 4);
  _tile_dpbssd(1, 6, 5);
  _tile_dpbssd(2, 7, 4);
  _tile_dpbssd(3, 7, 5);
  _tile_stored(0, out.digit[0][0], 64);
  _tile_stored(1, out.digit[0][1], 64);
  _tile_stored(2, out.digit[1][0], 64);
  _tile_stored(3, out.digit[1][1], 64);
}

inline void multiply_fine(const TileScratch* s, std::int64_t b, const TokenTile& x, std::int64_t block,
                          DigitSums& out) {
  _tile_loadd(4, s[0].codes[b], 64);
  _tile_loadd(5, s[1].codes[b], 64);
  _tile_loadd(6, x.first.fine[block], x.stride);
  _tile_zero(0);
  _tile_zero(1);
  _tile_dpbssd(0, 6, 4);
  _tile_dpbssd(1, 6, 5);
  _tile_stored(0, out.digit[2][0], 64);
  _tile_stored(1, out.digit[2][1], 64);
}

// Adds the sums of one block, scaled, to s[tile].sums [token][row].
template <bool kFine>
inline void add_block(TileScratch* s, std::int64_t b, const TokenScales& x, std::int64_t first,
                      const DigitSums& product) {
  for (int tile = 0; tile < kRowTiles; ++tile) {
    const __m512 weight_scale = _mm512_load_ps(s[tile].scales[b]);
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) {
      const __m512i coarse = _mm512_slli_epi32(_mm512_load_si512(product.digit[0][tile][t]), 8);
      __m512i sum = _mm512_add_epi32(coarse, _mm512_load_si512(product.digit[1][tile][t]));
      if (kFine && x.has_fine[t][b] != 0) {
        sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 3), _mm512_load_si512(product.digit[2][tile][t]));
      }
      const __m512 scale = _mm512_mul_ps(weight_scale, _mm512_set1_ps(x.scale[t][b]));
      float* total = s[tile].sums[first + t];
      _mm512_store_ps(total,
                      _mm512_add_ps(_mm512_load_ps(total), _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale)));
    }
  }
}

// Adds blocks [block, block + count) of sixteen tokens. The tiles work one block ahead of the sums.
inline void add_tokens(TileScratch* s, const TokenTile& x, std::int64_t block, std::int64_t count,
                       std::int64_t first) {
  const TokenScales scales(x, block, count);
  DigitSums products[2];
  const auto add = [&](std::int64_t b) {
    DigitSums& product = products[b % 2];
    if (scales.any_fine[b] == 0) return add_block<false>(s, b, scales, first, product);
    multiply_fine(s, b, x, block + b, product);
    add_block<true>(s, b, scales, first, product);
  };
  order_memory();
  for (std::int64_t b = 0; b < count; ++b) {
    multiply(s, b, x, block + b, products[b % 2]);
    if (b > 0) add(b - 1);
  }
  add(count - 1);
}

// Rows r .. r+count-1 of `tokens` tokens, a multiple of sixteen.
inline void tile_rows(const Fp4Matrix& w, const QuantizedActivations& x, std::int64_t r, std::int64_t count,
                      std::int64_t first, std::int64_t tokens, bf16* y, std::int64_t y_stride) {
  TileScratch s[kRowTiles];
  for (TileScratch& tile : s) std::memset(tile.sums, 0, sizeof tile.sums);
  const std::int64_t low = count < kTileRows ? count : kTileRows, high = count - low;
  const TileRows rows[kRowTiles] = {{w, r, low}, {w, high > 0 ? r + low : r, high > 0 ? high : low}};
  const std::int64_t blocks = w.cols / 32, stride = x.prepared(1) - x.prepared(0);
  for (std::int64_t b = 0; b < blocks; b += kTileBlocks) {
    const std::int64_t n = blocks - b < kTileBlocks ? blocks - b : kTileBlocks;
    for (int tile = 0; tile < kRowTiles; ++tile) {
      decode_scales(rows[tile], b, n, s[tile]);
      decode_codes(rows[tile], b, n, s[tile], store_signed_codes);
    }
    for (std::int64_t t = 0; t < tokens; t += kTokens) {
      add_tokens(s, {TokenDigits(x.prepared(first + t), w.cols), stride}, b, n, t);
    }
  }
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < count; ++i) {
      y[(first + t) * y_stride + r + i] = bf16(s[i / kTileRows].sums[t][i % kTileRows]);
    }
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
      constexpr std::int64_t kRows = kRowTiles * kTileRows;
      for (std::int64_t r = rows.begin; r < rows.end; r += kRows) {
        const std::int64_t count = rows.end - r < kRows ? rows.end - r : kRows;
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
