#include "stages/moe/expert_cache.h"

#include <algorithm>

namespace dsv {
using State = ExpertState;
ExpertRequest::ExpertRequest(std::shared_ptr<ExpertCache> cache, std::vector<std::int32_t> experts)
    : cache_(std::move(cache)), experts_(std::move(experts)), states_(experts_.size(), State::waiting) {}

ExpertRequest::~ExpertRequest() {
  const std::lock_guard lock(cache_->mutex_);
  cache_->leave(*this);
}

flow::Result<std::optional<ExpertRequest::Ready>> ExpertRequest::next() {
  std::unique_lock lock(cache_->mutex_);
  if (taken_ == experts_.size()) return std::optional<Ready>();
  cache_->serve(*this);
  cache_->arrival_.wait(lock, [&] { return !arrived_.empty() || !failure_.ok(); });
  if (!failure_.ok()) return failure_;
  return std::optional<Ready>(cache_->take(*this));
}

std::shared_ptr<ExpertRequest> ExpertCache::request(std::vector<std::int32_t> experts) {
  std::shared_ptr<ExpertRequest> request(new ExpertRequest(shared_from_this(), std::move(experts)));
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

/// Drops the least recently used page that nobody reads, if all slots are occupied.
bool ExpertCache::make_room() {
  if (entries_.size() < slots_) return true;
  const auto victim =
      std::find_if(entries_.rbegin(), entries_.rend(), [](const Entry& e) { return e.page && e.pins == 0; });
  if (victim == entries_.rend()) return false;
  entries_.erase(std::next(victim).base());
  return true;
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
    if (!make_room()) return;
    const int expert = request.experts_[i];
    request.states_[i] = State::loading;
    entries_.push_front({expert, nullptr, 0});
    ++counts_.misses;
    loader_(expert, [self = shared_from_this(), expert](flow::Result<ExpertPagePtr> page) {
      self->loaded(expert, std::move(page));
    });
  }
}

void ExpertCache::deliver(ExpertRequest& request, std::size_t index, Entry& entry) {
  ++entry.pins;
  request.states_[index] = State::ready;
  request.arrived_.push_back(index);
  const auto it =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return &e == &entry; });
  entries_.splice(entries_.begin(), entries_, it);
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
  const int expert = request.experts_[index];
  if (++request.taken_ == request.experts_.size()) {
    requests_.remove(&request);
    pump();
  }
  // The page that is handed out gives its pin back when the last copy is gone.
  const ExpertPagePtr page = find(expert)->page;
  std::shared_ptr<void> pin(nullptr, [self = shared_from_this(), expert](void*) { self->unpin(expert); });
  struct Pinned {
    ExpertPagePtr page;
    std::shared_ptr<void> pin;
  };
  auto pinned = std::make_shared<Pinned>(Pinned{page, std::move(pin)});
  return {expert, ExpertPagePtr(pinned, pinned->page.get())};
}

}  // namespace dsv
