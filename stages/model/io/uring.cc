// The back end on io_uring: direct reads, many at once, on one thread.
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "stages/model/arena.h"
#include "stages/model/io/backend.h"

namespace dsv {
using flow::Result;
using flow::Status;
namespace {

/// A read that the kernel works on.
struct Slot {
  ReadBlock block;
  std::uint64_t begin = 0, size = 0;  // what is read: the block, for direct reads widened to whole pages
  std::uint64_t got = 0;
  bool direct = false;
  std::byte* memory = nullptr;
};

class UringBackend final : public ReadBackend {
 public:
  UringBackend(ReadQueue& queue, Deliver deliver, Fallback fallback)
      : queue_(queue), deliver_(std::move(deliver)), fallback_(std::move(fallback)) {}
  ~UringBackend() override {
    if (thread_.joinable()) {
      wake();
      thread_.join();
    }
    queue_.on_change(nullptr);
    if (ready_) io_uring_queue_exit(&ring_);
    if (event_ >= 0) close(event_);
  }

  Status start(int depth) {
    // One entry more than reads: the one that waits for news of the queue.
    if (const int error = io_uring_queue_init(static_cast<unsigned>(depth) + 1, &ring_, 0); error < 0)
      return flow::errorf("the kernel refuses io_uring ({})", std::strerror(-error));
    ready_ = true;
    FLOW_TRY(probe());
    FLOW_ASSIGN(memory_, Arena::reserve(static_cast<std::size_t>(depth) * uring_slot_bytes()));
    slots_.resize(static_cast<std::size_t>(depth));
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].memory = memory_.data() + i * uring_slot_bytes();
      free_.push_back(&slots_[i]);
    }
    event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_ < 0) return flow::errorf("the system has no eventfd ({})", std::strerror(errno));
    queue_.on_change([this] { wake(); });
    thread_ = std::thread([this] { run(); });
    return {};
  }

 private:
  Status probe() {
    io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
    const bool able = probe && io_uring_opcode_supported(probe, IORING_OP_READ);
    io_uring_free_probe(probe);
    return able ? Status() : Status::error("the kernel's io_uring is too old to read");
  }

  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event_, &one, sizeof one);
  }

  void run() {
    listen();
    while (true) {
      while (!free_.empty()) {
        auto block = queue_.try_take();
        if (!block) break;
        begin(*std::move(block));
      }
      if (free_.size() == slots_.size() && queue_.closed()) return;
      io_uring_submit_and_wait(&ring_, 1);
      io_uring_cqe* event = nullptr;
      while (io_uring_peek_cqe(&ring_, &event) == 0) {
        auto* slot = static_cast<Slot*>(io_uring_cqe_get_data(event));
        const int result = event->res;
        io_uring_cqe_seen(&ring_, event);
        slot ? advance(*slot, result) : listen();
      }
    }
  }

  /// Asks to be told of the next wake().
  void listen() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t drained = read(event_, &count, sizeof count);
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_poll_add(entry, event_, POLLIN);
    io_uring_sqe_set_data(entry, nullptr);
  }

  void begin(ReadBlock block) {
    Slot& slot = *free_.back();
    free_.pop_back();
    slot.block = std::move(block);
    aim(slot);
    submit(slot);
  }

  /// Direct when the file allows it.
  void aim(Slot& slot) {
    const Result<int> direct = slot.block.file->direct_descriptor();
    if (!direct.ok()) report(direct.status());
    slot.direct = direct.ok();
    slot.begin = slot.direct ? slot.block.begin / kPageBytes * kPageBytes : slot.block.begin;
    const std::uint64_t size = slot.block.end - slot.begin;
    slot.size = slot.direct ? (size + kPageBytes - 1) / kPageBytes * kPageBytes : size;
    slot.got = 0;
  }

  void submit(Slot& slot) {
    const int descriptor =
        slot.direct ? *slot.block.file->direct_descriptor() : slot.block.file->descriptor();
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read(entry, descriptor, slot.memory + slot.got, static_cast<unsigned>(slot.size - slot.got),
                       slot.begin + slot.got);
    io_uring_sqe_set_data(entry, &slot);
  }

  void advance(Slot& slot, int result) {
    const InputFile& file = *slot.block.file;
    if (result == -EINTR || result == -EAGAIN) return submit(slot);
    if (slot.direct && (result == -EINVAL || result == -EOPNOTSUPP)) {
      file.refuse_direct(-result);
      aim(slot);
      return submit(slot);
    }
    if (result < 0) return end(slot, refused_read(file, slot.begin + slot.got, -result));
    slot.got += static_cast<std::uint64_t>(result);
    if (slot.begin + slot.got >= slot.block.end) {
      scatter(slot.block, slot.memory, slot.begin);
      return end(slot, {});
    }
    // A direct read stops within a page at the end of the file only.
    const bool at_end = result == 0 || (slot.direct && slot.got % kPageBytes != 0);
    if (at_end) return end(slot, ended_early(file));
    submit(slot);
  }

  void end(Slot& slot, Status status) {
    free_.push_back(&slot);
    deliver_(std::move(slot.block), std::move(status));
  }

  void report(const Status& refusal) {
    if (refusal.message() == reported_) return;
    reported_ = refusal.message();
    fallback_(reported_ + "; reading it through the page cache");
  }

  ReadQueue& queue_;
  const Deliver deliver_;
  const Fallback fallback_;
  io_uring ring_{};
  bool ready_ = false;
  int event_ = -1;
  Arena memory_;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
  std::string reported_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<ReadBackend>> make_uring_backend(ReadQueue& queue, int depth, Deliver deliver,
                                                        Fallback fallback) {
  auto backend = std::make_unique<UringBackend>(queue, std::move(deliver), std::move(fallback));
  FLOW_TRY(backend->start(depth));
  return std::unique_ptr<ReadBackend>(std::move(backend));
}

}  // namespace dsv
