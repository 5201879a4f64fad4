#include "framework/testing/stage_replay.h"

#include <mutex>
#include <utility>
#include <vector>

#include "framework/core/names.h"
#include "framework/runtime/assembly.h"
#include "framework/runtime/flow_graph.h"
#include "framework/runtime/workers.h"

namespace flow {
namespace {

/// What is needed to repeat one invocation.
struct Invoked {
  Stamp stamp;
  Inputs inputs;
  std::function<void()> restore;
};

/// The invocations of one stage, filled while the pipeline runs.
struct Recording {
  std::size_t most = 0;
  std::mutex mutex;
  std::vector<Invoked> invoked;
  Stage* stage = nullptr;  ///< the stage behind the recorder
};

/// Stands in for a stage: keeps what comes and hands it on.
class RecordingStage final : public Stage {
 public:
  RecordingStage(const StageInfo& info, std::unique_ptr<Stage> stage, Recording& recording)
      : info_(info), stage_(std::move(stage)), recording_(recording) {
    recording_.stage = stage_.get();
  }
  Status open(const Opening& opening) override { return stage_->open(opening); }
  Status process(Context& context) override {
    keep(context);
    return stage_->process(context);
  }
  Status close(Console& console, RunReport& report) override { return stage_->close(console, report); }

 private:
  void keep(const Context& context) {
    const std::lock_guard lock(recording_.mutex);
    if (recording_.invoked.size() >= recording_.most) return;
    Invoked invoked{context.stamp(), {}, stage_->saved(context)};
    for (const PortInfo& port : info_.inputs) invoked.inputs.push_back(context.packets(port.name));
    recording_.invoked.push_back(std::move(invoked));
  }

  const StageInfo& info_;
  std::unique_ptr<Stage> stage_;
  Recording& recording_;
};

/// Sums what a stage counts.
class Totals final : public TelemetrySink {
 public:
  void add(const std::string&, std::string_view name, double amount) override {
    const std::lock_guard lock(mutex_);
    totals_[std::string(name)] += amount;
  }
  void level(const std::string&, std::string_view, double) override {}
  void span(const std::string&, std::string_view, Executor, std::int64_t, std::int64_t) override {}
  std::map<std::string, double> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(totals_, {});
  }

 private:
  std::mutex mutex_;
  std::map<std::string, double> totals_;
};

int thread_count(const RuntimePlan& plan) {
  return plan.threads > 0 ? plan.threads : tbb::task_arena::automatic;
}

}  // namespace

class StageReplay::Impl {
 public:
  Impl(GraphPlan plan, std::size_t node, std::size_t most)
      : plan_(std::move(plan)),
        node_(plan_.nodes[node]),
        original_(*node_.stage),
        recorded_(original_),
        control_(nullptr, nullptr, nullptr),
        assembly_(plan_, control_),
        arena_(thread_count(plan_.runtime)) {
    recording_.most = most;
    recorded_.make = [this](const void* options) {
      return std::make_unique<RecordingStage>(original_, original_.make(options), recording_);
    };
    node_.stage = &recorded_;
  }
  ~Impl() {
    recording_.invoked.clear();  // packets may hold on to what services give
    (void)assembly_.close();
  }

  Status record() {
    FLOW_TRY(guarded([&] { return arena_.execute([&] { return run_graph(); }); }));
    if (!recording_.invoked.empty()) return {};
    return errorf("stage '{}' has not run", node_.name);
  }

  Result<Timing> run(std::size_t invocation) {
    const Invoked& invoked = recording_.invoked[invocation];
    if (invoked.restore) invoked.restore();
    Context context(original_, invoked.inputs, invoked.stamp, control_.console(), report_, cancelled_,
                    telemetry_);
    std::int64_t begin = 0, end = 0;
    const auto body = [&] {
      const WorkerScope scope(arena_, beats_);
      begin = Telemetry::now();
      Status status = guarded([&] { return recording_.stage->process(context); });
      end = Telemetry::now();
      return status;
    };
    // Where the runtime would run it: I/O bodies on a thread outside the compute workers.
    const Status status = node_.executor == Executor::compute ? arena_.execute(body) : body();
    FLOW_TRY(status.in(subject(node_)));
    return Timing{static_cast<double>(end - begin) * 1e-9, totals_->take()};
  }

  const Recording& recording() const { return recording_; }
  const NodePlan& node() const { return node_; }

 private:
  Status run_graph() {
    FLOW_TRY(assembly_.make());
    FLOW_TRY(assembly_.open());
    FlowGraph graph(plan_, assembly_.stages(), control_, arena_);
    graph.run();
    return control_.status();
  }

  GraphPlan plan_;
  NodePlan& node_;
  const StageInfo& original_;
  StageInfo recorded_;
  Recording recording_;
  RunControl control_;
  Assembly assembly_;
  tbb::task_arena arena_;
  std::atomic<std::uint64_t> beats_{0};
  std::atomic<bool> cancelled_{false};
  RunReport report_;
  const std::shared_ptr<Totals> totals_ = std::make_shared<Totals>();
  const Telemetry telemetry_{totals_, "replay"};
};

StageReplay::StageReplay(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StageReplay::~StageReplay() = default;

Result<std::unique_ptr<StageReplay>> StageReplay::record(GraphPlan plan, const std::string& stage,
                                                         std::size_t most) {
  const int node = plan.node(stage);
  if (node < 0) return Status::error(unknown_name("stage", stage, names_of(plan.nodes)));
  auto impl = std::make_unique<Impl>(std::move(plan), static_cast<std::size_t>(node), most);
  FLOW_TRY(impl->record());
  return std::unique_ptr<StageReplay>(new StageReplay(std::move(impl)));
}

std::size_t StageReplay::size() const {
  return impl_->recording().invoked.size();
}

Stamp StageReplay::stamp(std::size_t invocation) const {
  return impl_->recording().invoked[invocation].stamp;
}

Result<StageReplay::Timing> StageReplay::run(std::size_t invocation) {
  return impl_->run(invocation);
}

const NodePlan& StageReplay::node() const {
  return impl_->node();
}

}  // namespace flow
