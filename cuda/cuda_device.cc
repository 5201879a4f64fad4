// The CUDA back end.
#include <cuda_runtime.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <vector>

#include "cuda/device.h"
#include "cuda/launch.h"
#include "cuda/worker.h"

namespace dsv::cuda {
using flow::Result;
using flow::Status;

namespace {

Status check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  return flow::errorf("{}: {}", what, cudaGetErrorString(error));
}

/// Times the work of one stream: a thread of its own waits for the events around each piece, so that spans of
/// the two streams lie in two lanes. Exists only when somebody listens.
class StreamWatch {
 public:
  StreamWatch(int ordinal, const flow::Telemetry& telemetry) : telemetry_(telemetry) {
    worker_.post([ordinal] { cudaSetDevice(ordinal); });
  }
  /// Enqueues the event that begins or ends a piece; null when the card does not give one.
  static cudaEvent_t mark(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    if (cudaEventCreateWithFlags(&event, cudaEventBlockingSync | cudaEventDisableTiming) != cudaSuccess)
      return nullptr;
    cudaEventRecord(event, stream);
    return event;
  }
  void watch(const char* name, flow::Executor kind, cudaEvent_t begin, cudaEvent_t end) {
    if (!begin || !end) return;
    worker_.post([this, name, kind, begin, end] {
      cudaEventSynchronize(begin);
      {
        const auto span = telemetry_.span(name, kind);
        cudaEventSynchronize(end);
      }
      cudaEventDestroy(begin);
      cudaEventDestroy(end);
    });
  }

 private:
  const flow::Telemetry telemetry_;
  Worker worker_;
};

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> open(int ordinal, const flow::Telemetry& telemetry) {
    std::unique_ptr<CudaDevice> device(new CudaDevice(ordinal));
    FLOW_TRY(device->start(telemetry));
    return std::unique_ptr<Device>(std::move(device));
  }

  ~CudaDevice() override {
    cudaSetDevice(ordinal_);
    for (const cudaStream_t stream : streams_) {
      if (stream) cudaStreamSynchronize(stream);
    }
    for (auto& watch : watches_) watch.reset();
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
    for (const cudaStream_t stream : streams_) {
      if (stream) cudaStreamDestroy(stream);
    }
  }

  std::string name() const override { return name_; }

  Result<std::uint64_t> free_memory() override {
    FLOW_TRY(enter());
    std::size_t free = 0, total = 0;
    FLOW_TRY(check(cudaMemGetInfo(&free, &total), "free memory"));
    return std::uint64_t{free};
  }

  Result<Memory> allocate(std::size_t bytes) override {
    FLOW_TRY(enter());
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error != cudaSuccess) {
      cudaGetLastError();  // not a fault of the card
      return check(error, fmt::format("allocation of {} bytes", bytes));
    }
    return Memory(static_cast<std::byte*>(memory), [](std::byte* p) { cudaFree(p); });
  }

  Result<Memory> allocate_pinned(std::size_t bytes) override {
    FLOW_TRY(enter());
    void* memory = nullptr;
    FLOW_TRY(check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable),
                   fmt::format("allocation of {} pinned bytes", bytes)));
    return Memory(static_cast<std::byte*>(memory), [](std::byte* p) { cudaFreeHost(p); });
  }

  Result<Event> make_event() override {
    FLOW_TRY(enter());
    cudaEvent_t event = nullptr;
    FLOW_TRY(
        check(cudaEventCreateWithFlags(&event, cudaEventBlockingSync | cudaEventDisableTiming), "new event"));
    events_.push_back(event);
    return Event{static_cast<int>(events_.size()) - 1};
  }

  Status upload(Stream stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    return timed(stream, "upload", flow::Executor::io,
                 [&](cudaStream_t s) { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s); });
  }
  Status download(Stream stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    return timed(stream, "download", flow::Executor::io,
                 [&](cudaStream_t s) { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s); });
  }
  Status launch(const Op& op) override {
    return std::visit(
        [&](const auto& one) {
          return timed(Stream::compute, one.kName, flow::Executor::compute,
                       [&](cudaStream_t s) { return dsv::cuda::launch(one, s); });
        },
        op);
  }

  Status record(Event event, Stream stream) override {
    FLOW_TRY(enter());
    return check(cudaEventRecord(native(event), native(stream)), "record");
  }
  Status wait(Stream stream, Event event) override {
    FLOW_TRY(enter());
    return check(cudaStreamWaitEvent(native(stream), native(event)), "wait");
  }
  Status finish(Event event) override {
    FLOW_TRY(enter());
    return check(cudaEventSynchronize(native(event)), "waiting for the card");
  }

 private:
  explicit CudaDevice(int ordinal) : ordinal_(ordinal) {}

  Status start(const flow::Telemetry& telemetry) {
    FLOW_TRY(enter());
    cudaDeviceProp properties{};
    FLOW_TRY(check(cudaGetDeviceProperties(&properties, ordinal_), "properties"));
    name_ = fmt::format("{} ({})", properties.name, ordinal_);
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      FLOW_TRY(check(cudaStreamCreateWithFlags(&streams_[i], cudaStreamNonBlocking), "new stream"));
      if (telemetry) watches_[i].emplace(ordinal_, telemetry);
    }
    return {};
  }

  /// The calling thread works with this card.
  Status enter() const { return check(cudaSetDevice(ordinal_), fmt::format("card {}", ordinal_)); }

  template <class F>
  Status timed(Stream stream, const char* name, flow::Executor kind, F enqueue) {
    FLOW_TRY(enter());
    const cudaStream_t s = native(stream);
    auto& watch = watches_[static_cast<std::size_t>(stream)];
    const cudaEvent_t begin = watch ? StreamWatch::mark(s) : nullptr;
    FLOW_TRY(check(enqueue(s), name));
    if (watch) watch->watch(name, kind, begin, StreamWatch::mark(s));
    return {};
  }

  cudaStream_t native(Stream stream) const { return streams_[static_cast<std::size_t>(stream)]; }
  cudaEvent_t native(Event event) const { return events_[static_cast<std::size_t>(event.index)]; }

  const int ordinal_;
  std::string name_;
  std::array<cudaStream_t, 2> streams_{};
  std::array<std::optional<StreamWatch>, 2> watches_;
  std::vector<cudaEvent_t> events_;
};

class CudaRuntime final : public Runtime {
 public:
  Result<int> devices() override {
    int version = 0, count = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
      return Status::error("there is no CUDA driver");
    }
    FLOW_TRY(check(cudaGetDeviceCount(&count), "cards"));
    if (count > 0) return count;
    return Status::error("there is no CUDA card");
  }
  Result<std::unique_ptr<Device>> open(int ordinal, const flow::Telemetry& telemetry) override {
    return CudaDevice::open(ordinal, telemetry);
  }
};

}  // namespace

Result<std::unique_ptr<Runtime>> cuda_runtime() {
  return std::unique_ptr<Runtime>(std::make_unique<CudaRuntime>());
}

}  // namespace dsv::cuda
