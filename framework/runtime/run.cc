#include "framework/runtime/run.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace flow {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kGrace{1};      // for bodies that ask whether the run is cancelled
constexpr Seconds kHeartbeat{1};  // a run that says nothing for so long says what it is doing

int thread_count(const RuntimePlan& plan) {
  return plan.threads > 0 ? plan.threads : tbb::info::default_concurrency();
}

}  // namespace

Run::Run(GraphPlan plan, RunOptions options)
    : plan_(std::move(plan)),
      requests_(std::move(options.taps)),
      probes_(std::move(options.probes)),
      control_(std::move(options.console), std::move(options.report), std::move(options.recorder)),
      threads_(thread_count(plan_.runtime)) {}

Result<std::vector<PlanLine>> Run::dry_run() {
  Assembly assembly(plan_, control_);
  FLOW_TRY(assembly.make());
  FLOW_ASSIGN(std::vector<PlanLine> lines, assembly.needs());
  lines.push_back({"program", resident_memory(), 0, 0});
  return lines;
}

Status Run::run() {
  if (started_.exchange(true)) return Status::error("this run has been started already");
  if (control_.stopped()) return control_.status();
  FLOW_TRY(taps_.attach(requests_, probes_, plan_));
  return guarded([&] { return start(); });
}

Status Run::start() {
  // Allows more threads than there are processors; the arena sets the number.
  const tbb::global_control allowed(
      tbb::global_control::max_allowed_parallelism,
      static_cast<std::size_t>(std::max(threads_, tbb::info::default_concurrency())));
  std::thread runner;
  FLOW_TRY(guarded([&]() -> Status {
             runner = std::thread([self = shared_from_this()] { self->execute(); });
             return {};
           }).in(place()));
  if (watch()) {
    runner.join();
    return control_.status();
  }
  left_behind_ = true;
  runner.detach();
  taps_.discard();
  return control_.by_user() ? stall_ : control_.status();
}

void Run::execute() {
  control_.fail(guarded([&] {
    tbb::task_arena arena(threads_);
    return arena.execute([&] { return execute_in_arena(arena); });
  }));
  if (!control_.stopped()) control_.fail(guarded([&] { return taps_.commit(); }));
  control_.complete();
  taps_.discard();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

Status Run::execute_in_arena(tbb::task_arena& arena) {
  Assembly assembly(plan_, control_);
  FLOW_TRY(assembly.make());
  control_.fail(assembly.open());
  if (!control_.stopped())
    control_.fail(guarded([&]() -> Status {
                    run_graph(assembly, arena);
                    return {};
                  }).in(place()));
  return assembly.close();
}

/// Of errors that belong to no stage.
std::string Run::place() const {
  return fmt::format("{}: starting the run", plan_.file);
}

void Run::run_graph(const Assembly& assembly, tbb::task_arena& arena) {
  FlowGraph graph(plan_, assembly.stages(), control_, arena);
  const auto publish = [this](FlowGraph* running) {
    const std::lock_guard lock(mutex_);
    graph_ = running;
  };
  if (control_.recorder()) control_.recorder()->begin_run(plan_);
  publish(&graph);
  control_.fail(guarded([&]() -> Status {
    graph.run();
    return {};
  }));
  publish(nullptr);
  if (control_.recorder()) control_.recorder()->end_run();
}

/// Waits for the end of the run. False when it has to be left behind because a body hangs.
bool Run::watch() {
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return ended_; };
  const Seconds limit = plan_.runtime.watchdog > 0 ? Seconds(plan_.runtime.watchdog) : Seconds::max();
  const Seconds period = std::clamp<Seconds>(limit / 8, std::chrono::milliseconds(1), kHeartbeat);
  std::uint64_t beats = 0;
  auto alive = Clock::now();
  while (!changed_.wait_for(lock, period, ended)) {
    if (graph_ && control_.quiet() >= kHeartbeat.count()) say(lock, graph_->running());
    const std::uint64_t now = graph_ ? graph_->beats() : 0;
    if (!graph_ || now != std::exchange(beats, now)) {
      alive = Clock::now();
    } else if (Clock::now() - alive >= limit) {
      return let_go(lock, limit.count());
    }
  }
  return true;
}

/// Tells the person watching what runs, without the lock: a terminal may block.
void Run::say(std::unique_lock<std::mutex>& lock, const std::string& running) {
  if (running.empty()) return;
  lock.unlock();
  control_.console().note("running: " + running);
  lock.lock();
}

/// Stops a run that makes no progress. False when a body does not return even then.
bool Run::let_go(std::unique_lock<std::mutex>& lock, double seconds) {
  stall_ = graph_->stall(seconds);
  control_.fail(stall_);
  return changed_.wait_for(lock, kGrace, [this] { return ended_; });
}

}  // namespace flow
