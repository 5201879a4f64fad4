// The AMX variant: the AVX-512 variant with the fp8 products, and the fp4 products of several tokens, on
// tiles of bf16.
//
// The fp8 products take the order of sums that tiles have (kernels.h), which no other variant shares. The fp4
// product is the same to the bit as in every variant. There, one tile instruction multiplies a block of 32
// columns of 16 tokens with that of 16 rows. Its fp32 sums of a block are exact, in whatever order the tile
// adds: codes are multiples of 2^-1 up to 6, activations of at least 2^-3 are multiples of 2^-6 up to 448, so
// 32 products are multiples of 2^-7 that sum to less than 2^17: 24 bits. Smaller activations are multiplied
// apart (multiples of 2^-10 below 2^5) and added to the first sum by the same instruction, which rounds once,
// as the other variants do when they convert their integer to fp32. Tiles take subnormal numbers as zero;
// with the scales that the quantizer makes, at least 2^-22, none of these is one.
#include <immintrin.h>

#include <cstring>

#include "stages/kernels/kernels.h"
#include "stages/kernels/limbs.h"
#include "stages/kernels/variants.h"

// GCC 12 takes the undefined registers of its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni,amx-tile,amx-bf16,avx2,fma,f16c")

namespace dsv::amx {
namespace {

// clang-format off
#include "stages/kernels/lanes_avx512.inc"
#include "stages/kernels/fp4_avx512.inc"
#include "stages/kernels/generic_fp4.inc"
#include "stages/kernels/generic_fp4_tiles.inc"
// clang-format on

constexpr int kTokens = 16;   // rows of a tile of activations
constexpr int kRowTiles = 2;  // tiles of weight rows that share the activations
constexpr int kChunkBlocks =
    8;  // blocks decoded at once: they and those of 16 tokens fit the first-level cache
constexpr std::int64_t kFewestTokens = 4;

/// One token in the form of tiles, behind its AVX-512 form: of each block value * scale of the activations
/// from 2^-3 and of those below; for each block whether there are any below.
struct TokenValues {
  const bf16 (*values)[2][32];
  const std::uint8_t* has_low;

  TokenValues(const std::byte* prepared, std::int64_t cols) {
    const std::byte* p = prepared + limb_prepared_bytes(cols);
    values = reinterpret_cast<const bf16(*)[2][32]>(p);
    has_low = reinterpret_cast<const std::uint8_t*>(p + 4 * cols);
  }
};

/// An odd number of cache lines, so that the rows of a tile do not compete for the same lines of the cache.
std::int64_t prepared_bytes(std::int64_t cols) {
  const std::int64_t bytes = limb_prepared_bytes(cols) + 4 * cols + cols / 32;
  return (bytes + 63) / 64 * 64 | 64;
}

void prepare(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols, std::byte* prepared) {
  kAvx512Kernels.prepare(codes, scales, cols, prepared);
  const LimbGroup* groups = limb_groups(prepared, cols);
  const TokenValues token(prepared, cols);
  const F16 zero = set1(0.0f), smallest = set1(0x1p-3f), unit = set1(kE4m3Unit);
  for (std::int64_t b = 0; b < cols / 32; ++b) {
    const LimbGroup& g = groups[b / 4];
    const F16 scale = set1(g.scale[b % 4 * 4] * (g.has_fine ? 0x1p10f : 0x1p7f));
    const Pair raw = decode_e4m3(codes + 32 * b);
    const Pair all{raw.even * unit, raw.odd * unit};
    const auto upper = [&](const F16& x) { return if_less(max(x, zero - x), smallest, zero, x); };
    const Pair high{upper(all.even), upper(all.odd)}, low{all.even - high.even, all.odd - high.odd};
    auto* values = const_cast<bf16(*)[32]>(token.values[b]);
    store_pairs(values[0], {high.even * scale, high.odd * scale});
    store_pairs(values[1], {low.even * scale, low.odd * scale});
    const_cast<std::uint8_t*>(token.has_low)[b] = any(shift_left<1>(bits(low.even) | bits(low.odd)));
  }
}

/// The tile registers for as long as it lives; tile i has rows[i] rows of bytes[i] bytes.
class TileRegisters {
 public:
  template <int N>
  TileRegisters(const std::uint8_t (&rows)[N], const std::uint8_t (&bytes)[N]) {
    Config config{};
    for (int i = 0; i < N; ++i) {
      config.rows[i] = rows[i];
      config.row_bytes[i] = bytes[i];
    }
    order_memory();
    _tile_loadconfig(&config);
  }
  ~TileRegisters() { _tile_release(); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

  // The intrinsics do not tell the compiler which memory the tile loads read.
  static void order_memory() { __asm__ volatile("" ::: "memory"); }

 private:
  struct alignas(64) Config {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
};

/// Decoded weights of some blocks of sixteen rows, and the running sums of all tokens with them.
struct alignas(64) WeightTiles {
  std::uint32_t pairs[kChunkBlocks][16][kTileRows];  ///< two columns as bf16
  float scales[kTileBlocks][kTileRows];
  float sums[kTileTokens][kTileRows];

  /// Blocks [block, block + count) of `all`.
  void decode(const TileRows& rows, std::int64_t block, std::int64_t count, std::int64_t all) {
    if (block % kTileBlocks == 0) {
      decode_scales(rows, block, all - block < kTileBlocks ? all - block : kTileBlocks, scales);
    }
    // Of each double word its byte `i`: the nibbles go to the bottom of two 16-bit words, which look up a
    // value.
    const __m512i nibbles = _mm512_set1_epi64(0x0024'0020'0004'0000), next = _mm512_set1_epi8(8);
    const __m512i table = _mm512_broadcast_i64x4(_mm256_setr_epi16(
        0, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0, 0, short(0xbf00), short(0xbf80),
        short(0xbfc0), short(0xc000), short(0xc040), short(0xc080), short(0xc0c0)));
    read_codes(rows, block, count, [&](Words w, std::int64_t b, int word) {
      __m512i at = nibbles;
#pragma GCC unroll 16
      for (int i = 0; i < 4; ++i, at = _mm512_add_epi8(at, next)) {
        const __m512i values = _mm512_permutexvar_epi16(_mm512_multishift_epi64_epi8(at, w), table);
        _mm512_store_si512(pairs[b][4 * word + i], values);
      }
    });
  }
};

/// Up to sixteen tokens, `stride` bytes apart.
struct TokenTile {
  TokenValues first;
  std::int64_t stride, count;
  template <class T>
  const T* token(std::int64_t t, const T* p) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(p) + t * stride);
  }
};

/// Which of the blocks [block, block + count) have low values, for any of the tokens.
struct LowBlocks {
  std::uint8_t any[kChunkBlocks];
  LowBlocks(const TokenTile& x, std::int64_t block, std::int64_t count) {
    const auto mask = static_cast<__mmask16>((1u << count) - 1);
    __m128i found = _mm_setzero_si128();
    for (std::int64_t t = 0; t < x.count; ++t)
      found = _mm_or_si128(found, _mm_maskz_loadu_epi8(mask, x.token(t, x.first.has_low + block)));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(any), found);
  }
};

/// Sums of some blocks, [row tile][block][token][row].
struct alignas(64) BlockSums {
  float sums[kRowTiles][kChunkBlocks][kTokens][kTileRows];
};

// Tiles 0 and 1: sums [token][row], 2 and 3: codes [pair of columns][row], 4: values [token][column].
inline void multiply(const WeightTiles* w, std::int64_t b, const TokenTile& x, std::int64_t block, bool low,
                     BlockSums& out) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_loadd(2, w[0].pairs[b], 64);
  _tile_loadd(3, w[1].pairs[b], 64);
  _tile_loadd(4, x.first.values[block][0], x.stride);
  _tile_dpbf16ps(0, 4, 2);
  _tile_dpbf16ps(1, 4, 3);
  if (low) {
    _tile_loadd(4, x.first.values[block][1], x.stride);
    _tile_dpbf16ps(0, 4, 2);
    _tile_dpbf16ps(1, 4, 3);
  }
  _tile_stored(0, out.sums[0][b], 64);
  _tile_stored(1, out.sums[1][b], 64);
}

// Adds the scaled sums of `count` blocks to those of tokens t .. t+15. A scaled sum is exact, so a fused and
// a separate multiplication agree.
inline void add_sums(WeightTiles& w, const float (*blocks)[kTokens][kTileRows], std::int64_t block,
                     std::int64_t count, std::int64_t t) {
  __m512 total[kTokens];
#pragma GCC unroll 16
  for (int i = 0; i < kTokens; ++i) total[i] = _mm512_load_ps(w.sums[t + i]);
  for (std::int64_t b = 0; b < count; ++b) {
    const __m512 scale = _mm512_load_ps(w.scales[(block + b) % kTileBlocks]);
#pragma GCC unroll 16
    for (int i = 0; i < kTokens; ++i)
      total[i] = _mm512_fmadd_ps(_mm512_load_ps(blocks[b][i]), scale, total[i]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kTokens; ++i) _mm512_store_ps(w.sums[t + i], total[i]);
}

// Blocks [block, block + count) of tokens t .. t+15.
inline void add_blocks(WeightTiles* w, const TokenTile& x, std::int64_t block, std::int64_t count,
                       std::int64_t t, BlockSums& products) {
  const LowBlocks low(x, block, count);
  TileRegisters::order_memory();
  for (std::int64_t b = 0; b < count; ++b) multiply(w, b, x, block + b, low.any[b] != 0, products);
  for (int i = 0; i < kRowTiles; ++i) add_sums(w[i], products.sums[i], block, count, t);
}

// Rows r .. r+count-1 of `tokens` tokens, whole tiles of them but for one.
inline void tile_product(const Fp4Matrix& w, const QuantizedActivations& x, std::int64_t r,
                         std::int64_t count, std::int64_t first, std::int64_t tokens, bf16* y,
                         std::int64_t y_stride) {
  WeightTiles tiles[kRowTiles];
  for (WeightTiles& tile : tiles) std::memset(tile.sums, 0, sizeof tile.sums);
  BlockSums products;
  if (tokens < kTokens) std::memset(&products, 0, sizeof products);
  const std::int64_t low = count < kTileRows ? count : kTileRows, high = count - low;
  constexpr std::int64_t kAhead = 16 * kChunkBlocks;  // the next chunk of a row
  const TileRows rows[kRowTiles] = {{w, r, low, kAhead},
                                    {w, high > 0 ? r + low : r, high > 0 ? high : low, kAhead}};
  const std::int64_t blocks = w.cols / 32, stride = x.prepared(1) - x.prepared(0);
  for (std::int64_t b = 0; b < blocks; b += kChunkBlocks) {
    const std::int64_t n = blocks - b < kChunkBlocks ? blocks - b : kChunkBlocks;
    for (int i = 0; i < kRowTiles; ++i) tiles[i].decode(rows[i], b, n, blocks);
    for (std::int64_t t = 0; t < tokens; t += kTokens) {
      const TokenTile tile{TokenValues(x.prepared(first + t), w.cols), stride,
                           tokens - t < kTokens ? tokens - t : kTokens};
      add_blocks(tiles, tile, b, n, t, products);
    }
  }
  for (std::int64_t t = 0; t < tokens; ++t) {
    bf16* out = y + (first + t) * y_stride + r;
    part_store(out, part_load(tiles[0].sums[t]), low);
    if (high > 0) part_store(out + low, part_load(tiles[1].sums[t]), high);
  }
}

void multiply_tokens(const Fp4Matrix& w, const QuantizedActivations& x, Range tokens, Range rows, bf16* y,
                     std::int64_t y_stride) {
  constexpr std::int64_t kRows = kRowTiles * kTileRows;
  const auto height = static_cast<std::uint8_t>(tokens.size() < kTokens ? tokens.size() : kTokens);
  const TileRegisters registers({height, height, 16, 16, height}, {64, 64, 64, 64, 64});
  for (std::int64_t first = tokens.begin; first < tokens.end; first += kTileTokens) {
    const std::int64_t n = tokens.end - first < kTileTokens ? tokens.end - first : kTileTokens;
    for (std::int64_t r = rows.begin; r < rows.end; r += kRows) {
      tile_product(w, x, r, rows.end - r < kRows ? rows.end - r : kRows, first, n, y, y_stride);
    }
  }
}

void fp4_product(const Fp4Matrix& w, const QuantizedActivations& x, Range rows, bf16* y,
                 std::int64_t y_stride) {
  if (x.tokens() == 1) return fp4_single_token(w, x, rows, y);
  const std::int64_t whole = x.tokens() / kTokens * kTokens, rest = x.tokens() - whole;
  if (whole > 0) multiply_tokens(w, x, {0, whole}, rows, y, y_stride);
  if (rest >= kFewestTokens) return multiply_tokens(w, x, {whole, x.tokens()}, rows, y, y_stride);
  fp4_tiles(w, x, {whole, x.tokens()}, rows, y, y_stride);
}

#include "stages/kernels/fp8_amx.inc"

}  // namespace
}  // namespace dsv::amx

#pragma GCC pop_options

namespace dsv {

const Kernels kAmxKernels = [] {
  Kernels kernels = kAvx512Kernels;
  kernels.name = "amx";
  kernels.prepared_bytes = amx::prepared_bytes;
  kernels.prepare = amx::prepare;
  kernels.fp8_product = amx::fp8_product;
  kernels.fp4_product = amx::fp4_product;
  kernels.fp8_bf16_product = amx::fp8_bf16_product;
  return kernels;
}();

}  // namespace dsv
