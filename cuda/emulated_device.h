// Cards that the CPU emulates, for tests of everything around the kernels.
//
// Memory is host memory, each stream is a thread, and the ops run the source that the kernels run, lane by
// lane. Work is as asynchronous as on a card: a missing event is a data race that ThreadSanitizer reports.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "cuda/device.h"

namespace dsv::cuda {

/// What goes wrong, and when. Counts are over all cards of a runtime, from 1; 0 = never.
struct Faults {
  std::string no_driver = {};  ///< the runtime cannot be used: the reason
  int fail_allocation = 0;     ///< this allocation of card or pinned memory fails
  int fail_launch = 0;         ///< this launch is refused
  int lose_device = 0;         ///< the card of this enqueued copy or op is gone from then on
  std::chrono::microseconds copy_delay{0}, op_delay{0};
};

/// The machine that is emulated.
struct EmulatedMachine {
  int devices = 1;
  std::uint64_t memory = std::uint64_t{1} << 30;  ///< bytes of each card
  Faults faults = {};
};

/// What the users of a runtime's cards did.
struct EmulatedCounts {
  std::atomic<std::uint64_t> allocations{0}, copies{0}, launches{0}, host_waits{0};
  std::atomic<std::uint64_t> uploaded_bytes{0}, downloaded_bytes{0}, used_memory{0};
};

class EmulatedRuntime final : public Runtime {
 public:
  explicit EmulatedRuntime(EmulatedMachine machine);
  ~EmulatedRuntime() override;
  flow::Result<int> devices() override;
  flow::Result<std::unique_ptr<Device>> open(int ordinal, const flow::Telemetry& telemetry) override;
  const EmulatedCounts& counts() const;

  struct Shared;  ///< what the devices share with it; outlives it while a device lives

 private:
  std::shared_ptr<Shared> shared_;
};

/// Runs an op on the calling thread: every warp of its grid, one after the other.
void emulate(const Op& op);

}  // namespace dsv::cuda
