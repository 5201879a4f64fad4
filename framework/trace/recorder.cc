#include "framework/trace/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <unordered_map>
#include <utility>

namespace flow {
namespace {

std::atomic<std::uint64_t> next_serial{1};

constexpr std::int64_t kMemoryPeriod = 10'000'000;  // nanoseconds
constexpr std::size_t kBlock = 512;                 // spans

TracedNode traced(const GraphPlan& plan, const NodePlan& node) {
  TracedNode result{node.name, node.stage->name, node.executor, {}};
  for (const EdgePlan& edge : node.inputs) {
    result.edges.push_back(node.stage->inputs[static_cast<std::size_t>(edge.input)].name + " from " +
                           plan.nodes[static_cast<std::size_t>(edge.producer)].name);
  }
  return result;
}

}  // namespace

std::uint64_t resident_memory() {
  std::uint64_t pages = 0;
  std::ifstream file("/proc/self/statm");
  file.ignore(std::numeric_limits<std::streamsize>::max(), ' ') >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Written by one thread; the lock is for readers.
struct Recorder::Lane {
  std::mutex mutex;
  TraceLane data;                              // but for its stages
  std::vector<std::vector<StageSpan>> stages;  // in blocks: nothing is moved when there are more
  void add(StageSpan span) {
    if (stages.empty() || stages.back().size() == kBlock) stages.emplace_back().reserve(kBlock);
    stages.back().push_back(std::move(span));
  }
  TraceLane copy() const {
    TraceLane lane = data;
    for (const auto& block : stages) lane.stages.insert(lane.stages.end(), block.begin(), block.end());
    return lane;
  }
  std::vector<TraceLevel> levels;
  std::unordered_map<std::string, std::map<std::string, double, std::less<>>> totals;  // owner, name
};

Recorder::Recorder() : serial_(next_serial++) {}
Recorder::~Recorder() = default;

void Recorder::begin_run(const GraphPlan& plan) {
  const std::lock_guard lock(mutex_);
  for (const NodePlan& node : plan.nodes) trace_.nodes.push_back(traced(plan, node));
  trace_.begin = Telemetry::now();
}

void Recorder::end_run() {
  const std::lock_guard lock(mutex_);
  trace_.end = Telemetry::now();
}

/// The lane of this thread, remembered until the thread meets another recorder.
Recorder::Lane& Recorder::lane(Executor kind) {
  thread_local std::pair<std::uint64_t, Lane*> mine{0, nullptr};
  if (mine.first != serial_) {
    const std::lock_guard lock(mutex_);
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->data.executor = kind;
    mine = {serial_, lanes_.back().get()};
  }
  return *mine.second;
}

void Recorder::record(Executor executor, StageSpan span) {
  sample_memory(span.end);
  Lane& own = lane(executor);
  const std::lock_guard lock(own.mutex);
  own.data.executor = executor;
  own.add(std::move(span));
}

void Recorder::add(const std::string& owner, std::string_view name, double amount) {
  Lane& own = lane(Executor::compute);
  const std::lock_guard lock(own.mutex);
  auto& totals = own.totals[owner];
  const auto found = totals.find(name);
  if (found != totals.end()) {
    found->second += amount;
  } else {
    totals.emplace(name, amount);
  }
}

void Recorder::level(const std::string& owner, std::string_view name, double value) {
  Lane& own = lane(Executor::compute);
  const std::lock_guard lock(own.mutex);
  own.levels.push_back({fmt::format("{}.{}", owner, name), Telemetry::now(), value});
}

void Recorder::sample_memory(std::int64_t now) {
  std::int64_t due = memory_due_.load(std::memory_order_relaxed);
  if (now < due || !memory_due_.compare_exchange_strong(due, now + kMemoryPeriod)) return;
  level("process", "memory", static_cast<double>(resident_memory()));
}

void Recorder::span(const std::string& owner, std::string_view name, Executor kind, std::int64_t begin,
                    std::int64_t end) {
  Lane& own = lane(kind);
  const std::lock_guard lock(own.mutex);
  if (own.stages.empty()) own.data.executor = kind;
  own.data.scopes.push_back({owner, std::string(name), kind, begin, end});
}

Trace Recorder::trace() const {
  const std::lock_guard lock(mutex_);
  Trace copy = trace_;
  if (copy.end == 0) copy.end = Telemetry::now();
  if (copy.begin == 0) copy.begin = copy.end;
  for (const auto& lane : lanes_) {
    const std::lock_guard lane_lock(lane->mutex);
    copy.lanes.push_back(lane->copy());
    copy.levels.insert(copy.levels.end(), lane->levels.begin(), lane->levels.end());
    for (const auto& [owner, totals] : lane->totals) {
      for (const auto& [name, total] : totals) copy.totals[fmt::format("{}.{}", owner, name)] += total;
    }
  }
  std::stable_sort(copy.levels.begin(), copy.levels.end(),
                   [](const TraceLevel& a, const TraceLevel& b) { return a.time < b.time; });
  return copy;
}

}  // namespace flow
