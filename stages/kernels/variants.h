// The variants behind the kernel table; see dispatch.cc for which can run where.
#pragma once

#include "stages/kernels/kernels.h"

namespace dsv {

/// Baseline instructions of the architecture: the definition that the others are tested against.
extern const Kernels kPortableKernels;

}  // namespace dsv
