// A card as the dispatcher sees it: memory, two streams, events, and the ops. Nothing here waits for the
// whole card. Two back ends: CUDA (cuda_device.cc) and the emulation (emulated_device.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda/ops.h"
#include "framework/core/status.h"
#include "framework/core/telemetry.h"

namespace dsv::cuda {

/// Bytes of a card or pinned bytes of the host, freed with the last copy. 256-byte aligned.
using Memory = std::shared_ptr<std::byte>;

/// Work on one stream runs in its order; the two run side by side.
enum class Stream { copy, compute };

/// A point in a stream, for the other stream or the host to wait for. An event that was never recorded has
/// passed.
struct Event {
  int index = 0;
};

/// One user of one card. Not thread-safe. After an error the card is to be given up; what was enqueued may or
/// may not have run. The destructor waits for it.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  virtual flow::Result<std::uint64_t> free_memory() = 0;

  virtual flow::Result<Memory> allocate(std::size_t bytes) = 0;
  virtual flow::Result<Memory> allocate_pinned(std::size_t bytes) = 0;
  virtual flow::Result<Event> make_event() = 0;

  /// Copies between pinned host memory and the card, or within the card.
  virtual flow::Status upload(Stream stream, std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual flow::Status download(Stream stream, std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Starts an op on the compute stream.
  virtual flow::Status launch(const Op& op) = 0;

  /// The event stands for all work of `stream` until now.
  virtual flow::Status record(Event event, Stream stream) = 0;
  /// Later work of `stream` waits for the event's last recording.
  virtual flow::Status wait(Stream stream, Event event) = 0;
  /// The host waits for the event's last recording. Errors of the work before it arrive here.
  virtual flow::Status finish(Event event) = 0;
};

/// The cards of this machine.
class Runtime {
 public:
  virtual ~Runtime() = default;
  /// Cards that this process may use, at least one; an error says why there is none.
  virtual flow::Result<int> devices() = 0;
  /// Opens a card for one more user. Copies and ops are timed as spans of `telemetry`, a lane for each
  /// stream.
  virtual flow::Result<std::unique_ptr<Device>> open(int ordinal, const flow::Telemetry& telemetry) = 0;
};

/// The CUDA back end; an error when this program was built without it.
flow::Result<std::unique_ptr<Runtime>> cuda_runtime();

}  // namespace dsv::cuda
