#include "framework/cli/compare.h"

#include <unistd.h>

#include <map>

#include "framework/cli/command_line.h"
#include "framework/cli/comparison_text.h"
#include "framework/cli/exit.h"
#include "framework/cli/files.h"
#include "framework/cli/interrupt.h"
#include "framework/cli/terminal.h"
#include "framework/config/load.h"
#include "framework/core/data_dirs.h"
#include "framework/core/exception.h"
#include "framework/runtime/runner.h"
#include "framework/runtime/tap.h"

namespace flow {
namespace {

using namespace cli;  // NOLINT: this file is its door

constexpr OptionText kOptions[] = {
    {"set", "NAME=VALUE", true, "give a parameter a value in both pipelines; values as dsv41-run takes them"},
    {"set-a", "NAME=VALUE", true, "the same in A alone"},
    {"set-b", "NAME=VALUE", true, "the same in B alone"},
    {"port", "PORT", true,
     "compare the packets of this output, for example backbone.layers.3.attention.y; without it all results"},
    {"rounds", "N", false, "runs of each pipeline, A and B in turn; times are medians (default 3)"},
    {"quiet", nullptr, false, "no remarks on standard error; errors are still shown"},
    {"json", "FILE", false,
     "write the comparison as JSON; with - the JSON is all that goes to standard output"},
    {"help,h", nullptr, false, "this text"},
    {"version", nullptr, false, "print the version"},
};

constexpr int kMostRounds = 1000;

std::string usage() {
  return "usage: dsv41-compare A B [options]\n\n"
         "Runs two pipelines in turn; prints the time of each stage side by side, the first element of the "
         "results\nthat differs, and how far they are apart. Overlays follow their pipeline after a plus "
         "sign; "
         "a B that begins\nwith one is A with these overlays:\n\n"
         "    dsv41-compare greedy.yaml +pipelines/ablations/dense_attention.yaml --set prompt=Hello\n\n" +
         option_list(kOptions) +
         "\nExit codes: 0 done, 1 a run failed, 2 wrong usage or graph, 130 interrupted.\n";
}

/// "A.yaml+o.yaml" as files.
Result<std::vector<std::string>> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    if (parts.back().empty()) return errorf("'{}': expected PIPELINE or PIPELINE+OVERLAY+...", text);
    begin = end + 1;
  }
  return parts;
}

struct Comparison {
  LoadRequest a, b;
  std::vector<std::string> ports;
  int rounds = 3;
  bool quiet = false;
  std::optional<std::string> json;
};

Result<int> read_rounds(const std::string& text) {
  FLOW_ASSIGN(const boost::json::value value, parse_option(OptionType::integer, text));
  const std::int64_t rounds = value.as_int64();
  if (rounds < 1 || rounds > kMostRounds) return errorf("{} is outside 1 to {}", rounds, kMostRounds);
  return static_cast<int>(rounds);
}

/// A reader for both pipelines: what one --set of both reads from standard input, both get.
std::function<Result<std::string>(const std::string&)> shared_reader() {
  auto reader = value_reader();
  return [reader = std::move(reader),
          input = std::optional<std::string>()](const std::string& text) mutable -> Result<std::string> {
    if (text == "-" && input) return *input;
    FLOW_ASSIGN(std::string value, reader(text));
    if (text == "-") input = value;
    return value;
  };
}

Result<Comparison> read_comparison(const CommandLine& line) {
  if (line.files().size() != 2) {
    return errorf("two pipelines are needed, found {}; --help shows the usage", line.files().size());
  }
  Comparison c;
  const std::string &a = line.files()[0], &b = line.files()[1];
  FLOW_ASSIGN(c.a.files, split(a));
  FLOW_ASSIGN(c.b.files, split(b.starts_with('+') ? a + b : b));
  FLOW_ASSIGN(c.a.sets, line.pairs("set", "NAME=VALUE"));
  c.b.sets = c.a.sets;
  FLOW_ASSIGN(const auto only_a, line.pairs("set-a", "NAME=VALUE"));
  FLOW_ASSIGN(const auto only_b, line.pairs("set-b", "NAME=VALUE"));
  c.a.sets.insert(c.a.sets.end(), only_a.begin(), only_a.end());
  c.b.sets.insert(c.b.sets.end(), only_b.begin(), only_b.end());
  for (const auto& [name, value] : only_a) c.a.set_options[name] = "--set-a";
  for (const auto& [name, value] : only_b) c.b.set_options[name] = "--set-b";
  c.a.data_dirs = c.b.data_dirs = data_dirs();
  const auto reader =
      std::make_shared<std::function<Result<std::string>(const std::string&)>>(shared_reader());
  c.a.read_set = c.b.read_set = [reader](const std::string& text) { return (*reader)(text); };
  c.ports = line.texts("port");
  if (const auto rounds = line.text("rounds")) {
    FLOW_ASSIGN(c.rounds, read_rounds(*rounds).in("--rounds"));
  }
  c.quiet = line.has("quiet");
  c.json = line.text("json");
  return c;
}

/// The runs of one pipeline.
struct Side {
  ComparedSide times;
  GraphPlan plan;
  std::vector<std::string> ports;
  std::shared_ptr<PacketLog> log;
};

class CompareSession {
 public:
  explicit CompareSession(const Comparison& comparison)
      : comparison_(comparison), terminal_(STDOUT_FILENO, comparison.quiet) {}

  int run() {
    if (!load(comparison_.a, a_) || !load(comparison_.b, b_)) return kUsage;
    for (Side* side : {&a_, &b_}) {
      if (const Status ports = choose_ports(*side); !ports.ok()) return fail(kUsage, ports);
    }
    if (comparison_.json) {
      if (const Status json = check_output(*comparison_.json); !json.ok()) return fail(kFailed, json);
    }
    for (int round = 0; round < comparison_.rounds; ++round) {
      for (Side* side : {&a_, &b_}) {
        terminal_.note(fmt::format("round {} of {}: {}", round + 1, comparison_.rounds, side->times.name));
        if (const Status status = execute(*side); !status.ok()) return finish(*side, status);
      }
    }
    return report();
  }

 private:
  static bool load(const LoadRequest& request, Side& side) {
    side.times.name = fmt::format("{}", fmt::join(request.files, "+"));
    LoadOutcome outcome = load_graph(request);
    for (const std::string& error : outcome.errors) print_error(error);
    if (!outcome.plan) return false;
    side.plan = *std::move(outcome.plan);
    return true;
  }

  Status choose_ports(Side& side) const {
    side.ports = comparison_.ports.empty() ? result_ports(side.plan) : comparison_.ports;
    for (const std::string& port : side.ports) FLOW_TRY(check_recordable(side.plan, port).in("--port"));
    return {};
  }

  Status execute(Side& side) {
    const auto recorder = std::make_shared<Recorder>();
    const auto log = std::make_shared<PacketLog>();
    const auto runner = std::make_shared<Runner>(
        side.plan, RunOptions{.recorder = recorder, .probes = log->probes(side.ports)});
    interrupt_.on_signal([weak = std::weak_ptr(runner)] {
      if (const auto running = weak.lock()) running->cancel();
    });
    FLOW_TRY(runner->run());
    side.times.traces.push_back(recorder->trace());
    if (!side.log) side.log = log;
    return {};
  }

  int finish(const Side& side, const Status& status) const {
    if (!interrupt_.happened()) return fail(kFailed, status.in(side.times.name));
    print_error("interrupted");
    return kInterrupted;
  }

  int report() const {
    const RunDifference results = difference(*a_.log, *b_.log);
    if (comparison_.json != "-") {
      if (const Status shown = print(comparison_text(a_.times, b_.times, results)); !shown.ok()) {
        return fail(kFailed, shown);
      }
    }
    if (!comparison_.json) return kDone;
    const Status written = write_output(
        *comparison_.json, boost::json::serialize(comparison_json(a_.times, b_.times, results)) + "\n");
    return written.ok() ? kDone : fail(kFailed, written);
  }

  const Comparison& comparison_;
  Terminal terminal_;
  Side a_, b_;
  Interrupt interrupt_;
};

int guarded_compare(int argc, char** argv) {
  const auto line = CommandLine::parse(kOptions, argc, argv);
  if (!line.ok()) return fail(kUsage, line.status());
  if (line->has("version")) return show("dsv41-compare " FLOW_VERSION "\n");
  if (line->has("help")) return show(usage());
  const auto comparison = read_comparison(*line);
  if (!comparison.ok()) return fail(kUsage, comparison.status());
  return CompareSession(*comparison).run();
}

}  // namespace

int run_compare_command_line(int argc, char** argv) {
  ignore_write_signals();
  try {
    return guarded_compare(argc, argv);
  } catch (...) {
    return fail(kFailed, exception_status());
  }
}

}  // namespace flow
