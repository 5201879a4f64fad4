// What the machine can do at most, measured in the same run as the kernels: read bandwidth and FMA rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "framework/core/parallel.h"

namespace dsv::bench {

/// Runs body over [0, count) on one thread, or on all compute workers.
void run_slices(bool all_threads, std::int64_t count, const std::function<void(flow::Range)>& body);

/// Memory far larger than the caches, filled once with bytes that are sane weights in every format (no NaN
/// and no subnormal bf16 or fp32). Weights are taken from it in turn, so that each use finds them cold.
class ColdMemory {
 public:
  static ColdMemory& instance();
  std::span<const std::uint8_t> bytes() const { return bytes_; }
  /// The next `size` bytes, 64-byte aligned, starting over at the end.
  const std::uint8_t* next(std::size_t size);

 private:
  ColdMemory();
  std::span<std::uint8_t> bytes_;
  std::size_t position_ = 0;
};

/// A clock for work of one thread, which counts only the time that the thread ran, or of all.
double seconds(bool all_threads);

/// Bytes per second that a plain sum over cold memory reads; the best of five passes over 256 MiB.
double read_bandwidth(bool all_threads);

/// fp32 lanes of the widest vectors that this machine has.
int widest_lanes();
/// fp32 multiply-adds per second with vectors of 8 or 16 lanes, counted as two operations each; best of five.
double peak_flops(bool all_threads, int lanes = widest_lanes());

}  // namespace dsv::bench
