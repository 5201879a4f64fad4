// What reads the blocks of a queue.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "stages/model/io/read_queue.h"

namespace dsv {

/// Takes blocks from a queue, reads them and passes each on once, on threads of its own. The queue must be
/// closed before a back end is destroyed, which ends its threads.
class ReadBackend {
 public:
  virtual ~ReadBackend() = default;
};

/// Where a back end delivers a block.
using Deliver = std::function<void(ReadBlock, flow::Status)>;
/// Told when a back end has to do with less, in words.
using Fallback = std::function<void(std::string)>;

/// Threads that read through the page cache, one block each.
std::unique_ptr<ReadBackend> make_pread_backend(ReadQueue& queue, int threads, Deliver deliver);
/// Threads that copy from the mapped file, each after advice to the kernel to read the block.
std::unique_ptr<ReadBackend> make_mmap_backend(ReadQueue& queue, int threads, Deliver deliver);
/// One thread that keeps up to `depth` reads with the kernel. Reads past the page cache into aligned memory
/// of its own (depth * uring_slot_bytes()); files whose file system refuses that are read through the page
/// cache, which `fallback` is told. Error: the kernel refuses io_uring, and why.
flow::Result<std::unique_ptr<ReadBackend>> make_uring_backend(ReadQueue& queue, int depth, Deliver deliver,
                                                              Fallback fallback);
/// Memory of one read in flight.
constexpr std::uint64_t uring_slot_bytes() {
  return kBlockBytes + 2 * kPageBytes;
}

/// Copies the wanted pieces of a block from its bytes; `bytes` is where offset `from` of the file lies.
void scatter(const ReadBlock& block, const std::byte* bytes, std::uint64_t from);

}  // namespace dsv
