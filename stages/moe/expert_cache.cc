#include "stages/moe/expert_cache.h"

#include <algorithm>

namespace dsv {
using State = ExpertState;
namespace {

/// After so many uses for each slot, counts are halved: what was popular once does not stay for ever.
constexpr std::uint64_t kAging = 64;

}  // namespace

ExpertRequest::ExpertRequest(std::shared_ptr<ExpertCache> cache, Experts experts, Phase phase,
                             Reading reading)
    : cache_(std::move(cache)),
      experts_(std::move(experts)),
      phase_(phase),
      reading_(reading),
      states_(experts_.size(), State::waiting) {}

ExpertRequest::~ExpertRequest() {
  const std::lock_guard lock(cache_->mutex_);
  cache_->leave(*this);
}

flow::Result<std::optional<ExpertRequest::Ready>> ExpertRequest::next() {
  std::unique_lock lock(cache_->mutex_);
  if (taken_ == experts_.size()) return std::optional<Ready>();
  asked_ = true;
  cache_->serve(*this);
  if (reading_ == Reading::needed) cache_->pump();
  const auto news = [&] { return !arrived_.empty() || !failure_.ok(); };
  while (!cache_->arrival_.wait_for(lock, kGlance, news)) {
    if (cache_->cancelled_) return flow::Status::error("the run was cancelled");
  }
  if (!failure_.ok()) return failure_;
  return std::optional<Ready>(cache_->take(*this));
}

bool ExpertRequest::wants_more() const {
  if (reading_ == Reading::ahead) return true;
  return asked_ && std::none_of(states_.begin(), states_.end(),
                                [](State state) { return state == State::loading || state == State::ready; });
}

void ExpertRequest::restart() {
  const std::lock_guard lock(cache_->mutex_);
  cache_->leave(*this);
  std::fill(states_.begin(), states_.end(), State::waiting);
  taken_ = 0;
  asked_ = false;
  failure_ = {};
  if (experts_.empty()) return;
  cache_->requests_.push_back(this);
  cache_->pump();
}

std::shared_ptr<ExpertRequest> ExpertCache::request(ExpertRequest::Experts experts, Phase phase,
                                                    Reading reading) {
  auto request = flow::make_recycled<ExpertRequest>(shared_from_this(), std::move(experts), phase, reading);
  const std::lock_guard lock(mutex_);
  requests_.push_back(request.get());
  pump();
  return request;
}

ExpertCounts ExpertCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

ExpertCache::Entry* ExpertCache::find(int expert) {
  const auto it =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.expert == expert; });
  return it == entries_.end() ? nullptr : &*it;
}

bool ExpertCache::holds(int expert) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.expert == expert; });
}

/// Drops the page that the policy likes least of those that nobody reads, if all slots are occupied.
bool ExpertCache::make_room() {
  if (entries_.size() < slots_) return true;
  const auto use_of = [this](const Entry& e) -> const ExpertUse& {
    return uses_[static_cast<std::size_t>(e.expert)];
  };
  auto victim = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (!it->page || it->pins > 0) continue;
    if (victim == entries_.end() || policy_(use_of(*it), use_of(*victim))) victim = it;
  }
  if (victim == entries_.end()) return false;
  entries_.erase(victim);
  return true;
}

void ExpertCache::use(int expert, Phase phase) {
  ExpertUse& use = uses_[static_cast<std::size_t>(expert)];
  use.last = ++time_;
  if (phase == Phase::decode) use.last_decode = time_;
  ++use.count;
  if (time_ % (kAging * slots_) == 0) {
    for (ExpertUse& each : uses_) each.count /= 2;
  }
}

/// Moves a request to the front; the one that was there keeps only what its consumer has taken.
void ExpertCache::serve(ExpertRequest& request) {
  if (requests_.empty() || requests_.front() == &request) return;
  revoke(*requests_.front());
  requests_.remove(&request);
  requests_.push_front(&request);
  pump();
}

/// Gives the request being served what is in memory, then starts loads as far as there are slots.
void ExpertCache::pump() {
  if (requests_.empty()) return;
  ExpertRequest& request = *requests_.front();
  for (std::size_t i = 0; i < request.experts_.size(); ++i) {
    if (request.states_[i] != State::waiting) continue;
    Entry* entry = find(request.experts_[i]);
    if (entry && entry->page) {
      ++counts_.hits;
      deliver(request, i, *entry);
    } else if (entry) {
      request.states_[i] = State::loading;
    }
  }
  for (std::size_t i = 0; i < request.experts_.size(); ++i) {
    if (request.states_[i] != State::waiting) continue;
    if (!request.wants_more()) return;
    if (!make_room()) return;
    load(request, i);
  }
}

void ExpertCache::load(ExpertRequest& request, std::size_t index) {
  const int expert = request.experts_[index];
  request.states_[index] = State::loading;
  entries_.push_front({expert, nullptr, 0});
  ++counts_.misses;
  entries_.front().page =
      loader_(expert, [self = shared_from_this(), expert](flow::Result<ExpertPagePtr> page) {
        self->loaded(expert, std::move(page));
      });
  if (entries_.front().page) deliver(request, index, entries_.front());
}

void ExpertCache::deliver(ExpertRequest& request, std::size_t index, Entry& entry) {
  ++entry.pins;
  request.states_[index] = State::ready;
  request.arrived_.push_back(index);
  use(entry.expert, request.phase_);
  arrival_.notify_all();
}

void ExpertCache::revoke(ExpertRequest& request) {
  for (const std::size_t i : request.arrived_) --find(request.experts_[i])->pins;
  request.arrived_.clear();
  for (State& state : request.states_) {
    if (state != State::taken) state = State::waiting;
  }
}

void ExpertCache::unpin(int expert) {
  const std::lock_guard lock(mutex_);
  --find(expert)->pins;
  pump();
}

void ExpertCache::loaded(int expert, flow::Result<ExpertPagePtr> page) {
  const std::lock_guard lock(mutex_);
  Entry* entry = find(expert);
  if (page.ok())
    entry->page = *std::move(page);
  else
    entries_.remove_if([&](const Entry& e) { return e.expert == expert; });
  if (!requests_.empty()) {
    ExpertRequest& request = *requests_.front();
    for (std::size_t i = 0; i < request.experts_.size(); ++i) {
      if (request.experts_[i] != expert || request.states_[i] != State::loading) continue;
      if (page.ok())
        deliver(request, i, *entry);
      else
        request.failure_ = page.status();
    }
  }
  if (page.ok()) pump();
  arrival_.notify_all();
}

/// Ends a request: the next one in line is served.
void ExpertCache::leave(ExpertRequest& request) {
  revoke(request);
  requests_.remove(&request);
  pump();
}

ExpertRequest::Ready ExpertCache::take(ExpertRequest& request) {
  const std::size_t index = request.arrived_.front();
  request.arrived_.pop_front();
  request.states_[index] = State::taken;
  request.asked_ = false;
  const int expert = request.experts_[index];
  if (++request.taken_ == request.experts_.size()) {
    requests_.remove(&request);
    pump();
  }
  // The page that is handed out gives its pin back when the last copy is gone, and before that its hold on the
  // memory: whoever gets the slot then finds it free.
  struct Pinned {
    std::shared_ptr<void> pin;
    ExpertPagePtr page;
  };
  std::shared_ptr<void> pin(
      nullptr, [self = shared_from_this(), expert](void*) { self->unpin(expert); }, flow::Recycled<void*>());
  auto pinned = flow::make_recycled<Pinned>(Pinned{std::move(pin), find(expert)->page});
  return {expert, ExpertPagePtr(pinned, pinned->page.get())};
}

}  // namespace dsv
