// Where and when the body of a stage runs.
#pragma once

namespace flow {

/// Where a body runs: on the compute workers, or on a thread that may block (files, devices).
enum class Executor { compute, io };

/// When a stage with several inputs runs.
enum class InputPolicy {
  all,  ///< once for each stamp, when every connected input has its packet
  any   ///< once for each packet; `context.has(port)` tells which one came
};

}  // namespace flow
