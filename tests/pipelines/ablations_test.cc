// The overlays of pipelines/ablations: each runs, and changes what it says.
#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "framework/testing/difference.h"
#include "stages/model/packets.h"
#include "tests/pipelines/pipeline_run.h"

namespace dsv::testing {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = "pipelines/ablations/";

/// A prompt of some hundred tokens: far more than the demo's window and index_topk.
Sets long_prompt() {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 150; ++i) ids.push_back(3 + i * 37 % 1900);
  return {{"prompt_ids", list(ids)}, {"continuation_ids", "7,8,9"}, {"logits", "all"}};
}

/// The logits and tokens of a run.
std::shared_ptr<flow::PacketLog> results(const std::vector<std::string>& files, const Sets& sets) {
  const auto log = std::make_shared<flow::PacketLog>();
  flow::LoadOutcome loaded = load_pipeline(files, sets);
  for (const std::string& error : loaded.errors) ADD_FAILURE() << error;
  if (!loaded.plan) return log;
  const auto probes = log->probes(flow::result_ports(*loaded.plan));
  EXPECT_EQ(probes.size(), 2u);
  flow::Runner runner(*std::move(loaded.plan), {.probes = probes});
  const flow::Status status = runner.run();
  EXPECT_TRUE(status.ok()) << status.message();
  return log;
}

/// Relative distance of the logits to those of greedy.yaml.
double distance(const std::string& overlay) {
  static const auto base = results({"pipelines/greedy.yaml"}, long_prompt());
  const auto log = results({"pipelines/greedy.yaml", kFolder + overlay}, long_prompt());
  const flow::RunDifference found = flow::difference(*base, *log);
  EXPECT_EQ(found.skipped, 0u) << "the continuation is given";
  const auto logits = std::find_if(found.arrays.begin(), found.arrays.end(),
                                   [](const auto& a) { return a.name == "backbone.head.logits: logits"; });
  EXPECT_NE(logits, found.arrays.end());
  return logits == found.arrays.end() ? -1 : logits->relative;
}

TEST(Ablations, OfWhereWeightsLieDoNotChangeABit) {
  for (const char* overlay :
       {"expert_cache_1.yaml", "engram_resident.yaml", "no_prefetch.yaml", "no_prediction.yaml"}) {
    EXPECT_EQ(distance(overlay), 0) << overlay;
  }
}

TEST(Ablations, OfKernelsStayClose) {
  EXPECT_LT(distance("portable_kernels.yaml"), 0.02);
}

TEST(Ablations, OfTheModelChangeTheResult) {
  for (const char* overlay : {"engram_off.yaml", "dense_attention.yaml", "index_keys_reference_slot.yaml"}) {
    EXPECT_GT(distance(overlay), 0.001) << overlay;
    EXPECT_LT(distance(overlay), 1) << overlay;
  }
}

TEST(Ablations, WithoutEngramNoStageOfItIsLeft) {
  const auto loaded = load_pipeline({"pipelines/greedy.yaml", kFolder + "engram_off.yaml"}, {});
  ASSERT_TRUE(loaded.plan);
  std::set<std::string> types;
  for (const auto& node : loaded.plan->nodes) types.insert(node.stage->name);
  EXPECT_THAT(types, ::testing::Not(::testing::Contains(::testing::StartsWith("Engram"))));
  EXPECT_TRUE(types.contains("Csa2Attention"));
}

TEST(Ablations, WithoutPrefetchEngramRowsWaitForTheLayerBeforeTheirs) {
  const auto loaded = load_pipeline({"pipelines/greedy.yaml", kFolder + "no_prefetch.yaml"}, {});
  ASSERT_TRUE(loaded.plan);
  const flow::GraphPlan& plan = *loaded.plan;
  const flow::NodePlan& rows = plan.nodes[static_cast<std::size_t>(plan.node("backbone.rows.4"))];
  ASSERT_EQ(rows.inputs.size(), 2u);
  EXPECT_EQ(plan.nodes[static_cast<std::size_t>(rows.inputs[1].producer)].name, "backbone.layers.3.ffn_out");
}

TEST(Ablations, WithoutPredictionNoStageGuesses) {
  const auto stages = [](const std::vector<std::string>& files) {
    const auto loaded = load_pipeline(files, {});
    return std::count_if(loaded.plan->nodes.begin(), loaded.plan->nodes.end(),
                         [](const flow::NodePlan& node) { return node.stage->name == "ExpertPredict"; });
  };
  EXPECT_EQ(stages({"pipelines/greedy.yaml", kFolder + "no_prediction.yaml"}), 0);
}

/// The demo checkpoint with other limits of the indexer.
class WideIndexer : public ::testing::Test {
 protected:
  WideIndexer() {
    fs::create_directory(folder_ / "demo");
    for (const auto& file : fs::directory_iterator(source("pipelines/demo"))) {
      if (file.path().extension() == ".safetensors" || file.path().extension() == ".json")
        fs::copy(file.path(), folder_ / ("demo/" + file.path().filename().string()));
    }
    std::ifstream in(source("pipelines/demo/config.json"));
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    boost::json::value config = boost::json::parse(text);
    boost::json::object& model = config.at("text_config").as_object();
    EXPECT_TRUE(model.contains("index_topk"));
    model["index_topk"] = 4096;
    EXPECT_TRUE(model.contains("candidate_topk_blocks"));
    model["candidate_topk_blocks"] = 4096;
    std::ofstream(folder_ / "demo/config.json") << boost::json::serialize(config);
  }
  TemporaryFolder folder_;
};

TEST_F(WideIndexer, SelectsWhatDenseAttentionReads) {
  Sets sets = long_prompt();
  const auto dense = results({"pipelines/greedy.yaml", kFolder + "dense_attention.yaml"}, sets);
  sets.emplace_back("checkpoint", folder_ / "demo");
  const auto wide = results({"pipelines/greedy.yaml"}, sets);
  EXPECT_TRUE(flow::difference(*dense, *wide).equal());
}

TEST(DenseAttention, EqualsSparseAttentionWhileTheIndexerHasRoomForAll) {
  const Sets sets = {{"prompt_ids", "5,6,7,8,9,10,11,12,13,14"}, {"continuation_ids", "15,16"}};
  const auto sparse = results({"pipelines/greedy.yaml"}, sets);
  const auto dense = results({"pipelines/greedy.yaml", kFolder + "dense_attention.yaml"}, sets);
  EXPECT_TRUE(flow::difference(*sparse, *dense).equal());
}

TEST(DenseAttention, IsTheSameForEveryChunkingOfThePrompt) {
  const auto logits = [](const Sets& more) {
    Sets sets = long_prompt();
    sets.insert(sets.end(), more.begin(), more.end());
    std::vector<float> all;
    const auto log = results({"pipelines/greedy.yaml", kFolder + "dense_attention.yaml"}, sets);
    for (const auto& [key, packets] : log->packets()) {
      if (key.second != "backbone.head.logits") continue;
      for (const flow::Packet& packet : packets) {
        const auto rows = packet.get<Logits>().rows.all();
        all.insert(all.end(), rows.begin(), rows.end());
      }
    }
    return all;
  };
  const auto whole = logits({});
  EXPECT_FALSE(whole.empty());
  EXPECT_TRUE(whole == logits({{"prefill_chunk", "7"}}));
  EXPECT_TRUE(whole == logits({{"threads", "1"}}));
}

TEST(Ablations, AreAllTriedHere) {
  std::set<std::string> files;
  for (const auto& file : fs::directory_iterator(source(kFolder))) files.insert(file.path().filename());
  EXPECT_THAT(files,
              ::testing::ElementsAre("dense_attention.yaml", "engram_off.yaml", "engram_resident.yaml",
                                     "expert_cache_1.yaml", "index_keys_reference_slot.yaml",
                                     "no_prediction.yaml", "no_prefetch.yaml", "portable_kernels.yaml"));
}

}  // namespace
}  // namespace dsv::testing
