// ReadQueue: the reads that wait for a back end, cut into blocks, the needed ones before the guessed ones.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "framework/core/recycler.h"
#include "framework/core/status.h"
#include "framework/core/telemetry.h"
#include "stages/model/file.h"

namespace dsv {

/// Bytes [offset, offset + out.size()) of a file, and where they go.
struct Read {
  const InputFile* file = nullptr;
  std::uint64_t offset = 0;
  std::span<std::byte> out;
};

using Reads = flow::StepVector<Read>;

/// Whether somebody waits for the bytes, or may want them later.
enum class Urgency : std::uint8_t { needed, guessed };

/// Reads that are asked for together. Fields belong to the queue.
struct ReadBatch {
  const void* owner = nullptr;
  Urgency urgency = Urgency::needed;
  std::function<void(flow::Status)> done;
  std::size_t open = 0;  ///< blocks that are not done
  flow::Status status;   ///< the first error
};
using ReadTicket = std::shared_ptr<ReadBatch>;

/// A stretch of one file that is read at once, and the pieces of it that somebody wants.
struct ReadBlock {
  struct Piece {
    std::uint64_t offset = 0;  ///< in the file; pieces ascend and do not overlap
    std::span<std::byte> out;
  };
  const InputFile* file = nullptr;
  std::uint64_t begin = 0, end = 0;
  flow::StepVector<Piece> pieces;
  ReadTicket batch;
  bool guessed = false;    ///< it was taken as a guess
  std::int64_t taken = 0;  ///< when a back end took it, in nanoseconds of the steady clock
};

/// Longest block.
inline constexpr std::uint64_t kBlockBytes = 512 * 1024;
/// What direct reads are aligned to; also the widest gap that one read bridges.
inline constexpr std::uint64_t kPageBytes = 4096;

/// How often those who wait for reads look whether the run has been cancelled.
inline constexpr std::chrono::milliseconds kGlance{20};

/// Puts reads in file order, joins neighbours and cuts at multiples of kBlockBytes. Reads must not overlap.
flow::StepVector<ReadBlock> make_blocks(Reads reads);

/// What was read.
struct ReadCounts {
  std::uint64_t reads = 0, bytes = 0;  ///< blocks, and their length
  std::uint64_t used = 0;              ///< bytes that were asked for
};

/// Between those who ask and one back end. At most `limit` blocks are with the back end at once, and guessed
/// ones take at most half of that. Thread-safe; callbacks run without a lock held.
class ReadQueue {
 public:
  ReadQueue(int limit, flow::Telemetry telemetry) : limit_(limit), telemetry_(std::move(telemetry)) {}

  // For those who ask.

  /// `done` is called once, later, from any thread. There must be something to read.
  void put(ReadTicket batch, Reads reads);
  /// What was guessed is needed now.
  void hurry(const ReadTicket& batch);
  /// Gives up what has not been started; the batch ends with an error.
  void drop(const ReadTicket& batch);
  /// Gives up what `owner` asked for, and waits until none of its callbacks runs or will run.
  void leave(const void* owner);

  // For the back end.

  /// Waits for a block; nullopt when the queue is closed.
  std::optional<ReadBlock> take();
  /// nullopt when there is none now.
  std::optional<ReadBlock> try_take();
  /// Passes a block on that was taken and read.
  void finish(ReadBlock block, flow::Status status);
  bool closed() const;

  /// Ends waiting, now and later; what has not been started fails.
  void close();
  /// Called whenever there may be a block to take. Set before the back end starts.
  void on_change(std::function<void()> wake) { wake_ = std::move(wake); }
  ReadCounts counts() const;

 private:
  using Ended = flow::StepVector<ReadTicket>;
  using Line = std::deque<ReadBlock, flow::Recycled<ReadBlock>>;
  bool available() const;
  ReadBlock pop();
  void end(ReadBlock& block, const flow::Status& status, Ended& ended);
  template <class Which>
  void give_up(const Which& which, Ended& ended);
  void announce(Ended ended);

  const int limit_;
  const flow::Telemetry telemetry_;
  std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable change_;  // something to take, or closed
  std::condition_variable left_;    // a callback has returned
  Line needed_, guessed_;
  flow::StepMap<const void*, int> owners_;  // batches whose callback has not returned
  int in_flight_ = 0, guesses_in_flight_ = 0;
  std::uint64_t bytes_in_flight_ = 0;
  bool closed_ = false;
  ReadCounts counts_;
};

}  // namespace dsv
