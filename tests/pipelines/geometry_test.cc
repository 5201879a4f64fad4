// Another geometry in the same format runs unchanged: nothing of the released model is built in.
#include <cmath>
#include <fstream>

#include "stages/audit/synth.h"
#include "stages/engram/layout.h"
#include "tests/pipelines/pipeline_run.h"

namespace dsv::testing {
namespace {

/// Ratios 4, 2 and 1, two hyper-connection copies, sigmoid scores, no clamp, n-grams up to 3 on three layers,
/// other dims everywhere. The demo's tokenizer gives the vocabulary.
boost::json::object other_geometry() {
  EngramParams engram{{0, 3, 6}, 3, 3, 300, 1931, 2, {}};
  auto layout = EngramLayout::derive(engram);
  EXPECT_TRUE(layout.ok());
  boost::json::array rows;
  for (const EngramLayerLayout& layer : layout->layers) rows.push_back(layer.rows);
  std::ifstream file(source("pipelines/demo/inference/config.json"));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  boost::json::object c = boost::json::parse(text).as_object();
  const boost::json::object changed = {{"dim", 96},
                                       {"moe_inter_dim", 160},
                                       {"n_layers", 9},
                                       {"n_mtp_layers", 0},
                                       {"dspark_target_layer_ids", boost::json::array()},
                                       {"n_heads", 3},
                                       {"n_routed_experts", 5},
                                       {"n_activated_experts", 3},
                                       {"n_shared_experts", 2},
                                       {"score_func", "sigmoid"},
                                       {"route_scale", 2.5},
                                       {"swiglu_limit", 0},
                                       {"q_lora_rank", 32},
                                       {"head_dim", 96},
                                       {"rope_head_dim", 32},
                                       {"o_groups", 3},
                                       {"o_lora_rank", 64},
                                       {"window_size", 5},
                                       {"kv_source_layers", {1, 4, 6}},
                                       {"index_source_layers", {1, 2, 4, 6, 8}},
                                       {"original_seq_len", 64},
                                       {"rope_factor", 4},
                                       {"index_n_heads", 3},
                                       {"index_head_dim", 64},
                                       {"index_topk", 5},
                                       {"candidate_source_layer", 6},
                                       {"candidate_topk_blocks", 3},
                                       {"candidate_block_size", 2},
                                       {"hc_mult", 2},
                                       {"hc_sinkhorn_iters", 7},
                                       {"norm_eps", 1e-6},
                                       {"engram_layer_ids", {0, 3, 6}},
                                       {"engram_vocab_size", 300},
                                       {"engram_num_embeddings", rows},
                                       {"engram_max_ngram_size", 3},
                                       {"engram_n_heads", 3},
                                       {"compress_ratios", {0, 4, 4, 4, 2, 2, 1, 1, 1}}};
  for (const auto& [key, value] : changed) c[key] = value;
  return c;
}

class OtherGeometry : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string config = folder_ / "config.json";
    std::ofstream(config) << boost::json::serialize(other_geometry());
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
      std::filesystem::copy_file(source(std::string("pipelines/demo/") + name), folder_ / name);
    }
    auto read = load_config(config);
    ASSERT_TRUE(read.ok()) << read.status().message();
    auto written = synthesize(*read, folder_ / "checkpoint", {.payload = SynthPayload::Random, .seed = 7});
    ASSERT_TRUE(written.ok()) << written.status().message();
  }
  /// Logits of all positions of a text of 41 tokens, the first `prompt` of which are the prompt.
  std::vector<std::vector<float>> logits(std::size_t prompt, Sets sets) {
    sets.emplace_back("logits", "all");
    return asked_logits(prompt, std::move(sets));
  }
  /// Those that the sets ask for.
  std::vector<std::vector<float>> asked_logits(std::size_t prompt, Sets sets) {
    const std::string tap = folder_ / "logits.safetensors";
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < 41; ++i) ids.push_back((i * 373 + 5) % 2048);
    const auto border = ids.begin() + static_cast<std::ptrdiff_t>(prompt);
    sets.insert(sets.end(), {{"checkpoint", folder_ / "checkpoint"},
                             {"prompt_ids", list(std::vector<std::int32_t>(ids.begin(), border))},
                             {"continuation_ids", list(std::vector<std::int32_t>(border, ids.end()))},
                             {"max_new_tokens", "0"}});
    const Outcome run = run_pipeline("pipelines/greedy.yaml", sets, {{"backbone.head.logits", tap}});
    EXPECT_TRUE(run.status.ok()) << run.status.message();
    return tapped_logits(tap);
  }
  TemporaryFolder folder_;
};

TEST_F(OtherGeometry, GivesTheSameBitsForEveryChunkingThreadCountAndCacheSize) {
  const auto whole = logits(41, {});
  ASSERT_EQ(whole.size(), 41u);
  ASSERT_EQ(whole[0].size(), 2048u);
  EXPECT_NE(whole[1], whole[2]) << "positions differ";
  for (const char* chunk : {"1", "2", "3", "4", "5", "7", "16"}) {
    EXPECT_EQ(logits(41, {{"prefill_chunk", chunk}}), whole) << "chunks of " << chunk;
  }
  EXPECT_EQ(logits(11, {}), whole) << "token by token";
  EXPECT_EQ(logits(41, {{"threads", "1"}, {"expert_cache", "1"}, {"expert_world", "3"}}), whole);
  EXPECT_EQ(logits(41, {{"resident_engram", "true"}}), whole);
}

TEST_F(OtherGeometry, GivesTheSameBitsWithAnExactPrefillAsWithAFullOneInEveryChunking) {
  for (const std::size_t prompt : {30u, 9u, 8u, 3u, 1u}) {
    const auto full = asked_logits(prompt, {{"prefill", "full"}});
    ASSERT_EQ(full.size(), 41 - prompt + 1);
    for (const char* chunk : {"0", "1", "2", "3", "5", "7", "16"}) {
      EXPECT_EQ(asked_logits(prompt, {{"prefill", "exact"}, {"prefill_chunk", chunk}}), full)
          << "a prompt of " << prompt << " in chunks of " << chunk;
    }
  }
}

/// Tokens that a layer's attention computes in the pass over a prompt of 30.
std::int64_t attended(const std::string& checkpoint, const std::string& prefill, int layer,
                      const std::string& tap) {
  const Outcome run = run_pipeline("pipelines/greedy.yaml",
                                   {{"checkpoint", checkpoint},
                                    {"prompt_ids", list(std::vector<int>(30, 17))},
                                    {"max_new_tokens", "1"},
                                    {"prefill", prefill}},
                                   {{fmt::format("backbone.layers.{}.attention.y", layer), tap}});
  EXPECT_TRUE(run.status.ok()) << run.status.message();
  auto file = Checkpoint::open(tap);
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? (*file)->tensors().front().shape[0] : -1;
}

TEST_F(OtherGeometry, ComputesOnlyTheTriangleThatReachesTheOutput) {
  const std::string checkpoint = folder_ / "checkpoint", tap = folder_ / "y.safetensors";
  const std::map<std::string, std::vector<std::int64_t>> expected = {
      {"full", {30, 30, 30, 30}}, {"exact", {30, 9, 5, 1}}, {"bounded", {30, 5, 5, 1}}};
  for (const auto& [prefill, tokens] : expected) {
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(attended(checkpoint, prefill, 5 + i, tap), tokens[static_cast<std::size_t>(i)])
          << prefill << ", layer " << 5 + i;
    }
  }
}

TEST_F(OtherGeometry, RunsABoundedPrefillWhichIsExactForAPromptOfOneWindow) {
  EXPECT_EQ(asked_logits(5, {{"prefill", "bounded"}}), asked_logits(5, {{"prefill", "full"}}));
  const auto bounded = asked_logits(30, {{"prefill", "bounded"}});
  for (const auto& row : bounded) {
    for (const float logit : row) ASSERT_TRUE(std::isfinite(logit));
  }
  for (const char* chunk : {"1", "4", "7"}) {
    EXPECT_EQ(asked_logits(30, {{"prefill", "bounded"}, {"prefill_chunk", chunk}}), bounded) << chunk;
  }
}

TEST_F(OtherGeometry, RefusesAPromptLongerThanItsContextWithBothNumbers) {
  std::vector<int> ids(300, 17);
  const Outcome run = run_pipeline("pipelines/greedy.yaml",
                                   {{"checkpoint", folder_ / "checkpoint"}, {"prompt_ids", list(ids)}});
  EXPECT_NE(run.status.message().find("the prompt has 300 tokens, but the context holds 256"),
            std::string::npos)
      << run.status.message();
}

}  // namespace
}  // namespace dsv::testing
