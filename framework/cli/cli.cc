#include "framework/cli/cli.h"

#include <unistd.h>

#include <chrono>

#include "framework/cli/arguments.h"
#include "framework/cli/describe.h"
#include "framework/cli/exit.h"
#include "framework/cli/files.h"
#include "framework/cli/graphviz.h"
#include "framework/cli/interrupt.h"
#include "framework/cli/terminal.h"
#include "framework/core/exception.h"
#include "framework/runtime/runner.h"
#include "framework/runtime/tap.h"
#include "framework/trace/chrome.h"
#include "framework/trace/dot.h"
#include "framework/trace/summary.h"

namespace flow {
namespace {

using namespace cli;  // NOLINT: this file is its door
namespace json = boost::json;

json::object plan_json(const PlanLine& line) {
  return {{"what", line.what},
          {"resident_bytes", line.resident_bytes},
          {"read_bytes", line.read_bytes},
          {"step_read_bytes", line.step_read_bytes}};
}

// "1 stage", "2 stages".
std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// One invocation of the tool that has a graph to work on.
class Session {
 public:
  explicit Session(const Arguments& arguments)
      : arguments_(arguments),
        terminal_(std::make_shared<Terminal>(arguments.takes_stdout() ? STDERR_FILENO : STDOUT_FILENO,
                                             arguments.quiet)) {}

  int run() {
    LoadOutcome outcome = load_graph(arguments_.graph);
    for (const std::string& error : outcome.errors) print_error(error);
    if (!outcome.plan) return kUsage;
    plan_ = *std::move(outcome.plan);
    if (const Status taps = check_taps(arguments_.taps, plan_); !taps.ok()) return fail(kUsage, taps);
    if (arguments_.check || (arguments_.dot && !arguments_.trace)) return look();
    if (const Status outputs = check_outputs(); !outputs.ok()) return fail(kFailed, outputs);
    return arguments_.dry_run ? dry_run() : execute();
  }

 private:
  // --check and --dot, which run nothing.
  int look() {
    if (arguments_.dot) {
      if (const Status drawn = draw(nullptr); !drawn.ok()) return fail(kFailed, drawn);
    }
    if (arguments_.check) {
      terminal_->note(fmt::format("{}: ok, {}, {}", plan_.file, counted(plan_.nodes.size(), "stage"),
                                  counted(plan_.services.size(), "service")));
    }
    return kDone;
  }

  // Before the work is done.
  Status check_outputs() const {
    for (const auto& path : {arguments_.json, arguments_.trace, arguments_.dot}) {
      if (path) FLOW_TRY(check_output(*path));
    }
    return wants_svg() ? svg("digraph {}").status() : Status();
  }

  bool wants_svg() const { return arguments_.dot && arguments_.dot->ends_with(".svg"); }

  Result<std::string> svg(const std::string& dot) const {
    return to_svg(dot).in(fmt::format("cannot draw '{}'", *arguments_.dot));
  }

  // The drawing of --dot: SVG for a file of that extension, otherwise text for Graphviz.
  Status draw(const Trace* trace) const {
    std::string text = to_dot(plan_, trace);
    if (wants_svg()) {
      FLOW_ASSIGN(text, svg(text));
    }
    return write_output(*arguments_.dot, text);
  }

  int dry_run() {
    const auto lines = Runner(plan_, {}).dry_run();
    if (!lines.ok()) return finish(kFailed, lines.status());
    json::array rows;
    for (const PlanLine& line : *lines) rows.push_back(plan_json(line));
    report_->set("plan", std::move(rows));
    report_->set("total", plan_json(plan_total(*lines)));
    if (arguments_.json != "-") {
      if (const Status status = print(plan_table(*lines)); !status.ok()) return finish(kFailed, status);
    }
    return finish(kDone, {});
  }

  int execute() {
    if (arguments_.trace) recorder_ = std::make_shared<Recorder>();
    const auto runner =
        std::make_shared<Runner>(plan_, RunOptions{terminal_, report_, arguments_.taps, recorder_});
    const auto cancel = [weak = std::weak_ptr(runner)] {
      if (const auto running = weak.lock()) running->cancel();
    };
    terminal_->on_failure(cancel);
    interrupt_.on_signal(cancel);
    Status status = runner->run();
    terminal_->finish();
    if (const Status trace = write_trace(); status.ok()) status = trace;
    if (!runner->cancelled()) return finish(status.ok() ? kDone : kFailed, status);
    if (interrupt_.happened()) return finish(kInterrupted, Status::error("interrupted"));
    const Status failure = terminal_->failure();
    return finish(failure.ok() ? kDone : kFailed, failure);
  }

  Status write_trace() {
    if (!recorder_) return {};
    const Trace trace = recorder_->trace();
    std::string summary = summary_text(trace);
    while (summary.ends_with('\n')) summary.pop_back();
    terminal_->note(summary);
    FLOW_TRY(write_output(*arguments_.trace, to_chrome(trace)));
    return arguments_.dot ? draw(&trace) : Status();
  }

  // Says what went wrong and completes the report.
  int finish(int code, const Status& status) {
    if (code == kInterrupted) {
      terminal_->note(status.message());
    } else if (!status.ok()) {
      print_error(status.message());
    }
    if (!arguments_.json) return code;
    const Status written = write_output(*arguments_.json, json::serialize(result(code, status)) + "\n");
    return written.ok() ? code : fail(code == kDone ? kFailed : code, written);
  }

  json::object result(int code, const Status& status) const {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
    json::object object = {{"pipeline", plan_.file}, {"params", plan_.params}};
    object["status"] = code == kDone ? "done" : code == kInterrupted ? "interrupted" : "failed";
    if (!status.ok()) object["error"] = status.message();
    object["seconds"] = seconds.count();
    for (auto& [name, value] : report_->snapshot()) object.insert_or_assign(name, value);
    return object;
  }

  const Arguments& arguments_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::shared_ptr<Terminal> terminal_;
  std::shared_ptr<RunReport> report_ = std::make_shared<RunReport>();
  std::shared_ptr<Recorder> recorder_;
  GraphPlan plan_;
  Interrupt interrupt_;
};

// --help FILE, and the plugins of FILE for --list-stages and --describe.
Result<std::string> information(const Arguments& arguments) {
  if (arguments.version) return std::string("dsv41-run " FLOW_VERSION "\n");
  if (arguments.graph.files.empty() && arguments.help) return usage();
  std::string help;
  if (!arguments.graph.files.empty()) {
    FLOW_ASSIGN(const PipelineHelp pipeline, describe_pipeline(arguments.graph));
    help = describe_help(pipeline);
  }
  if (arguments.help) return help;
  if (arguments.list_stages) return list_types(Registry::instance());
  return describe_type(Registry::instance(), *arguments.describe);
}

int guarded_main(int argc, char** argv) {
  const auto arguments = parse_arguments(argc, argv);
  if (!arguments.ok()) return fail(kUsage, arguments.status());
  if (arguments->version || arguments->help || arguments->list_stages || arguments->describe) {
    const auto text = information(*arguments);
    return text.ok() ? show(*text) : fail(kUsage, text.status());
  }
  return Session(*arguments).run();
}

}  // namespace

int run_command_line(int argc, char** argv) {
  ignore_write_signals();
  try {
    return guarded_main(argc, argv);
  } catch (...) {
    return fail(kFailed, exception_status());
  }
}

}  // namespace flow
