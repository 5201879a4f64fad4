#include "cuda/emulated_device.h"

#include <deque>
#include <mutex>
#include <new>
#include <thread>

#include "cuda/worker.h"

namespace dsv::cuda {
using flow::Result;
using flow::Status;

namespace {

constexpr std::align_val_t kMemoryAlignment{256};

/// One warp of product_kernel.cuh: what separates two loops over the lanes is a synchronization there.
template <template <int> class Tile, int kTokens, class ProductOp>
void emulate_warp(const ProductOp& op, const ExpertRows& expert, int first_row, int token_tile) {
  const Tile<kTokens> tile(op, expert, first_row, token_tile);
  typename Tile<kTokens>::Scratch scratch;
  typename Tile<kTokens>::Lane lanes[kLanes];
  for (int group = 0; group < tile.groups(); ++group) {
    for (int lane = 0; lane < kLanes; ++lane) tile.multiply(group, lane, scratch);
    for (int lane = 0; lane < kLanes; ++lane) tile.add(group, lane, scratch, lanes[lane]);
  }
  for (int lane = 0; lane < kLanes; ++lane) tile.publish(lane, lanes[lane], scratch);
  for (int lane = 0; lane < kLanes; ++lane) tile.finish(op, lane, scratch);
}

template <template <int> class Tile, class ProductOp>
void emulate_product(const ProductOp& op) {
  with_token_tile(op.group.most_rows(), [&](auto tokens) {
    constexpr int kTokens = decltype(tokens)::value;
    for (int e = 0; e < op.group.size; ++e) {
      const ExpertRows& expert = op.group.experts[e];
      for (int tile = 0; tile * kTokens < expert.count; ++tile) {
        for (int row = 0; row < op.output_rows(); row += kTileRows) {
          emulate_warp<Tile, kTokens>(op, expert, row, tile);
        }
      }
    }
  });
}

void emulate_op(const Quantize& op) {
  for (int block = 0; block < op.blocks; ++block) op.run(block);
}
void emulate_op(const GateUp& op) {
  emulate_product<GateUpTile>(op);
}
void emulate_op(const Down& op) {
  emulate_product<DownTile>(op);
}

}  // namespace

void emulate(const Op& op) {
  std::visit([](const auto& one) { emulate_op(one); }, op);
}

struct EmulatedRuntime::Shared {
  explicit Shared(EmulatedMachine m)
      : machine(std::move(m)), used(static_cast<std::size_t>(machine.devices)) {}

  /// Whether the next of the things that `count` counts is the one that fails.
  static bool strikes(std::atomic<int>& count, int at) { return ++count == at; }

  const EmulatedMachine machine;
  EmulatedCounts counts;
  std::atomic<int> allocations{0}, launches{0}, jobs{0};
  std::mutex mutex;
  std::vector<std::uint64_t> used;  // bytes of each card
};

namespace {

class EmulatedDevice final : public Device {
 public:
  EmulatedDevice(std::shared_ptr<EmulatedRuntime::Shared> shared, int ordinal, flow::Telemetry telemetry)
      : shared_(std::move(shared)),
        ordinal_(static_cast<std::size_t>(ordinal)),
        telemetry_(std::move(telemetry)) {}

  std::string name() const override { return fmt::format("emulated card {}", ordinal_); }

  Result<std::uint64_t> free_memory() override {
    FLOW_TRY(alive());
    const std::lock_guard lock(shared_->mutex);
    return shared_->machine.memory - shared_->used[ordinal_];
  }

  Result<Memory> allocate(std::size_t bytes) override {
    FLOW_TRY(alive());
    FLOW_TRY(count_allocation(bytes));
    {
      const std::lock_guard lock(shared_->mutex);
      std::uint64_t& used = shared_->used[ordinal_];
      if (bytes > shared_->machine.memory - used) {
        return flow::errorf("out of memory: {} bytes wanted, {} free", bytes, shared_->machine.memory - used);
      }
      used += bytes;
    }
    return host_memory(bytes, [shared = shared_, ordinal = ordinal_, bytes] {
      const std::lock_guard lock(shared->mutex);
      shared->used[ordinal] -= bytes;
    });
  }

  Result<Memory> allocate_pinned(std::size_t bytes) override {
    FLOW_TRY(alive());
    FLOW_TRY(count_allocation(bytes));
    return host_memory(bytes, [] {});
  }

  Result<Event> make_event() override {
    const std::lock_guard lock(mutex_);
    events_.emplace_back();
    return Event{static_cast<int>(events_.size()) - 1};
  }

  Status upload(Stream stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    shared_->counts.uploaded_bytes += bytes;
    return copy(stream, "upload", to, from, bytes);
  }
  Status download(Stream stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    shared_->counts.downloaded_bytes += bytes;
    return copy(stream, "download", to, from, bytes);
  }

  Status launch(const Op& op) override {
    FLOW_TRY(alive());
    ++shared_->counts.launches;
    if (shared_->strikes(shared_->launches, shared_->machine.faults.fail_launch)) {
      return flow::errorf("launch of {} failed: injected", op_name(op));
    }
    enqueue(Stream::compute, [this, op] {
      const auto span = telemetry_.span(op_name(op), flow::Executor::compute);
      std::this_thread::sleep_for(shared_->machine.faults.op_delay);
      emulate(op);
    });
    return {};
  }

  Status record(Event event, Stream stream) override {
    FLOW_TRY(alive());
    std::uint64_t turn = 0;
    {
      const std::lock_guard lock(mutex_);
      turn = ++state(event).recorded;
    }
    worker(stream).post([this, event, turn] {
      const std::lock_guard lock(mutex_);
      state(event).passed = turn;
      passed_.notify_all();
    });
    return {};
  }

  Status wait(Stream stream, Event event) override {
    FLOW_TRY(alive());
    const std::uint64_t turn = last_turn(event);
    worker(stream).post([this, event, turn] { await(event, turn); });
    return {};
  }

  Status finish(Event event) override {
    ++shared_->counts.host_waits;
    await(event, last_turn(event));
    return alive();
  }

 private:
  struct EventState {
    std::uint64_t recorded = 0, passed = 0;
  };

  static const char* op_name(const Op& op) {
    return std::visit([](const auto& one) { return std::decay_t<decltype(one)>::kName; }, op);
  }

  Status alive() const { return lost_ ? flow::errorf("{} is lost: injected", name()) : Status(); }

  Status count_allocation(std::size_t bytes) const {
    ++shared_->counts.allocations;
    if (!shared_->strikes(shared_->allocations, shared_->machine.faults.fail_allocation)) return {};
    return flow::errorf("out of memory: allocation of {} bytes failed: injected", bytes);
  }

  template <class F>
  Memory host_memory(std::size_t bytes, F freed) {
    auto* memory = static_cast<std::byte*>(::operator new(bytes, kMemoryAlignment));
    shared_->counts.used_memory += bytes;
    return Memory(memory, [shared = shared_, bytes, freed](std::byte* p) {
      ::operator delete(p, kMemoryAlignment);
      shared->counts.used_memory -= bytes;
      freed();
    });
  }

  Status copy(Stream stream, const char* what, std::byte* to, const std::byte* from, std::size_t bytes) {
    FLOW_TRY(alive());
    ++shared_->counts.copies;
    enqueue(stream, [this, what, to, from, bytes] {
      const auto span = telemetry_.span(what);
      std::this_thread::sleep_for(shared_->machine.faults.copy_delay);
      std::memcpy(to, from, bytes);
    });
    return {};
  }

  /// A job of a lost card does nothing, but events go on passing: nobody waits for good.
  template <class F>
  void enqueue(Stream stream, F job) {
    const bool fatal = shared_->strikes(shared_->jobs, shared_->machine.faults.lose_device);
    worker(stream).post([this, fatal, job = std::move(job)] {
      if (fatal) lost_ = true;
      if (!lost_) job();
    });
  }

  Worker& worker(Stream stream) { return stream == Stream::copy ? copy_ : compute_; }
  EventState& state(Event event) { return events_[static_cast<std::size_t>(event.index)]; }
  std::uint64_t last_turn(Event event) {
    const std::lock_guard lock(mutex_);
    return state(event).recorded;
  }
  void await(Event event, std::uint64_t turn) {
    std::unique_lock lock(mutex_);
    passed_.wait(lock, [&] { return state(event).passed >= turn; });
  }

  const std::shared_ptr<EmulatedRuntime::Shared> shared_;
  const std::size_t ordinal_;
  const flow::Telemetry telemetry_;
  std::atomic<bool> lost_{false};
  std::mutex mutex_;  // of the events
  std::condition_variable passed_;
  std::deque<EventState> events_;
  Worker copy_, compute_;  // last: they end before what they use
};

}  // namespace

EmulatedRuntime::EmulatedRuntime(EmulatedMachine machine)
    : shared_(std::make_shared<Shared>(std::move(machine))) {}
EmulatedRuntime::~EmulatedRuntime() = default;

Result<int> EmulatedRuntime::devices() {
  const EmulatedMachine& machine = shared_->machine;
  if (!machine.faults.no_driver.empty()) return Status::error(machine.faults.no_driver);
  if (machine.devices == 0) return Status::error("there is no card");
  return machine.devices;
}

Result<std::unique_ptr<Device>> EmulatedRuntime::open(int ordinal, const flow::Telemetry& telemetry) {
  FLOW_ASSIGN(const int devices, this->devices());
  if (ordinal >= devices) return flow::errorf("there is no card {}", ordinal);
  return std::unique_ptr<Device>(std::make_unique<EmulatedDevice>(shared_, ordinal, telemetry));
}

const EmulatedCounts& EmulatedRuntime::counts() const {
  return shared_->counts;
}

}  // namespace dsv::cuda
