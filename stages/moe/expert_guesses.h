// Expert pages that are read before a pass asks for them.
#pragma once

#include <map>
#include <mutex>
#include <span>

#include "stages/moe/expert_cache.h"

namespace dsv {

/// What guesses came to.
struct GuessCounts {
  std::uint64_t started = 0;  ///< reads
  std::uint64_t used = 0;     ///< pages that a pass asked for
  std::uint64_t wrong = 0;    ///< pages that the pass of their layer did not ask for
};

/// Reads pages ahead into room of their own: a guess takes no slot of a cache and pushes nothing out, and its
/// reads give way to those that a pass waits for. A page that a pass asks for moves to that pass's cache,
/// arrived or not. Thread-safe.
class ExpertGuesses {
 public:
  using Done = ExpertCache::Done;
  /// Starts a read of low urgency.
  using Start = std::function<ReadTicket(int layer, int expert, Done done)>;
  /// What can be done with a started read: somebody waits for it now; nobody wants it any more.
  using Change = std::function<void(const ReadTicket&)>;

  ExpertGuesses(std::size_t room, Start start, Change hurry, Change drop)
      : room_(room), start_(std::move(start)), hurry_(std::move(hurry)), drop_(std::move(drop)) {}

  /// Reads one page ahead, unless it is read already or there is no room.
  void guess(int layer, int expert);
  /// What a pass asks for: the page, if it is there. If it is on its way, true in `coming` and `done` is
  /// called when it comes. Else neither.
  struct Taken {
    ExpertPagePtr page;
    bool coming = false;
  };
  Taken take(int layer, int expert, const Done& done);
  /// A pass has asked for `wanted` in `layer`: other guesses for that layer were wrong, and go.
  void settle(int layer, std::span<const std::int32_t> wanted);
  GuessCounts counts() const;

 private:
  struct Guess {
    ExpertPagePtr page;  // null while it is being read
    ReadTicket ticket;
    Done waiting;  // a pass that has taken it over
  };
  using Key = std::pair<int, int>;  // layer, expert
  void arrived(Key key, const std::shared_ptr<Guess>& guess, flow::Result<ExpertPagePtr> page);

  const std::size_t room_;
  const Start start_;
  const Change hurry_, drop_;
  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<Guess>> guesses_;
  std::size_t leaving_ = 0;  // dropped, but still being read
  GuessCounts counts_;
};

}  // namespace dsv
