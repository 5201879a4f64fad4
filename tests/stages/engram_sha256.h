// SHA-256 (FIPS 180-4) of a golden array, in hexadecimal.
#pragma once

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace dsv {

/// First 32 bits of the fractions of the square (root 2) or cube (root 3) roots of the first primes.
template <std::size_t count>
std::array<std::uint32_t, count> prime_roots(int root) {
  std::array<std::uint32_t, count> words{};
  int prime = 2;
  for (std::uint32_t& word : words) {
    const long double value =
        root == 2 ? std::sqrt(static_cast<long double>(prime)) : std::cbrt(static_cast<long double>(prime));
    word = static_cast<std::uint32_t>(std::ldexp(value - std::floor(value), 32));
    const auto divisible = [&](int n) {
      for (int d = 2; d * d <= n; ++d)
        if (n % d == 0) return true;
      return false;
    };
    while (divisible(++prime)) continue;
  }
  return words;
}

inline void sha256_block(const std::uint8_t* block, std::array<std::uint32_t, 8>& state) {
  static const auto constants = prime_roots<64>(3);
  std::array<std::uint32_t, 64> w{};
  for (int i = 0; i < 16; ++i)
    w[i] =
        std::uint32_t{block[4 * i]} << 24 | block[4 * i + 1] << 16 | block[4 * i + 2] << 8 | block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                             ((e & f) ^ (~e & g)) + constants[i] + w[i];
    const std::uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> added{a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += added[i];
}

/// Digest of the bytes of `values`, little endian.
inline std::string sha256(std::span<const std::int32_t> values) {
  std::vector<std::uint8_t> bytes(values.size_bytes());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  const std::uint64_t bits = 8 * bytes.size();
  bytes.push_back(0x80);
  while (bytes.size() % 64 != 56) bytes.push_back(0);
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(bits >> shift));
  std::array<std::uint32_t, 8> state = prime_roots<8>(2);
  for (std::size_t at = 0; at < bytes.size(); at += 64) sha256_block(bytes.data() + at, state);
  std::string hex;
  for (const std::uint32_t word : state) hex += fmt::format("{:08x}", word);
  return hex;
}

}  // namespace dsv
