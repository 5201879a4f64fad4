// Rehearsal: makes any back end slow, unordered or faulty, for tests and measurements.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <string>
#include <thread>

#include "stages/model/io/backend.h"

namespace dsv {

/// What to rehearse.
struct RehearsalPlan {
  double delay = 0;          ///< seconds that every read takes at least
  bool shuffle = false;      ///< each read takes another time, up to twice the delay
  int fault_at = 0;          ///< number of the read that fails, from 1; 0 = none
  bool fault_short = false;  ///< it fails as in a file that has been cut; else as on a bad disk

  bool any() const { return delay > 0 || fault_at > 0; }
  /// Reads "eio@3" or "short@3" into the fields of the fault.
  flow::Status set_fault(std::string_view text);
};

/// Stands behind a back end and passes its blocks on, late or with an error.
class Rehearsal {
 public:
  /// Delays end when `cancelled` becomes true.
  Rehearsal(RehearsalPlan plan, const std::atomic<bool>& cancelled, Deliver next);
  /// Everything has been passed on by then.
  ~Rehearsal();
  void deliver(ReadBlock block, flow::Status status);

 private:
  struct Late {
    ReadBlock block;
    flow::Status status;
  };
  void run(const std::stop_token& stop);
  std::int64_t due(const ReadBlock& block, std::uint64_t number) const;

  const RehearsalPlan plan_;
  const std::atomic<bool>& cancelled_;
  const Deliver next_;
  std::mutex mutex_;
  std::condition_variable_any change_;
  std::multimap<std::int64_t, Late> late_;  // by the time they are due
  std::uint64_t number_ = 0;
  std::jthread thread_;
};

}  // namespace dsv
