// Data parallelism for stage bodies, without naming the library behind it.
#pragma once

#include <cstdint>

namespace flow {

/// Half-open range of indices.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// What parallel_for calls: a reference to any function of a Range, which outlives the call.
class RangeBody {
 public:
  template <class F>
  RangeBody(const F& body)  // NOLINT: implicit by design
      : object_(&body), call_([](const void* f, Range range) { (*static_cast<const F*>(f))(range); }) {}
  void operator()(Range range) const { call_(object_, range); }

 private:
  const void* object_;
  void (*call_)(const void*, Range);
};

/// Runs `body` over [0, count) in slices of at least `grain` indices, in parallel on the compute
/// workers, and returns when all are done. The calling thread takes part and picks up no unrelated
/// work meanwhile. Slice borders depend on count, grain and the thread count: a body must give the same
/// bytes for any split. `body` must not throw.
void parallel_for(std::int64_t count, std::int64_t grain, const RangeBody& body);

/// Tells the watchdog that the calling body is not stuck: it waits for something outside the run, such as a
/// person. parallel_for does so itself.
void heartbeat();

/// Number of threads that parallel_for may use at most.
int parallelism();

}  // namespace flow
