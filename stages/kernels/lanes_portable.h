// Sixteen fp32 lanes in plain C++ (GCC/Clang vector extensions, baseline instructions).
//
// Every variant defines the same names in its own namespace; the generic_*.inc files are written in them.
// The operations are chosen so that all variants agree to the bit: mul_add is only used where the product
// is exact, so that a fused and a separate multiplication are the same.
#pragma once

#include <cstdint>
#include <cstring>

#include "stages/kernels/formats.h"
#include "stages/kernels/tables.h"

namespace dsv::portable {

using V4 = float __attribute__((vector_size(16)));
using U4 = std::uint32_t __attribute__((vector_size(16)));

struct F16 {
  V4 part[4];
};
/// Columns of a group of 32: lane i holds column 2i (even) and column 2i+1 (odd).
struct Pair {
  F16 even, odd;
};

template <class F>
inline F16 each(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}

inline F16 set1(float x) {
  return each([x](int) { return V4{x, x, x, x}; });
}
inline F16 load(const float* p) {
  F16 r;
  std::memcpy(&r, p, sizeof r);
  return r;
}
inline void store(float* p, const F16& a) {
  std::memcpy(p, &a, sizeof a);
}
inline F16 operator+(const F16& a, const F16& b) {
  return each([&](int i) { return a.part[i] + b.part[i]; });
}
inline F16 operator-(const F16& a, const F16& b) {
  return each([&](int i) { return a.part[i] - b.part[i]; });
}
inline F16 operator*(const F16& a, const F16& b) {
  return each([&](int i) { return a.part[i] * b.part[i]; });
}
inline F16 operator/(const F16& a, const F16& b) {
  return each([&](int i) { return a.part[i] / b.part[i]; });
}
/// a * b + c where a * b is exact.
inline F16 mul_add(const F16& a, const F16& b, const F16& c) {
  return each([&](int i) { return a.part[i] * b.part[i] + c.part[i]; });
}
/// a < b ? a : b, so b when either is NaN.
inline F16 min(const F16& a, const F16& b) {
  return each([&](int i) { return a.part[i] < b.part[i] ? a.part[i] : b.part[i]; });
}
inline F16 max(const F16& a, const F16& b) {
  return each([&](int i) { return a.part[i] > b.part[i] ? a.part[i] : b.part[i]; });
}
/// a < b ? x : y
inline F16 if_less(const F16& a, const F16& b, const F16& x, const F16& y) {
  return each([&](int i) { return a.part[i] < b.part[i] ? x.part[i] : y.part[i]; });
}
/// 2^n for t = n + 1.5 * 2^23 with integer n in -126 .. 127.
inline F16 power_of_two(const F16& t) {
  return each([&](int i) { return (V4)(((U4)t.part[i] << 23) + 0x3f800000u); });
}
/// Sums lanes as 8+8, 4+4, 2+2, 1+1; fold_max takes the largest in the same order.
inline float fold(const F16& a) {
  const V4 s = (a.part[0] + a.part[2]) + (a.part[1] + a.part[3]);
  return (s[0] + s[2]) + (s[1] + s[3]);
}
inline float fold_max(const F16& a) {
  const auto larger = [](auto x, auto y) { return x > y ? x : y; };
  const V4 top = larger(larger(a.part[0], a.part[2]), larger(a.part[1], a.part[3]));
  return larger(larger(top[0], top[2]), larger(top[1], top[3]));
}

inline Pair load_pairs(const bf16* p) {
  Pair r;
  for (int i = 0; i < 4; ++i) {
    U4 u;
    std::memcpy(&u, p + 8 * i, sizeof u);
    r.even.part[i] = (V4)(u << 16);
    r.odd.part[i] = (V4)(u & 0xffff0000u);
  }
  return r;
}
inline Pair load_pairs(const float* p) {
  Pair r;
  for (int i = 0; i < 4; ++i) {
    const float* q = p + 8 * i;
    r.even.part[i] = V4{q[0], q[2], q[4], q[6]};
    r.odd.part[i] = V4{q[1], q[3], q[5], q[7]};
  }
  return r;
}
// The bf16 nearest to each lane, in the upper half of the word.
inline U4 bf16_bits(V4 x) {
  const U4 u = (U4)x;
  const U4 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u;
  return (u & 0x7fffffffu) > 0x7f800000u ? (u & 0xffff0000u) | 0x400000u : rounded;
}
inline F16 round_bf16(const F16& a) {
  return each([&](int i) { return (V4)bf16_bits(a.part[i]); });
}
inline void store_pairs(bf16* p, const Pair& a) {
  for (int i = 0; i < 4; ++i) {
    const U4 u = (bf16_bits(a.even.part[i]) >> 16) | bf16_bits(a.odd.part[i]);
    std::memcpy(static_cast<void*>(p + 8 * i), &u, sizeof u);
  }
}

/// 32 E4M3 codes, NaN codes excepted.
inline Pair decode_e4m3(const std::uint8_t* codes) {
  Pair r;
  for (int i = 0; i < 4; ++i) {
    const std::uint8_t* c = codes + 8 * i;
    r.even.part[i] = V4{kE4m3[c[0]], kE4m3[c[2]], kE4m3[c[4]], kE4m3[c[6]]};
    r.odd.part[i] = V4{kE4m3[c[1]], kE4m3[c[3]], kE4m3[c[5]], kE4m3[c[7]]};
  }
  return r;
}

}  // namespace dsv::portable
