// However the weights are read, the result is the same to the bit.
#include <gmock/gmock.h>

#include <cstring>
#include <fstream>

#include "tests/golden/golden_file.h"
#include "tests/pipelines/pipeline_run.h"

namespace dsv::testing {
namespace {

using ::testing::HasSubstr;
using Logits = std::vector<std::vector<float>>;

/// A text of some sixty tokens on a small checkpoint: prompt and continuation.
class Reading : public ::testing::Test {
 protected:
  Reading() {
    const GoldenFile golden("a/text.safetensors");
    ids_ = golden["prompt_ids"].as<std::int32_t>();
    continuation_ = golden["decode.input_ids"].as<std::int32_t>();
  }
  /// Logits of all positions; `io` are options of the service that reads.
  Logits logits(Sets sets, const std::string& io = "") {
    const std::string tap = folder_ / "logits.safetensors", overlay = folder_ / "io.yaml";
    std::ofstream(overlay) << "services: {io: {" << io << "}}\n";
    sets.insert(sets.begin(), {{"checkpoint", source("tests/golden/a/checkpoint")},
                               {"prompt_ids", list(ids_)},
                               {"continuation_ids", list(continuation_)},
                               {"max_new_tokens", "0"},
                               {"logits", "all"}});
    flow::LoadOutcome loaded = flow::load_graph(
        {.files = {source("pipelines/greedy.yaml"), overlay}, .sets = sets, .data_dirs = flow::data_dirs()});
    EXPECT_TRUE(loaded.plan) << fmt::format("{}", fmt::join(loaded.errors, "\n"));
    if (!loaded.plan) return {};
    auto report = std::make_shared<flow::RunReport>();
    flow::Runner runner(std::move(*loaded.plan), {.report = report, .taps = {{"backbone.head.logits", tap}}});
    const flow::Status status = runner.run();
    EXPECT_TRUE(status.ok()) << status.message();
    report_ = report->snapshot();
    return tapped_logits(tap);
  }
  void expect_same(const Sets& sets, const std::string& io = "") {
    std::string what = io;
    for (const auto& [name, value] : sets) what += " " + name + "=" + value;
    if (reference_.empty()) reference_ = logits({});
    const Logits actual = logits(sets, io);
    ASSERT_EQ(actual.size(), ids_.size() + continuation_.size()) << what;
    ASSERT_EQ(actual.size(), reference_.size()) << what;
    for (std::size_t p = 0; p < actual.size(); ++p) {
      ASSERT_EQ(std::memcmp(actual[p].data(), reference_[p].data(), actual[p].size() * sizeof(float)), 0)
          << what << ": first difference at position " << p;
    }
  }
  const boost::json::object& report(const char* section) const { return report_.at(section).as_object(); }

  TemporaryFolder folder_;
  std::vector<std::int32_t> ids_, continuation_;
  Logits reference_;
  boost::json::object report_;
};

TEST_F(Reading, ByEveryBackEndInAnyOrderOfCompletionGivesTheSameLogits) {
  for (const char* backend : {"io_uring", "pread", "mmap"}) {
    expect_same({{"io", backend}});
    EXPECT_THAT(std::string(report("io").at("backend").as_string()), HasSubstr(backend));
    expect_same({{"io", backend}, {"expert_cache", "2"}}, "delay: 0.0003, shuffle: true");
    expect_same({{"io", backend}, {"expert_cache", "1"}, {"prefill_chunk", "7"}}, "delay: 0.0002, depth: 1");
  }
}

TEST_F(Reading, UnderEveryPolicyAndBudgetGivesTheSameLogits) {
  for (const char* policy : {"lru", "frequency", "decode_first"}) {
    expect_same({{"policy", policy}, {"expert_cache", "1"}});
    expect_same({{"policy", policy}, {"expert_cache", "4"}, {"prefill_chunk", "5"}});
    expect_same({{"policy", policy}, {"memory", "512KiB"}});
  }
  expect_same({{"memory", "103KiB"}});  // a slot for each of 8 layers
  EXPECT_GT(report("experts").at("misses").to_number<int>(), 8 * 12) << "pages are read again and again";
}

TEST_F(Reading, WithEveryPredictorGivesTheSameLogits) {
  for (const char* predictor : {"gate", "recent"}) {
    for (const char* cache : {"1", "12"}) {
      expect_same({{"predictor", predictor}, {"expert_cache", cache}});
      expect_same(
          {{"predictor", predictor}, {"expert_cache", cache}, {"prefill_chunk", "3"}, {"expert_world", "3"}},
          "delay: 0.0002, shuffle: true");
    }
  }
}

TEST_F(Reading, DenseWeightsALayerAheadGivesTheSameLogits) {
  for (const char* backend : {"io_uring", "pread", "mmap"}) {
    expect_same({{"dense", "streamed"}, {"io", backend}});
    EXPECT_GT(report("dense").at("layers_read").to_number<int>(), 8);
  }
  expect_same({{"dense", "streamed"}, {"prefill_chunk", "4"}, {"predictor", "gate"}, {"expert_cache", "1"}},
              "delay: 0.0005, shuffle: true");
}

TEST_F(Reading, AheadOnAGuessIsMeasured) {
  logits({{"predictor", "gate"}, {"expert_cache", "3"}});
  const boost::json::object& guesses = report("experts").at("guesses").as_object();
  const auto used = guesses.at("used").to_number<double>(), wrong = guesses.at("wrong").to_number<double>();
  EXPECT_GT(used, 0);
  EXPECT_GE(guesses.at("read").to_number<double>(), used);
  EXPECT_DOUBLE_EQ(guesses.at("hit_rate").to_number<double>(), used / (used + wrong));
}

TEST(ReadingSettings, ThatContradictEachOtherOrDoNothingAreErrors) {
  const auto message = [](const Sets& sets) {
    return run_pipeline("pipelines/greedy.yaml", sets).status.message();
  };
  EXPECT_THAT(message({{"memory", "1MiB"}, {"expert_cache", "3"}}),
              HasSubstr("cache and memory are both set"));
  EXPECT_THAT(
      message({{"memory", "50KiB"}}),
      HasSubstr(
          "memory 50.0 KiB holds 3 expert pages of 12.8 KiB, but 8 are needed at least: one for each of 8 "
          "caches and 0 for guesses; give 102.0 KiB or more"));
  EXPECT_THAT(message({{"memory", "110KiB"}, {"predictor", "gate"}}),
              HasSubstr("one for each of 8 caches and 4 for guesses"));
  EXPECT_THAT(message({{"io", "floppy"}}), HasSubstr("floppy"));
  const auto overlaid = [](const std::string& text, const Sets& sets = {}) {
    const TemporaryFolder folder;
    std::ofstream(folder / "o.yaml") << text;
    flow::LoadOutcome loaded =
        flow::load_graph({.files = {source("pipelines/greedy.yaml"), folder / "o.yaml"},
                          .sets = sets,
                          .data_dirs = flow::data_dirs()});
    if (!loaded.plan) return fmt::format("{}", fmt::join(loaded.errors, "\n"));
    return flow::Runner(std::move(*loaded.plan), {}).run().message();
  };
  EXPECT_THAT(overlaid("services: {experts: {ahead: 3}}"),
              HasSubstr("ahead is set, but the predictor is none"));
  EXPECT_THAT(overlaid("services: {experts: {predictor: gate}}"),
              HasSubstr("the predictor is gate, but the graph has no stage ExpertPredict"));
  EXPECT_THAT(overlaid("services: {experts: {predictor: none}}", {{"predictor", "gate"}}),
              HasSubstr("the graph guesses experts, but the predictor of the expert store is none"));
  EXPECT_THAT(overlaid("services: {model: {dense: streamed}}"),
              HasSubstr("is streamed (dense: streamed), but no stage DenseWeights of layer 0 comes before"));
  EXPECT_THAT(overlaid("services: {model: {dense: resident}}", {{"dense", "streamed"}}),
              HasSubstr("the model has its dense weights in memory"));
}

TEST(DryRun, CountsWhatGuessesAndStreamedWeightsTake) {
  const auto planned = [](const Sets& sets, const std::string& what) -> std::uint64_t {
    flow::LoadOutcome loaded = load_pipeline({"pipelines/greedy.yaml"}, sets);
    auto lines = flow::Runner(std::move(*loaded.plan), {}).dry_run();
    EXPECT_TRUE(lines.ok()) << lines.status().message();
    for (const flow::PlanLine& line : *lines) {
      if (line.what.find(what) != std::string::npos) return line.resident_bytes;
    }
    return 0;
  };
  const std::uint64_t page = planned({{"expert_cache", "1"}}, "expert cache") / 8;
  EXPECT_EQ(planned({{"expert_cache", "5"}}, "expert cache"), 5 * 8 * page);
  EXPECT_EQ(planned({{"predictor", "gate"}}, "guessed experts"), 4 * page);
  const std::uint64_t budget = planned({{"memory", "512KiB"}, {"predictor", "gate"}}, "expert cache") +
                               planned({{"memory", "512KiB"}, {"predictor", "gate"}}, "guessed experts");
  EXPECT_LE(budget, 512u << 10);
  EXPECT_GT(budget + page, 512u << 10) << "nothing that fits is left out";
  const std::uint64_t all = planned({}, "dense weights");
  const std::uint64_t some = planned({{"dense", "streamed"}}, "dense weights") +
                             planned({{"dense", "streamed"}}, "streamed weights");
  EXPECT_LT(some, all);
}

}  // namespace
}  // namespace dsv::testing
