// Which kernel variants exist, and which of them runs on this machine.
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <array>
#include <cstdlib>
#include <string>

#include "stages/kernels/kernels.h"
#include "stages/kernels/variants.h"

namespace dsv {
namespace {

struct Variant {
  const Kernels* kernels;
  bool (*supported)();
};

#if defined(__x86_64__)
/// Register files that the operating system saves (XCR0).
std::uint64_t saved_state() {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr std::uint32_t kOsXsave = 1u << 27;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsXsave) == 0) return 0;
  std::uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

bool saves(std::uint64_t mask) {
  return (saved_state() & mask) == mask;
}

bool has_avx2() {
  constexpr std::uint64_t kXmmYmm = 0x6;
  return saves(kXmmYmm) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool has_avx512() {
  constexpr std::uint64_t kOpmaskZmm = 0xe0;
  return has_avx2() && saves(kOpmaskZmm) && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vnni");
}

bool has_amx() {
  constexpr std::uint64_t kTiles = 0x60000;
  constexpr std::uint32_t kAmxTile = 1u << 24, kAmxBf16 = 1u << 22;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!has_avx512() || !saves(kTiles) || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kAmxTile) == 0 || (d & kAmxBf16) == 0) return false;
  // Linux hands the tile registers only to processes that ask.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
}
#endif

constexpr std::array kVariants = {
    Variant{&kPortableKernels, [] { return true; }},
#if defined(__x86_64__)
    Variant{&kAvx2Kernels, has_avx2},
    Variant{&kAvx512Kernels, has_avx512},
    Variant{&kAmxKernels, has_amx},
#endif
};

constexpr std::array kTables = [] {
  std::array<const Kernels*, kVariants.size()> tables{};
  for (std::size_t i = 0; i < tables.size(); ++i) tables[i] = kVariants[i].kernels;
  return tables;
}();

}  // namespace

std::span<const Kernels* const> all_kernels() {
  return kTables;
}

bool can_run(const Kernels& kernels) {
  for (const Variant& variant : kVariants) {
    if (variant.kernels == &kernels) return variant.supported();
  }
  return false;
}

flow::Result<const Kernels*> select_kernels(std::string_view name) {
  if (name.empty()) {
    const char* forced = std::getenv("DSV41_KERNELS");
    if (forced != nullptr) name = forced;
  }
  const Kernels* best = nullptr;
  const Kernels* named = nullptr;
  std::string runnable;
  for (const Kernels* kernels : kTables) {
    if (kernels->name == name) named = kernels;
    if (!can_run(*kernels)) continue;
    best = kernels;
    runnable += (runnable.empty() ? "" : ", ") + std::string(kernels->name);
  }
  if (name.empty()) return best;
  if (named == nullptr)
    return flow::errorf("no kernel variant '{}'; this machine can run: {}", name, runnable);
  if (!can_run(*named)) {
    return flow::errorf("kernel variant '{}' cannot run on this machine, which can run: {}", name, runnable);
  }
  return named;
}

}  // namespace dsv
