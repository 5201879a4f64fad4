#include "bench/kernels/machine.h"

#include <immintrin.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "stages/kernels/kernels.h"

namespace dsv::bench {
namespace {

constexpr std::size_t kBytes = std::size_t{2} << 30;

double best_of_five(bool all_threads, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const double begin = seconds(all_threads);
    work();
    best = std::min(best, seconds(all_threads) - begin);
  }
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
  __m128i sum[8] = {};
  for (std::size_t i = 0; i + sizeof sum <= bytes.size(); i += sizeof sum) {
    const auto* p = reinterpret_cast<const __m128i*>(bytes.data() + i);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) sum[j] = _mm_xor_si128(sum[j], _mm_load_si128(p + j));
  }
  __m128i all = sum[0];
#pragma GCC unroll 8
  for (int j = 1; j < 8; ++j) all = _mm_xor_si128(all, sum[j]);
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(all));
}

// Twelve independent chains: more than latency times throughput of any known core.
constexpr int kChains = 12;

__attribute__((target("avx512f"))) void fma512(std::int64_t rounds) {
  __m512 chain[kChains];
  const __m512 half = _mm512_set1_ps(0.5f);
#pragma GCC unroll 12
  for (auto& c : chain) c = half;
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& c : chain) {
      c = _mm512_fmadd_ps(c, half, half);
      __asm__ volatile("" : "+v"(c));
    }
  }
}

__attribute__((target("avx2,fma"))) void fma256(std::int64_t rounds) {
  __m256 chain[kChains];
  const __m256 half = _mm256_set1_ps(0.5f);
#pragma GCC unroll 12
  for (auto& c : chain) c = half;
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& c : chain) {
      c = _mm256_fmadd_ps(c, half, half);
      __asm__ volatile("" : "+x"(c));
    }
  }
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

double seconds(bool all_threads) {
  timespec t{};
  clock_gettime(all_threads ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double read_bandwidth(bool all_threads) {
  constexpr std::size_t kProbe = std::size_t{256} << 20;
  constexpr std::int64_t kPieces = 64;
  const std::span<const std::uint8_t> bytes(ColdMemory::instance().next(kProbe), kProbe);
  volatile std::uint64_t sink = 0;
  const double best = best_of_five(all_threads, [&] {
    run_slices(all_threads, kPieces, [&](flow::Range range) {
      sink = sum_words(bytes.subspan(static_cast<std::size_t>(range.begin) * (kProbe / kPieces),
                                     static_cast<std::size_t>(range.size()) * (kProbe / kPieces)));
    });
  });
  return static_cast<double>(kProbe) / best;
}

int widest_lanes() {
  return __builtin_cpu_supports("avx512f") ? 16 : 8;
}

double peak_flops(bool all_threads, int lanes) {
  constexpr std::int64_t kRounds = 1'000'000;
  const int threads = all_threads ? flow::parallelism() : 1;
  const double best = best_of_five(all_threads, [&] {
    run_slices(all_threads, threads, [&](flow::Range range) {
      for (std::int64_t i = range.begin; i < range.end; ++i) lanes == 16 ? fma512(kRounds) : fma256(kRounds);
    });
  });
  return 2.0 * lanes * kChains * kRounds * threads / best;
}

}  // namespace dsv::bench
