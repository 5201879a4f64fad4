// Runs of greedy.yaml with routed experts on cards, to be compared with the host.
#pragma once

#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/golden/golden_file.h"
#include "tests/pipelines/pipeline_run.h"

namespace dsv::testing {

/// A checkpoint and its golden text.
struct CardModel {
  const char* name;
  std::string checkpoint, golden;
};
inline const CardModel kGoldenA{"GoldenA", source("tests/golden/a/checkpoint"), "a/text.safetensors"};
inline const CardModel kDemo{"Demo", "demo", "demo/text.safetensors"};

/// Runs greedy on a golden's text, its last tokens one by one, with `cards` in the overlay's section of the
/// service.
struct CardRun : Outcome {
  CardRun(const CardModel& model, const std::string& cards, Sets sets) {
    const TemporaryFolder folder;
    std::ofstream(folder / "overlay.yaml") << "services: {cards: {" << cards << "}}\n";
    const GoldenFile golden(model.golden);
    const std::string tap = folder / "logits.safetensors";
    sets.insert(sets.end(), {{"checkpoint", model.checkpoint},
                             {"prompt_ids", list(golden["prompt_ids"].as<std::int32_t>())},
                             {"continuation_ids", list(golden["decode.input_ids"].as<std::int32_t>())},
                             {"max_new_tokens", "4"},
                             {"logits", "all"}});
    flow::LoadOutcome loaded =
        flow::load_graph({.files = {source("pipelines/greedy.yaml"), folder / "overlay.yaml"},
                          .sets = sets,
                          .data_dirs = flow::data_dirs()});
    EXPECT_TRUE(loaded.plan) << fmt::format("{}", fmt::join(loaded.errors, "\n"));
    if (!loaded.plan) return;
    recorder = std::make_shared<flow::Recorder>();
    auto console = std::make_shared<flow::CapturingConsole>();
    auto run_report = std::make_shared<flow::RunReport>();
    flow::Runner runner(std::move(*loaded.plan),
                        {console, run_report, {{"backbone.head.logits", tap}}, recorder});
    status = runner.run();
    notes = console->notes();
    report = run_report->snapshot();
    if (status.ok()) logits = tapped_logits(tap);
  }
  /// The remarks about experts, one a line.
  std::vector<std::string> remarks() const {
    std::vector<std::string> lines;
    std::istringstream words(notes);
    for (std::string line; std::getline(words, line);) {
      if (line.starts_with("experts: ")) lines.push_back(line);
    }
    return lines;
  }
  std::uint64_t count(std::size_t rank, const char* name) const {
    return boost::json::value_to<std::uint64_t>(report.at("cards").at(rank).at(name));
  }
  std::vector<std::vector<float>> logits;
  std::shared_ptr<flow::Recorder> recorder;
};

inline Sets emulated(int world) {
  return {{"expert_device", "emulated"}, {"expert_world", std::to_string(world)}};
}

/// The host's logits and tokens, computed once for each model.
inline const CardRun& on_host(const CardModel& model) {
  static const CardRun golden_a(kGoldenA, "", {}), demo(kDemo, "", {});
  return model.name == kDemo.name ? demo : golden_a;
}

inline void expect_equal(const CardRun& run, const CardModel& model, const std::string& what) {
  ASSERT_TRUE(run.status.ok()) << what << ": " << run.status.message();
  const CardRun& host = on_host(model);
  ASSERT_TRUE(host.status.ok()) << host.status.message();
  EXPECT_EQ(run.generated(), host.generated()) << what;
  ASSERT_EQ(run.logits.size(), host.logits.size()) << what;
  for (std::size_t p = 0; p < run.logits.size(); ++p) {
    ASSERT_EQ(std::memcmp(run.logits[p].data(), host.logits[p].data(), host.logits[p].size() * sizeof(float)),
              0)
        << what << ": first difference at position " << p;
  }
}

}  // namespace dsv::testing
