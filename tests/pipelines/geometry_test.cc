// Another geometry in the same format runs unchanged: nothing of the released model is built in.
#include <cstring>
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
  std::vector<std::vector<float>> logits(std::size_t prompt, Sets sets) {
    const std::string tap = folder_ / "logits.safetensors";
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < 41; ++i) ids.push_back((i * 373 + 5) % 2048);
    const auto border = ids.begin() + static_cast<std::ptrdiff_t>(prompt);
    sets.insert(sets.end(), {{"checkpoint", folder_ / "checkpoint"},
                             {"prompt_ids", list(std::vector<std::int32_t>(ids.begin(), border))},
                             {"continuation_ids", list(std::vector<std::int32_t>(border, ids.end()))},
                             {"max_new_tokens", "0"},
                             {"logits", "all"}});
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
  EXPECT_EQ(logits(41, {{"threads", "1"}, {"expert_cache", "1"}, {"devices", "3"}}), whole);
  EXPECT_EQ(logits(41, {{"resident_engram", "true"}}), whole);
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
