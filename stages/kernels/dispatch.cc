// Which kernel variants exist, and which of them runs on this machine.
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

constexpr std::array kVariants = {
    Variant{&kPortableKernels, [] { return true; }},
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
