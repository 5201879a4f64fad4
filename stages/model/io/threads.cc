// The back ends that read with blocking calls: pread and mmap.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "stages/model/io/backend.h"

namespace dsv {
using flow::Status;
namespace {

class ThreadedBackend final : public ReadBackend {
 public:
  ThreadedBackend(ReadQueue& queue, int threads, Status (*read)(const ReadBlock&), Deliver deliver) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([&queue, read, deliver] {
        while (auto block = queue.take()) {
          Status status = read(*block);
          deliver(*std::move(block), std::move(status));
        }
      });
    }
  }

 private:
  std::vector<std::jthread> threads_;
};

/// One vectored read; what lies between the pieces is thrown away.
Status read_block(const ReadBlock& block) {
  std::array<std::byte, kPageBytes> gap;
  flow::StepVector<iovec> targets;
  std::uint64_t at = block.begin;
  for (const ReadBlock::Piece& piece : block.pieces) {
    if (piece.offset > at) targets.push_back({gap.data(), piece.offset - at});
    targets.push_back({piece.out.data(), piece.out.size()});
    at = piece.offset + piece.out.size();
  }
  return block.file->read(block.begin, targets).status();
}

/// Copies from the mapping and lets go of its pages, which stay in the page cache as long as there is room.
Status copy_block(const ReadBlock& block) {
  FLOW_ASSIGN(const std::byte* base, block.file->map());
  // Touching a mapping beyond the end of its file would end the process.
  FLOW_ASSIGN(const std::uint64_t size, block.file->size_now());
  if (block.end > size) return ended_early(*block.file);
  const std::uint64_t first = block.begin / kPageBytes * kPageBytes;
  void* pages = const_cast<std::byte*>(base) + first;
  madvise(pages, block.end - first, MADV_WILLNEED);
  scatter(block, base, 0);
  madvise(pages, block.end - first, MADV_DONTNEED);
  return {};
}

}  // namespace

void scatter(const ReadBlock& block, const std::byte* bytes, std::uint64_t from) {
  for (const ReadBlock::Piece& piece : block.pieces)
    std::memcpy(piece.out.data(), bytes + (piece.offset - from), piece.out.size());
}

std::unique_ptr<ReadBackend> make_pread_backend(ReadQueue& queue, int threads, Deliver deliver) {
  return std::make_unique<ThreadedBackend>(queue, threads, read_block, std::move(deliver));
}

std::unique_ptr<ReadBackend> make_mmap_backend(ReadQueue& queue, int threads, Deliver deliver) {
  return std::make_unique<ThreadedBackend>(queue, threads, copy_block, std::move(deliver));
}

}  // namespace dsv
