#include "stages/model/io/read_queue.h"

#include <algorithm>
#include <tuple>

namespace dsv {
using flow::Status;
namespace {

/// Where a read that starts at `offset` has to be cut.
std::uint64_t next_cut(std::uint64_t offset) {
  return (offset / kBlockBytes + 1) * kBlockBytes;
}

}  // namespace

flow::StepVector<ReadBlock> make_blocks(Reads reads) {
  std::sort(reads.begin(), reads.end(), [](const Read& a, const Read& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
  flow::StepVector<ReadBlock> blocks;
  for (Read read : reads) {
    while (!read.out.empty()) {
      const auto joins = [&](const ReadBlock& b) {
        return b.file == read.file && read.offset >= b.end && read.offset - b.end < kPageBytes &&
               read.offset < next_cut(b.begin);
      };
      if (blocks.empty() || !joins(blocks.back()))
        blocks.push_back({read.file, read.offset, read.offset, {}, nullptr});
      ReadBlock& block = blocks.back();
      const auto size = std::min<std::uint64_t>(read.out.size(), next_cut(block.begin) - read.offset);
      block.pieces.push_back({read.offset, read.out.first(size)});
      block.end = read.offset += size;
      read.out = read.out.subspan(size);
    }
  }
  return blocks;
}

void ReadQueue::put(ReadTicket batch, Reads reads) {
  flow::StepVector<ReadBlock> blocks = make_blocks(std::move(reads));
  {
    const std::lock_guard lock(mutex_);
    ++owners_[batch->owner];
    batch->open = blocks.size();
    auto& line = batch->urgency == Urgency::needed ? needed_ : guessed_;
    for (ReadBlock& block : blocks) {
      block.batch = batch;
      line.push_back(std::move(block));
    }
    change_.notify_all();
  }
  if (wake_) wake_();
  if (closed()) drop(batch);
}

void ReadQueue::hurry(const ReadTicket& batch) {
  {
    const std::lock_guard lock(mutex_);
    if (batch->urgency == Urgency::needed) return;
    batch->urgency = Urgency::needed;
    for (ReadBlock& block : guessed_) {
      if (block.batch == batch) needed_.push_back(std::move(block));
    }
    std::erase_if(guessed_, [](const ReadBlock& block) { return block.batch == nullptr; });
    change_.notify_all();
  }
  if (wake_) wake_();
}

template <class Which>
void ReadQueue::give_up(const Which& which, Ended& ended) {
  for (auto* line : {&needed_, &guessed_}) {
    for (ReadBlock& block : *line) {
      if (which(*block.batch)) end(block, Status::error("this read was given up"), ended);
    }
    std::erase_if(*line, [](const ReadBlock& block) { return block.batch == nullptr; });
  }
}

void ReadQueue::drop(const ReadTicket& batch) {
  Ended ended;
  {
    const std::lock_guard lock(mutex_);
    give_up([&](const ReadBatch& b) { return &b == batch.get(); }, ended);
  }
  announce(std::move(ended));
}

void ReadQueue::leave(const void* owner) {
  Ended ended;
  {
    const std::lock_guard lock(mutex_);
    give_up([&](const ReadBatch& b) { return b.owner == owner; }, ended);
  }
  announce(std::move(ended));
  std::unique_lock lock(mutex_);
  left_.wait(lock, [&] { return !owners_.contains(owner); });
}

void ReadQueue::close() {
  Ended ended;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    give_up([](const ReadBatch&) { return true; }, ended);
    change_.notify_all();
  }
  announce(std::move(ended));
  if (wake_) wake_();
}

bool ReadQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

bool ReadQueue::available() const {
  if (in_flight_ >= limit_) return false;
  return !needed_.empty() || (!guessed_.empty() && guesses_in_flight_ < std::max(1, limit_ / 2));
}

ReadBlock ReadQueue::pop() {
  auto& line = needed_.empty() ? guessed_ : needed_;
  ReadBlock block = std::move(line.front());
  line.pop_front();
  block.guessed = &line == &guessed_;
  block.taken = flow::Telemetry::now();
  ++in_flight_;
  guesses_in_flight_ += block.guessed;
  bytes_in_flight_ += block.end - block.begin;
  telemetry_.level("bytes in flight", static_cast<double>(bytes_in_flight_));
  return block;
}

std::optional<ReadBlock> ReadQueue::take() {
  std::unique_lock lock(mutex_);
  change_.wait(lock, [&] { return closed_ || available(); });
  if (closed_) return std::nullopt;
  return pop();
}

std::optional<ReadBlock> ReadQueue::try_take() {
  const std::lock_guard lock(mutex_);
  if (closed_ || !available()) return std::nullopt;
  return pop();
}

/// One block less; its batch goes to `ended` when it was the last one.
void ReadQueue::end(ReadBlock& block, const Status& status, Ended& ended) {
  const ReadTicket batch = std::move(block.batch);
  block.batch = nullptr;
  if (batch->status.ok()) batch->status = status;
  if (--batch->open == 0) ended.push_back(batch);
}

void ReadQueue::finish(ReadBlock block, Status status) {
  Ended ended;
  telemetry_.record("read", flow::Executor::io, block.taken, flow::Telemetry::now());
  telemetry_.add("bytes", static_cast<double>(block.end - block.begin));
  {
    const std::lock_guard lock(mutex_);
    --in_flight_;
    guesses_in_flight_ -= block.guessed;
    bytes_in_flight_ -= block.end - block.begin;
    telemetry_.level("bytes in flight", static_cast<double>(bytes_in_flight_));
    ++counts_.reads;
    counts_.bytes += block.end - block.begin;
    for (const ReadBlock::Piece& piece : block.pieces) counts_.used += piece.out.size();
    end(block, status, ended);
    change_.notify_all();
  }
  if (wake_) wake_();
  announce(std::move(ended));
}

/// Calls back, without the lock: a callback may ask for more.
void ReadQueue::announce(Ended ended) {
  for (const ReadTicket& batch : ended) {
    std::exchange(batch->done, nullptr)(batch->status);
    const std::lock_guard lock(mutex_);
    if (--owners_[batch->owner] == 0) owners_.erase(batch->owner);
    left_.notify_all();
  }
}

ReadCounts ReadQueue::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace dsv
