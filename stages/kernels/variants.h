// The variants behind the kernel table; see dispatch.cc for which can run where.
#pragma once

#include "stages/kernels/kernels.h"

namespace dsv {

/// Baseline instructions of the architecture: the definition that the others are tested against.
extern const Kernels kPortableKernels;
/// AVX2, FMA and F16C.
extern const Kernels kAvx2Kernels;
/// AVX-512 F, BW, DQ, VL, VBMI and VNNI.
extern const Kernels kAvx512Kernels;

/// AVX-512 with the bf16 products of AMX.
extern const Kernels kAmxKernels;

/// Asks for the cache line of `p`, which may lie behind the end of its array.
inline void prefetch(const void* p) {
  __builtin_prefetch(p, 0, 3);
}

}  // namespace dsv
