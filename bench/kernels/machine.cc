#include "bench/kernels/machine.h"

#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>

#include "stages/kernels/kernels.h"

namespace dsv::bench {
namespace {

constexpr std::size_t kBytes = std::size_t{2} << 30;

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double best_of_five(const std::function<void()>& work) {
  double best = seconds(work);
  for (int i = 0; i < 4; ++i) best = std::min(best, seconds(work));
  return best;
}

void fill(std::span<std::uint8_t> bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const std::uint64_t sane = (seed & 0x83ff83ff83ff83ffu) | 0x3c003c003c003c00u;
    __builtin_memcpy(bytes.data() + i, &sane, 8);
  }
}

std::uint64_t sum_words(std::span<const std::uint8_t> bytes) {
  __m128i sum[4] = {};
  for (std::size_t i = 0; i + 64 <= bytes.size(); i += 64) {
    for (std::size_t j = 0; j < 4; ++j) {
      sum[j] = _mm_xor_si128(sum[j], _mm_load_si128(reinterpret_cast<const __m128i*>(bytes.data() + i) + j));
    }
  }
  const __m128i all = _mm_xor_si128(_mm_xor_si128(sum[0], sum[1]), _mm_xor_si128(sum[2], sum[3]));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(all));
}

// Twelve independent chains: more than latency times throughput of any known core.
constexpr int kChains = 12;

__attribute__((target("avx512f"))) float fma512(std::int64_t rounds) {
  __m512 chain[kChains];
  for (auto& c : chain) c = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.5f);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (auto& c : chain) c = _mm512_fmadd_ps(c, a, a);
  }
  float sum = 0;
  for (const auto& c : chain) sum += c[0];
  return sum;
}

__attribute__((target("avx2,fma"))) float fma256(std::int64_t rounds) {
  __m256 chain[kChains];
  for (auto& c : chain) c = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.5f);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (auto& c : chain) c = _mm256_fmadd_ps(c, a, a);
  }
  float sum = 0;
  for (const auto& c : chain) sum += c[0];
  return sum;
}

}  // namespace

void run_slices(bool all_threads, std::int64_t count, const std::function<void(flow::Range)>& body) {
  if (all_threads) return flow::parallel_for(count, 1, body);
  body({0, count});
}

ColdMemory::ColdMemory() {
  auto* p = static_cast<std::uint8_t*>(std::aligned_alloc(std::size_t{1} << 21, kBytes));
  if (p == nullptr) throw std::bad_alloc();
  madvise(p, kBytes, MADV_HUGEPAGE);
  bytes_ = {p, kBytes};
  constexpr std::int64_t kPieces = 256;
  flow::parallel_for(kPieces, 1, [&](flow::Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      fill(bytes_.subspan(static_cast<std::size_t>(i) * (kBytes / kPieces), kBytes / kPieces),
           static_cast<std::uint64_t>(i));
    }
  });
}

ColdMemory& ColdMemory::instance() {
  static ColdMemory memory;
  return memory;
}

const std::uint8_t* ColdMemory::next(std::size_t size) {
  if (position_ + size > bytes_.size()) position_ = 0;
  const std::uint8_t* p = bytes_.data() + position_;
  position_ += (size + 63) / 64 * 64;
  return p;
}

double read_bandwidth(bool all_threads) {
  const auto bytes = ColdMemory::instance().bytes();
  constexpr std::int64_t kPieces = 256;
  volatile std::uint64_t sink = 0;
  const double best = best_of_five([&] {
    run_slices(all_threads, kPieces, [&](flow::Range range) {
      const std::size_t piece = bytes.size() / kPieces;
      sink = sum_words(bytes.subspan(static_cast<std::size_t>(range.begin) * piece,
                                     static_cast<std::size_t>(range.size()) * piece));
    });
  });
  return static_cast<double>(bytes.size()) / best;
}

double peak_flops(bool all_threads) {
  constexpr std::int64_t kRounds = 2'000'000;
  const bool wide = __builtin_cpu_supports("avx512f");
  const int threads = all_threads ? flow::parallelism() : 1;
  volatile float sink = 0;
  const double best = best_of_five([&] {
    run_slices(all_threads, threads, [&](flow::Range range) {
      for (std::int64_t i = range.begin; i < range.end; ++i) sink = wide ? fma512(kRounds) : fma256(kRounds);
    });
  });
  return 2.0 * (wide ? 16 : 8) * kChains * kRounds * threads / best;
}

}  // namespace dsv::bench
