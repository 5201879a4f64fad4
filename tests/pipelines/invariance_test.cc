// The same bits however the work is split.
#include <cstring>

#include "tests/golden/golden_file.h"
#include "tests/pipelines/pipeline_run.h"

namespace dsv::testing {
namespace {

using Logits = std::vector<std::vector<float>>;

struct Model {
  const char* name;
  std::string checkpoint, golden;
};

class Invariance : public ::testing::TestWithParam<Model> {
 protected:
  Invariance() : golden_(GetParam().golden) {
    ids_ = golden_["prompt_ids"].as<std::int32_t>();
    continuation_ = golden_["decode.input_ids"].as<std::int32_t>();
    ids_.insert(ids_.end(), continuation_.begin(), continuation_.end());
  }
  /// Logits of all positions of the text, the first `prompt` tokens as the prompt.
  Logits logits(std::size_t prompt, Sets sets) {
    const std::string tap = folder_ / "logits.safetensors";
    const auto border = ids_.begin() + static_cast<std::ptrdiff_t>(prompt);
    sets.insert(sets.end(), {{"checkpoint", GetParam().checkpoint},
                             {"prompt_ids", list(std::vector<std::int32_t>(ids_.begin(), border))},
                             {"continuation_ids", list(std::vector<std::int32_t>(border, ids_.end()))},
                             {"max_new_tokens", "0"},
                             {"logits", "all"}});
    const Outcome run = run_pipeline("pipelines/greedy.yaml", sets, {{"backbone.head.logits", tap}});
    EXPECT_TRUE(run.status.ok()) << run.status.message();
    return tapped_logits(tap);
  }
  const Logits& reference() {
    if (reference_.empty()) reference_ = logits(ids_.size(), {});
    return reference_;
  }
  void expect_equal(const Logits& actual, const std::string& what) {
    ASSERT_EQ(actual.size(), reference().size()) << what;
    for (std::size_t p = 0; p < actual.size(); ++p) {
      ASSERT_EQ(std::memcmp(actual[p].data(), reference()[p].data(), actual[p].size() * sizeof(float)), 0)
          << what << ": first difference at position " << p;
    }
  }
  GoldenFile golden_;
  TemporaryFolder folder_;
  std::vector<std::int32_t> ids_, continuation_;
  Logits reference_;
};

TEST_P(Invariance, LogitsAreEqualForEveryChunkingOfThePrompt) {
  for (const int chunk : {1, 2, 3, 7, 8, 9, 16, 64}) {
    expect_equal(logits(ids_.size(), {{"prefill_chunk", std::to_string(chunk)}}),
                 "chunks of " + std::to_string(chunk));
  }
}

TEST_P(Invariance, LogitsAreEqualForPrefillAndTokenByToken) {
  for (const std::size_t prompt : {ids_.size() - continuation_.size(), std::size_t{1}, std::size_t{5}}) {
    expect_equal(logits(prompt, {}), "a prompt of " + std::to_string(prompt) + " tokens");
  }
}

TEST_P(Invariance, LogitsAreEqualForEveryThreadCount) {
  for (const int threads : {1, 2, 4}) {
    expect_equal(logits(ids_.size(), {{"threads", std::to_string(threads)}}),
                 std::to_string(threads) + " threads, prefill");
    expect_equal(logits(9, {{"threads", std::to_string(threads)}}),
                 std::to_string(threads) + " threads, decode");
  }
}

TEST_P(Invariance, LogitsAreEqualForEverySizeOfTheExpertCacheAndAnySplitOverDevices) {
  for (const int cache : {1, 2, 16}) {
    expect_equal(logits(ids_.size(), {{"expert_cache", std::to_string(cache)}}),
                 "a cache of " + std::to_string(cache));
  }
  for (const int devices : {2, 3, 4}) {
    expect_equal(logits(9, {{"expert_world", std::to_string(devices)}, {"expert_cache", "1"}}),
                 std::to_string(devices) + " devices");
  }
}

TEST_P(Invariance, LogitsAreEqualWithResidentEngramTables) {
  expect_equal(logits(ids_.size(), {{"resident_engram", "true"}}), "resident Engram tables");
}

INSTANTIATE_TEST_SUITE_P(All, Invariance,
                         ::testing::Values(Model{"GoldenA", source("tests/golden/a/checkpoint"),
                                                 "a/text.safetensors"},
                                           Model{"Demo", "demo", "demo/text.safetensors"}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(TwoSequences, InterleavedInOneProcessGiveTheLogitsOfEachAlone) {
  const TemporaryFolder folder;
  const std::string file = "pipelines/examples/two_prompts.yaml", tap = folder / "logits.safetensors";
  const std::vector<std::string> prompts = {"The capital of France is", "Tokyo is the capital of",
                                            "The capital of Japan is"};
  const auto logits_of = [&](const std::string& texts, const std::string& chunk, const std::string& cache) {
    const Outcome run = run_pipeline(
        file, {{"prompts", texts}, {"prefill_chunk", chunk}, {"expert_cache", cache}, {"in_flight", "3"}},
        {{"backbone.head.logits", tap}});
    EXPECT_TRUE(run.status.ok()) << run.status.message();
  };
  std::vector<Logits> alone;
  for (const std::string& prompt : prompts) {
    logits_of(prompt, "0", "16");
    alone.push_back(tapped_logits(tap));
  }
  for (const auto& [chunk, cache] : {std::pair{"0", "16"}, {"2", "16"}, {"2", "1"}, {"1", "2"}}) {
    logits_of(fmt::format("{}", fmt::join(prompts, ",")), chunk, cache);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(tapped_logits(tap, i), alone[i])
          << prompts[i] << ", chunks of " << chunk << ", cache " << cache;
    }
  }
}

}  // namespace
}  // namespace dsv::testing
