// Reading against computing: a prompt whose experts the caches do not hold, as many experts read alone, and the
// prompt with all experts in memory. What overlap can reach is the longer of the last two.
//
// Each prompt is computed twice and the second pass counts, so that no figure holds the first touch of memory,
// which some virtual machines make as slow as reading. Few slots a layer keep the second pass cold.
//
// The checkpoint is a synthetic one (step_bench --keep FOLDER writes it). Reads go past the page cache where
// io_uring does; with other back ends drop the page cache before. All three are measured in one run.
#include <cstdio>
#include <memory>

#include "framework/cli/command_line.h"
#include "framework/cli/exit.h"
#include "framework/config/load.h"
#include "framework/core/data_dirs.h"
#include "framework/core/units.h"
#include "framework/runtime/runner.h"
#include "framework/trace/summary.h"
#include "stages/moe/expert_store.h"

namespace dsv::bench {

/// Takes every routed expert of every layer once, a layer ahead of the one it waits for.
class ReadExperts final : public flow::Stage {
 public:
  struct Options {};
  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Reads all routed experts once.");
    spec.uses(kModel).uses(kExperts);
  }
  explicit ReadExperts(Options) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    store_ = opening.service(kExperts);
    return {};
  }
  flow::Status process(flow::Context& context) override {
    std::vector<std::int32_t> all;
    for (int expert = 0; expert < model_->config().n_routed_experts; ++expert) all.push_back(expert);
    std::shared_ptr<ExpertRequest> next = store_->request(0, 0, all);
    for (int layer = 0; layer < model_->config().n_layers; ++layer) {
      const auto request = std::move(next);
      if (layer + 1 < model_->config().n_layers) next = store_->request(layer + 1, 0, all);
      while (true) {
        FLOW_ASSIGN(const auto ready, request->next());
        if (!ready) break;
      }
    }
    context.finish();
    return {};
  }

 private:
  std::shared_ptr<Model> model_;
  std::shared_ptr<ExpertStore> store_;
};
FLOW_REGISTER_STAGE(ReadExperts);

namespace {

using namespace flow::cli;  // NOLINT: a tool of the command line like the others
using flow::Result;
using flow::Status;

constexpr OptionText kOptions[] = {
    {"checkpoint", "FOLDER", false, "checkpoint to measure (default: the built-in demo)"},
    {"tokens", "N", false, "length of the prompt (default 64)"},
    {"slots", "N", false, "experts that the caches of the cold passes hold for each layer (default 4)"},
    {"set", "NAME=VALUE", true, "give a parameter of greedy.yaml a value"},
    {"help", nullptr, false, "this text"},
};

using Sets = std::vector<std::pair<std::string, std::string>>;

struct Ran {
  flow::Trace trace;
  boost::json::object report;
};

Result<Ran> run(std::vector<std::string> files, Sets sets) {
  flow::LoadOutcome outcome =
      flow::load_graph({.files = std::move(files), .sets = std::move(sets), .data_dirs = flow::data_dirs()});
  if (!outcome.plan) return Status::error(fmt::format("{}", fmt::join(outcome.errors, "\n")));
  const auto recorder = std::make_shared<flow::Recorder>();
  const auto report = std::make_shared<flow::RunReport>();
  FLOW_TRY(flow::Runner(*std::move(outcome.plan), {.report = report, .recorder = recorder}).run());
  return Ran{recorder->trace(), report->snapshot()};
}

/// The prompt's pass of one sequence, in seconds.
struct Pass {
  double all = 0;
  double engram = 0;         ///< in which Engram rows were read
  double engram_waited = 0;  ///< in which a layer had all it needs but those
};

Pass pass_of(const flow::Trace& trace, std::uint64_t sequence) {
  std::int64_t begin = trace.end, end = trace.begin;
  Pass pass;
  for (const flow::TraceLane& lane : trace.lanes) {
    for (const flow::StageSpan& span : lane.stages) {
      const flow::TracedNode& node = trace.nodes[static_cast<std::size_t>(span.node)];
      const bool counts = span.stamp.sequence == sequence && span.stamp.step == 1;
      if (!counts || !node.name.starts_with("backbone.")) continue;
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
      if (node.type == "EngramPrefetch") pass.engram += static_cast<double>(span.end - span.begin) * 1e-9;
      const auto last = static_cast<std::size_t>(span.last_edge);
      if (node.type == "EngramGate" && span.last_edge >= 0 && node.edges[last].starts_with("rows ")) {
        pass.engram_waited += static_cast<double>(span.ready - span.arrived) * 1e-9;
      }
    }
  }
  pass.all = static_cast<double>(end - begin) * 1e-9;
  return pass;
}

/// Bytes of the experts that the second of two equal passes did not find in its caches; the first finds none.
double missed_bytes(const boost::json::object& experts) {
  const auto of = [&](const char* key) { return experts.at(key).to_number<double>(); };
  const double uses = of("hits") + of("misses");
  return of("bytes_used") * (of("misses") - uses / 2) / of("misses");
}

Status measure(const CommandLine& line) {
  const std::string checkpoint = line.text("checkpoint").value_or("demo");
  FLOW_ASSIGN(const Sets given, line.pairs("set", "NAME=VALUE"));
  const auto prompt = [&](const std::string& slots) {
    Sets sets = {{"checkpoint", checkpoint},
                 {"tokens", line.text("tokens").value_or("64")},
                 {"predictor", "gate"},
                 {"expert_cache", slots},
                 {"max_new_tokens", "1"}};
    sets.insert(sets.end(), given.begin(), given.end());
    return run({"greedy", DSV41_SOURCE_DIR "/bench/pipelines/cold_prompt.yaml"}, std::move(sets));
  };
  FLOW_ASSIGN(const Ran cold, prompt(line.text("slots").value_or("4")));
  FLOW_ASSIGN(const Ran warm, prompt("1024"));
  FLOW_ASSIGN(const Ran reading,
              run({DSV41_SOURCE_DIR "/bench/pipelines/read_experts.yaml"}, {{"checkpoint", checkpoint}}));
  const auto& io = reading.report.at("io").as_object();
  const auto& experts = cold.report.at("experts").as_object();
  const double rate = io.at("bytes_read").to_number<double>() / reading.trace.seconds();
  const double bytes = missed_bytes(experts), alone = bytes / rate;
  const Pass both = pass_of(cold.trace, 1), computing = pass_of(warm.trace, 1);
  std::fprintf(stderr, "%s", flow::summary_text(cold.trace).c_str());
  std::printf("reading alone   %9.3f s  %s, %.2f GB/s (%s)\n", alone,
              flow::bytes_text(static_cast<std::uint64_t>(bytes)).c_str(), rate * 1e-9,
              io.at("backend").as_string().c_str());
  std::printf("computing alone %9.3f s\n", computing.all);
  std::printf("cold step       %9.3f s  %.3f of the longer; guesses %s\n", both.all,
              both.all / std::max(alone, computing.all),
              boost::json::serialize(experts.at("guesses")).c_str());
  std::printf("Engram rows     %9.3f s  of which %.1f %% hidden\n", both.engram,
              100 * (1 - both.engram_waited / both.engram));
  return {};
}

int main_of(int argc, char** argv) {
  const auto line = CommandLine::parse(kOptions, argc, argv);
  if (!line.ok()) return fail(kUsage, line.status());
  if (line->has("help")) return show("usage: overlap_bench [options]\n\n" + option_list(kOptions));
  const Status status = measure(*line);
  return status.ok() ? kDone : fail(kFailed, status);
}

}  // namespace
}  // namespace dsv::bench

int main(int argc, char** argv) {
  try {
    return dsv::bench::main_of(argc, argv);
  } catch (const std::exception& e) {
    return flow::cli::fail(flow::cli::kFailed, flow::errorf("{}", e.what()));
  }
}
