#include "stages/model/io/storage.h"

namespace dsv {
using flow::Result;
using flow::Status;
namespace {

constexpr int kUringDepth = 16, kThreads = 8;

}  // namespace

void Storage::describe(flow::ServiceSpec<Options>& spec) {
  spec.doc(
      "Reads expert pages, Engram rows and streamed weights: io_uring (direct, past the page cache), pread "
      "threads (through it), or threads that copy from the mapped files. auto is io_uring where the kernel "
      "allows it, else pread.");
  spec.option("backend", &Options::backend, "who reads; another one than auto must work")
      .choices({"auto", "io_uring", "pread", "mmap"});
  spec.option("depth", &Options::depth, "reads at once: of the ring, or threads; 0 = 16 or 8").range(0, 1024);
  spec.option("delay", &Options::delay, "rehearsal of a slow disk: seconds that each read takes")
      .range(0, 60);
  spec.option("shuffle", &Options::shuffle, "rehearsal: reads take between nothing and twice the delay");
  spec.option("fault", &Options::fault, "rehearsal: eio@N or short@N, an error of the N-th read");
}

Storage::~Storage() {
  if (queue_) queue_->close();
  backend_.reset();
  rehearsal_.reset();
}

int Storage::depth(bool uring) const {
  return options_.depth > 0 ? options_.depth : uring ? kUringDepth : kThreads;
}

Result<RehearsalPlan> Storage::rehearsal_plan() const {
  RehearsalPlan plan{.delay = options_.delay, .shuffle = options_.shuffle};
  if (plan.shuffle && plan.delay <= 0) return Status::error("shuffle needs a delay");
  if (!options_.fault.empty()) FLOW_TRY(plan.set_fault(options_.fault));
  return plan;
}

Status Storage::open(const flow::Opening& opening) {
  console_ = &opening.console();
  cancelled_ = &opening.cancel_flag();
  FLOW_TRY(start(opening));
  FLOW_ASSIGN(const RehearsalPlan plan, rehearsal_plan());
  console_->note("io: " + chosen_ + (plan.any() ? "; this is a rehearsal" : ""));
  return {};
}

Status Storage::start(const flow::Opening& opening) {
  FLOW_ASSIGN(const RehearsalPlan plan, rehearsal_plan());
  const auto make_queue = [&](bool uring) {
    queue_ = std::make_unique<ReadQueue>(depth(uring), opening.telemetry());
    Deliver finish = [queue = queue_.get()](ReadBlock block, Status status) {
      queue->finish(std::move(block), std::move(status));
    };
    if (!plan.any()) return finish;
    rehearsal_ = std::make_unique<Rehearsal>(plan, *cancelled_, std::move(finish));
    return Deliver([rehearsal = rehearsal_.get()](ReadBlock block, Status status) {
      rehearsal->deliver(std::move(block), std::move(status));
    });
  };
  if (options_.backend == "auto" || options_.backend == "io_uring") {
    Deliver deliver = make_queue(true);
    auto backend = make_uring_backend(*queue_, depth(true), std::move(deliver),
                                      [this](std::string words) { fall_back(std::move(words)); });
    if (backend.ok()) {
      backend_ = *std::move(backend);
      chosen_ = fmt::format("io_uring, direct, {} reads at once", depth(true));
      return {};
    }
    if (options_.backend == "io_uring") return backend.status();
    fall_back(backend.status().message() + "; pread instead");
  }
  const bool mapped = options_.backend == "mmap";
  Deliver deliver = make_queue(false);
  backend_ = mapped ? make_mmap_backend(*queue_, depth(false), std::move(deliver))
                    : make_pread_backend(*queue_, depth(false), std::move(deliver));
  chosen_ = fmt::format("{}, {} threads", mapped ? "mmap" : "pread", depth(false));
  return {};
}

/// The first one is told at once; all are in the report.
void Storage::fall_back(std::string words) {
  const std::lock_guard lock(mutex_);
  if (fallbacks_.empty()) console_->note("io: " + words);
  fallbacks_.push_back(std::move(words));
}

Result<std::vector<flow::PlanLine>> Storage::plan(const flow::Opening&) {
  FLOW_TRY(rehearsal_plan().status());
  const bool uring = options_.backend == "auto" || options_.backend == "io_uring";
  const std::uint64_t memory = uring ? static_cast<std::uint64_t>(depth(true)) * uring_slot_bytes() : 0;
  return std::vector<flow::PlanLine>{{"memory of reads", memory, 0, 0}};
}

void Storage::close(flow::RunReport& report) {
  const ReadCounts counts = queue_ ? queue_->counts() : ReadCounts();
  const std::lock_guard lock(mutex_);
  report.set("io", {{"backend", chosen_},
                    {"fallbacks", boost::json::value_from(fallbacks_)},
                    {"reads", counts.reads},
                    {"bytes_read", counts.bytes},
                    {"bytes_used", counts.used}});
}

ReadTicket Reader::start(Reads reads, Urgency urgency, std::function<void(Status)> done) {
  auto batch = flow::make_recycled<ReadBatch>();
  batch->owner = this;
  batch->urgency = urgency;
  batch->done = std::move(done);
  storage_->queue_->put(batch, std::move(reads));
  return batch;
}

Status Reader::read(Reads reads) {
  if (reads.empty()) return {};
  struct {
    std::mutex mutex;
    std::condition_variable change;
    std::optional<Status> outcome;
  } wait;
  const ReadTicket ticket = start(std::move(reads), Urgency::needed, [&wait](Status status) {
    const std::lock_guard lock(wait.mutex);
    wait.outcome = std::move(status);
    wait.change.notify_all();
  });
  std::unique_lock lock(wait.mutex);
  const auto ended = [&] { return wait.outcome.has_value(); };
  while (!wait.change.wait_for(lock, kGlance, ended)) {
    if (!*storage_->cancelled_) continue;
    lock.unlock();
    drop(ticket);
    lock.lock();
    wait.change.wait(lock, ended);  // for what is being read into this memory
  }
  return *storage_->cancelled_ ? Status::error("the run was cancelled") : *wait.outcome;
}

FLOW_REGISTER_SERVICE(Storage);

}  // namespace dsv
