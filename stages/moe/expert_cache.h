// A bounded cache of expert pages, filled asynchronously.
//
// A request names the experts that one pass needs. The cache asks its loader for the missing ones while the
// rest of the graph goes on; the consumer takes pages as they become ready. Only the request being served
// pins pages, and a consumer that asks is served at once, so that memory never exceeds the slots and no
// order of passes can block another one for good, with one slot too. A policy chooses what leaves a full
// cache.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "stages/moe/cache_policy.h"
#include "stages/moe/expert_page.h"

namespace dsv {

class ExpertCache;
using ExpertPagePtr = std::shared_ptr<const ExpertPage>;

/// Where one expert of a request is.
enum class ExpertState : std::uint8_t { waiting, loading, ready, taken };

/// When the missing experts of a request are read: all at once, or each when its consumer asks for it, as if
/// nobody had thought ahead.
enum class Reading : std::uint8_t { ahead, needed };

/// The experts of one pass in one layer. Dropping it gives up what was not taken.
class ExpertRequest {
 public:
  struct Ready {
    int expert = 0;
    ExpertPagePtr page;  ///< its slot stays occupied until the last copy is gone
  };
  using Experts = flow::StepVector<std::int32_t>;
  /// For ExpertCache::request().
  ExpertRequest(std::shared_ptr<ExpertCache> cache, Experts experts, Phase phase, Reading reading);
  ~ExpertRequest();
  /// The next expert in memory, in the order of arrival; waits when none is. nullopt after the last one. An
  /// error when a read fails or the run is cancelled. Drop the page before asking for the next one.
  flow::Result<std::optional<Ready>> next();
  /// Asks for the same experts again, as if none had been taken; those taken must have been dropped.
  void restart();

 private:
  friend class ExpertCache;
  /// Whether another read may start.
  bool wants_more() const;

  std::shared_ptr<ExpertCache> cache_;
  Experts experts_;  // distinct, in loading order
  Phase phase_;
  const Reading reading_;
  bool asked_ = false;  // a consumer waits for the next one
  flow::StepVector<ExpertState> states_;
  std::deque<std::size_t, flow::Recycled<std::size_t>> arrived_;  // indices of ready experts
  std::size_t taken_ = 0;
  flow::Status failure_;
};

/// What a cache did.
struct ExpertCounts {
  std::uint64_t hits = 0, misses = 0;
};

class ExpertCache : public std::enable_shared_from_this<ExpertCache> {
 public:
  using Done = std::function<void(flow::Result<ExpertPagePtr>)>;
  /// Gives the page when it is at hand; else starts loading it and calls `done` once, later, from any thread.
  using Loader = std::function<ExpertPagePtr(int expert, Done done)>;

  /// A cache of `slots` pages for experts [0, experts). Waiting ends when `cancelled` becomes true.
  ExpertCache(std::size_t slots, std::size_t experts, LeavesFirst policy, Loader loader,
              const std::atomic<bool>& cancelled)
      : slots_(slots), policy_(policy), loader_(std::move(loader)), cancelled_(cancelled), uses_(experts) {}

  /// Starts loading what is missing of `experts`, which are distinct and in the order to load them.
  std::shared_ptr<ExpertRequest> request(ExpertRequest::Experts experts, Phase phase = Phase::decode,
                                         Reading reading = Reading::ahead);
  /// Whether an expert is in memory or on its way.
  bool holds(int expert) const;
  ExpertCounts counts() const;

 private:
  friend class ExpertRequest;
  struct Entry {
    int expert = 0;
    ExpertPagePtr page;  // null while it is being loaded
    int pins = 0;
  };
  Entry* find(int expert);
  bool make_room();
  void load(ExpertRequest& request, std::size_t index);
  void use(int expert, Phase phase);
  void serve(ExpertRequest& request);
  void pump();
  void deliver(ExpertRequest& request, std::size_t index, Entry& entry);
  void revoke(ExpertRequest& request);
  void unpin(int expert);
  void loaded(int expert, flow::Result<ExpertPagePtr> page);
  void leave(ExpertRequest& request);
  ExpertRequest::Ready take(ExpertRequest& request);

  const std::size_t slots_;
  const LeavesFirst policy_;
  const Loader loader_;
  const std::atomic<bool>& cancelled_;
  mutable std::mutex mutex_;
  std::condition_variable arrival_;
  std::list<Entry> entries_;            // at most slots_
  std::vector<ExpertUse> uses_;         // by expert, in memory or not
  std::uint64_t time_ = 0;              // uses of all
  std::list<ExpertRequest*, flow::Recycled<ExpertRequest*>> requests_;  // the first one is being served
  ExpertCounts counts_;
};

}  // namespace dsv
