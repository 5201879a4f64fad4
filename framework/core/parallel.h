// Data parallelism for stage bodies, without naming the library behind it.
#pragma once

#include <cstdint>
#include <functional>

namespace flow {

/// Half-open range of indices.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Runs `body` over [0, count) in slices of at least `grain` indices, in parallel on the compute
/// workers, and returns when all are done. The calling thread takes part and picks up no unrelated
/// work meanwhile. Slice borders depend on count, grain and the thread count: a body must give the same
/// bytes for any split. `body` must not throw.
void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(Range)>& body);

/// Number of threads that parallel_for may use at most.
int parallelism();

}  // namespace flow
