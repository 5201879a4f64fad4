// Reading hides behind computing: a disk and layers of set speed, and what the trace says of a step.
//
// The only test that asserts times. Both the disk and the layers sleep, much longer than a busy machine
// delays them.
#include <gmock/gmock.h>

#include <fstream>
#include <thread>

#include "framework/trace/summary.h"
#include "tests/pipelines/pipeline_run.h"
#include "tests/pipelines/saboteur.h"

namespace dsv::testing {
namespace {

constexpr double kMillisecond = 1e-3;

/// One step: a prompt of 64 tokens, which asks for nearly all experts of the demo, from cold caches.
struct Step {
  double read = 0;     ///< seconds that each read takes, one after the other
  double compute = 0;  ///< seconds that each layer takes
  int depth = 1;
  std::string predictor = "gate";

  flow::Trace run() const {
    const TemporaryFolder folder;
    std::ofstream(folder / "o.yaml") << fmt::format(
        "services: {{io: {{delay: {}, depth: {}}}, experts: {{{}}}}}\n", read, depth,
        predictor == "none" ? "" : "ahead: 32");
    std::vector<int> ids;
    for (int i = 0; i < 64; ++i) ids.push_back(3 + i * 37 % 1900);
    flow::LoadOutcome loaded =
        flow::load_graph({.files = {source("pipelines/greedy.yaml"), folder / "o.yaml"},
                          .sets = {{"prompt_ids", list(ids)},
                                   {"max_new_tokens", "1"},
                                   {"predictor", predictor},
                                   {"threads", "2"},
                                   {"prefill", "full"}},
                          .data_dirs = flow::data_dirs()});
    EXPECT_TRUE(loaded.plan) << fmt::format("{}", fmt::join(loaded.errors, "\n"));
    for (flow::NodePlan& node : loaded.plan->nodes) {
      if (!node.name.ends_with(".attn_out")) continue;
      wrap(node, [seconds = compute](flow::Context&) -> flow::Status {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
        return {};
      });
    }
    auto recorder = std::make_shared<flow::Recorder>();
    flow::Runner runner(std::move(*loaded.plan), {.recorder = recorder});
    const flow::Status status = runner.run();
    EXPECT_TRUE(status.ok()) << status.message();
    return recorder->trace();
  }
};

/// Spans of the node `name`.
std::vector<flow::StageSpan> spans(const flow::Trace& trace, const std::string& name) {
  std::vector<flow::StageSpan> found;
  for (const flow::TraceLane& lane : trace.lanes) {
    for (const flow::StageSpan& span : lane.stages) {
      if (trace.nodes[static_cast<std::size_t>(span.node)].name == name) found.push_back(span);
    }
  }
  return found;
}

/// From the embedding of the prompt to its logits.
double seconds(const flow::Trace& trace) {
  return static_cast<double>(spans(trace, "backbone.head").at(0).end -
                             spans(trace, "backbone.embed").at(0).begin) *
         1e-9;
}

void expect_hidden(const Step& both) {
  Step reading = both, computing = both;
  reading.compute = 0;
  computing.read = 0;
  const double io = seconds(reading.run()), compute = seconds(computing.run());
  const flow::Trace trace = both.run();
  const flow::Overlap overlap = flow::overlap(trace);
  std::printf(
      "reading alone %.3f s, computing alone %.3f s, both %.3f s: %.3f of the longer; %.3f s hidden\n", io,
      compute, seconds(trace), seconds(trace) / std::max(io, compute), overlap.hidden);
  EXPECT_LE(seconds(trace), 1.1 * std::max(io, compute));
  EXPECT_GE(overlap.hidden, 0.7 * std::min(io, compute));
}

TEST(Step, OfASlowDiskTakesAsLongAsTheReadsAlone) {
  expect_hidden({.read = 8 * kMillisecond, .compute = 50 * kMillisecond});
}

TEST(Step, OfSlowLayersTakesAsLongAsTheLayersAlone) {
  expect_hidden({.read = 3 * kMillisecond, .compute = 100 * kMillisecond});
}

TEST(Step, WithoutAPredictorWaitsForTheReadsOfEachLayer) {
  const Step none{.read = 6 * kMillisecond, .compute = 90 * kMillisecond, .predictor = "none"};
  Step gate = none;
  gate.predictor = "gate";
  EXPECT_GT(seconds(none.run()), 1.4 * seconds(gate.run())) << "else the tests above show nothing";
}

TEST(EngramRows, OfADeepLayerAreThereBeforeTheStreamIs) {
  const flow::Trace trace = Step{.read = 15 * kMillisecond, .compute = 60 * kMillisecond, .depth = 4}.run();
  const int layer = 4;
  const auto rows = spans(trace, fmt::format("backbone.rows.{}", layer));
  const auto gate = spans(trace, fmt::format("backbone.layers.{}.engram", layer));
  ASSERT_EQ(rows.size(), 1u);
  ASSERT_EQ(gate.size(), 1u);
  EXPECT_GT(rows[0].end - rows[0].begin, 15'000'000) << "they were read";
  EXPECT_LT(rows[0].end, gate[0].ready - 50'000'000) << "long before the stream of the layers came";
}

}  // namespace
}  // namespace dsv::testing
