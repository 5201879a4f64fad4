// The header audit: which checks pass, fail or wait, on whole, partial and damaged checkpoints.
#include "stages/audit/audit.h"

#include <boost/json.hpp>

#include "stages/audit/synth.h"
#include "tests/stages/checkpoint_fixture.h"

namespace dsv {
namespace {

namespace json = boost::json;
using namespace dsv::test;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelConfig config_of(const fs::path& path) {
  auto config = read_config(path);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *std::move(config) : ModelConfig();
}

AuditReport audit_of(const ModelConfig& config, const fs::path& folder, const ShardSetOptions& scan = {},
                     const AuditOptions& options = {}) {
  const auto shards = ShardSet::scan(folder, scan);
  EXPECT_TRUE(shards.ok()) << shards.status().message();
  if (!shards.ok()) return {};
  auto report = audit(config, *shards, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *std::move(report) : AuditReport();
}

/// "pass/undecided/fail of all".
std::string counts(const AuditReport& r) {
  return fmt::format("{}/{}/{} of {}", r.count(Verdict::Pass), r.count(Verdict::Undecided),
                     r.count(Verdict::Fail), r.checks.size());
}

std::vector<std::string> titles(const AuditReport& report, Verdict verdict) {
  std::vector<std::string> titles;
  for (const AuditCheck& c : report.checks)
    if (c.verdict == verdict) titles.push_back(c.title);
  return titles;
}

std::string details(const AuditReport& report, Verdict verdict) {
  std::string text;
  for (const AuditCheck& c : report.checks)
    if (c.verdict == verdict) text += fmt::format("{}: {}\n", c.title, c.detail);
  return text;
}

void synthesize_ok(const ModelConfig& config, const fs::path& folder, const SynthOptions& options) {
  const auto report = synthesize(config, folder, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
}

/// The released geometry: 48 real headers over holes, written once.
class ReleasedGeometry : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    full_ = new TempDir;
    synthesize_ok(config_of(kReleased), full_->path(), {});
  }
  static void TearDownTestSuite() {
    delete full_;
    full_ = nullptr;
  }

  static std::string shard(int number) { return fmt::format("model-{:05}-of-00048.safetensors", number); }

  /// A folder with the first `count` shards, and the index if asked.
  static void link_shards(const TempDir& folder, int count, bool index) {
    for (int i = 1; i <= count; ++i) fs::create_symlink(*full_ / shard(i), folder / shard(i));
    if (index) fs::create_symlink(*full_ / kIndexFile, folder / kIndexFile);
  }

  static TempDir* full_;
};
TempDir* ReleasedGeometry::full_ = nullptr;

TEST_F(ReleasedGeometry, PassesAllThirtyNineChecksWithTheReleasedTotals) {
  const AuditReport report = audit_of(config_of(kReleased), full_->path());
  EXPECT_EQ(counts(report), "39/0/0 of 39");
  EXPECT_TRUE(report.passed(true));
  EXPECT_EQ(report.shards, 48);
  EXPECT_EQ(report.tensors, 96'085);
  EXPECT_EQ(report.readable, 96'085);
  EXPECT_EQ(report.bytes, 510'286'023'000u);
  std::vector<std::pair<std::string, std::int64_t>> rows;
  for (const CategoryRow& row : report.categories)
    rows.emplace_back(category_name(row.category), row.tensors);
  EXPECT_THAT(rows,
              ElementsAre(std::pair("routed experts", 94'464), std::pair("Engram", 12),
                          std::pair("attention", 603), std::pair("embedding and head", 3),
                          std::pair("shared experts", 240), std::pair("vision and aligner", 266),
                          std::pair("draft layers", 97), std::pair("gates, norms, hyper-connections", 400)));
  EXPECT_EQ(report.categories[0].bytes, 295'997'276'160u);
  EXPECT_EQ(report.categories[1].bytes, 203'073'076'240u);
}

TEST_F(ReleasedGeometry, TakesLittleSpaceOnDisk) {
  std::uint64_t blocks = 0;
  for (const auto& entry : fs::directory_iterator(full_->path())) {
    struct stat info {};
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    blocks += static_cast<std::uint64_t>(info.st_blocks);
  }
  EXPECT_LT(blocks * 512, 64u << 20);
}

TEST_F(ReleasedGeometry, PassesWithTheFlatConfigWhichStatesNoBlockSize) {
  const AuditReport report = audit_of(config_of(kReleased / "inference/config.json"), full_->path());
  EXPECT_EQ(counts(report), "39/0/0 of 39");
  EXPECT_THAT(to_text(report, true), HasSubstr("(32x32, from the first scale)"));
}

TEST_F(ReleasedGeometry, PassesThirtyEightChecksWithoutAnIndex) {
  TempDir folder;
  link_shards(folder, 48, false);
  EXPECT_EQ(counts(audit_of(config_of(kReleased), folder.path())), "38/0/0 of 38");
}

TEST_F(ReleasedGeometry, PassesOnHeaderPrefixesUnderArbitraryNames) {
  for (const bool index : {false, true}) {
    TempDir folder;
    for (int i = 1; i <= 48; ++i) {
      const auto header = read_header_text(*full_ / shard(i));
      ASSERT_TRUE(header.ok());
      write_text(folder / fmt::format("h{}.bin", i), safetensors_bytes(*header, 1000));
    }
    if (index) fs::create_symlink(*full_ / kIndexFile, folder / kIndexFile);
    const AuditReport report = audit_of(config_of(kReleased), folder.path(), {.header_prefix = true});
    EXPECT_EQ(counts(report), index ? "39/0/0 of 39" : "38/0/0 of 38") << details(report, Verdict::Fail);
    EXPECT_EQ(report.bytes, 510'286'023'000u);
    EXPECT_GT(audit_of(config_of(kReleased), folder.path()).count(Verdict::Fail), 0) << "only on request";
  }
}

TEST_F(ReleasedGeometry, LeavesEightChecksUndecidedOnTheFirstTwentyShards) {
  TempDir folder;
  link_shards(folder, 20, true);
  const AuditReport report = audit_of(config_of(kReleased), folder.path());
  EXPECT_EQ(counts(report), "31/8/0 of 39");
  EXPECT_TRUE(report.passed(false));
  EXPECT_FALSE(report.passed(true));
  for (const AuditCheck& check : report.checks)
    EXPECT_EQ(check.waits_for.empty(), check.verdict == Verdict::Pass) << check.title;
  EXPECT_EQ(report.coverage.size(), 22u + 2u + 3u) << "22 layers, 2 Engram tables, 3 draft layers";
  EXPECT_EQ(report.tensors, 96'085);
  EXPECT_LT(report.readable, 48'000);
}

TEST_F(ReleasedGeometry, LeavesFourChecksUndecidedWithoutTheEngramShards) {
  TempDir folder;
  link_shards(folder, 46, true);
  const AuditReport report = audit_of(config_of(kReleased), folder.path());
  EXPECT_EQ(counts(report), "35/4/0 of 39");
  for (const AuditCheck& check : report.checks)
    if (check.verdict == Verdict::Undecided) {
      EXPECT_THAT(check.waits_for, ElementsAre(shard(47), shard(48)));
    }
  ASSERT_EQ(report.coverage.size(), 2u);
  EXPECT_EQ(report.coverage[0].layer, "layers.1");
  EXPECT_EQ(report.coverage[0].at_hand, 2334);
  EXPECT_EQ(report.coverage[0].expected, 2340);
}

TEST_F(ReleasedGeometry, KnowsFromTheNumberingOfFilesWhatIsMissingWithoutAnIndex) {
  TempDir folder;
  link_shards(folder, 46, false);
  const AuditReport report = audit_of(config_of(kReleased), folder.path());
  EXPECT_EQ(report.count(Verdict::Fail), 0) << details(report, Verdict::Fail);
  EXPECT_GT(report.count(Verdict::Undecided), 4);
  for (const AuditCheck& check : report.checks)
    if (check.verdict == Verdict::Undecided) {
      EXPECT_THAT(check.waits_for, ElementsAre(shard(47), shard(48)));
    }
}

TEST_F(ReleasedGeometry, FailsOneCheckWithBothRowCountsWhenTheNumberOfEngramHeadsIsWrong) {
  ModelConfig config = config_of(kReleased);
  config.engram_n_heads = 7;
  TempDir folder;
  link_shards(folder, 48, false);
  const AuditReport report = audit_of(config, folder.path());
  EXPECT_EQ(counts(report), "37/0/1 of 38");
  EXPECT_THAT(details(report, Verdict::Fail),
              HasSubstr("declared=[384006168, 384016682] derived=[336004849, 336012883]"));
  EXPECT_FALSE(report.passed(false));
}

TEST_F(ReleasedGeometry, IgnoresAKeyThatItDoesNotRead) {
  ModelConfig config = config_of(kReleased);
  config.route_scale = 3.25;
  config.index_topk = 77;
  EXPECT_EQ(counts(audit_of(config, full_->path())), "39/0/0 of 39");
}

TEST_F(ReleasedGeometry, ListsTensorsByPattern) {
  const auto shards = ShardSet::scan(full_->path());
  EXPECT_EQ(
      list_tensors(*shards, "layers.20.attn.compressor.*"),
      "layers.20.attn.compressor.wkv.weight\tBF16\t[512, 5120]\t5242880\tmodel-00023-of-00048.safetensors\n"
      "layers.20.attn.compressor.norm.weight\tBF16\t[512]\t1024\tmodel-00023-of-00048.safetensors\n");
  EXPECT_EQ(list_tensors(*shards, "nothing"), "");
}

TEST(Audit, PassesOnTheGoldenAndTheDemoCheckpointWithTheirOwnCounts) {
  for (const fs::path& folder : {kGoldenA, kDemo}) {
    const AuditReport report = audit_of(config_of(folder), folder);
    EXPECT_EQ(counts(report), "39/0/0 of 39") << details(report, Verdict::Fail);
    EXPECT_TRUE(report.passed(true));
  }
  EXPECT_EQ(audit_of(config_of(kGoldenA), kGoldenA).tensors, 1080);
  EXPECT_EQ(audit_of(config_of(kDemo), kDemo).tensors, 1308);
}

TEST(Audit, FlipsExactlyTheChecksThatAFaultConcernsAndNamesTensorFoundAndExpected) {
  const std::string expert_packing = "w1, w2 and w3 are FP4 packed in I8, with E8M0 scales per 32";
  const std::string pairs = "every scale at hand divides its weight into blocks";
  const std::string extents = "every extent at hand is what type and shape take, without overlap or gap";
  const std::string blocks = "all dense FP8 weights have the same block";
  const std::string full_sets = "embedding, head and every layer have their full set, and nothing else";
  const std::string unquantized = "F32 and BF16 tensors have no scale, and those at hand their type";
  const std::string once = "there are tensors and bytes, and each tensor once";
  const std::string files = "every file has a readable header and its whole payload";
  const std::string index = "every shard at hand holds exactly what the index assigns to it";
  const std::string table_types = "the tables are F8_E4M3 of the declared size, with E8M0 scales";
  const std::string table_blocks = "one scale of a table covers 32 elements of one row";
  struct Case {
    std::vector<std::string> faults;
    std::vector<std::string> failed;
    std::string evidence;
  };
  const Case cases[] = {
      {{"reshape layers.3.ffn.experts.5.w1.weight 64,32"},
       {expert_packing},
       "layers.3.ffn.experts.5.w1.weight is I8 [64, 32] in model-00006-of-00016.safetensors, expected I8 "
       "[64, 64]"},
      {{"retype layers.3.ffn.experts.5.w1.weight F8_E4M3"}, {expert_packing}, "is F8_E4M3 [64, 64] in"},
      {{"reshape layers.3.ffn.experts.5.w1.weight 63,64"},
       {pairs, expert_packing},
       "layers.3.ffn.experts.5.w1.scale is F8_E8M0 [64, 4] in model-00006-of-00016.safetensors does not "
       "divide "},
      {{"drop layers.6.ffn.experts.11.w2.scale"},
       {"every backbone layer has its routed experts"},
       "layers.6.ffn.experts.11.w2.scale is missing"},
      {{"add layers.6.ffn.experts.12.w2.weight I8 4"},
       {"every backbone layer has its routed experts"},
       "layers.6.ffn.experts.12.w2.weight has no place in this config"},
      {{"drop mtp.1.ffn.experts.0.w3.weight"},
       {pairs, "every draft layer has its routed experts"},
       "mtp.1.ffn.experts.0.w3.weight is missing"},
      {{"drop layers.5.attn.q_norm.weight"}, {full_sets}, "layers.5.attn.q_norm.weight is missing"},
      {{"drop head.weight"}, {full_sets}, "head.weight is missing"},
      {{"add layers.0.ffn.gate.tid2eid I32 4"},
       {full_sets},
       "layers.0.ffn.gate.tid2eid has no place in this config"},
      {{"reshape layers.5.attn.wq_b.weight 256,32"},
       {"the known shapes match the config", blocks},
       "layers.5.attn.wq_b.weight is F8_E4M3 [256, 32] in model-00008-of-00016.safetensors, expected F8_E4M3 "
       "[256, 64]"},
      {{"retype layers.5.attn_norm.weight F8_E4M3"},
       {unquantized},
       "layers.5.attn_norm.weight is F8_E4M3 [128] in model-00008-of-00016.safetensors, expected BF16"},
      {{"add layers.5.attn_norm.scale F8_E8M0 4"},
       {unquantized},
       "layers.5.attn_norm.scale has no place in this config"},
      {{"reshape layers.2.attn.wq_a.scale 1,1"},
       {blocks},
       "layers.2.attn.wq_a.scale is F8_E8M0 [1, 1] in model-00005-of-00016.safetensors, expected [2, 4] for "
       "[64, 128] "
       "and blocks of 32x32"},
      {{"add layers.4.attn.compressor.wgate.weight BF16 64,128"},
       {"compressor gates are on exactly the KV sources with a ratio over 1"},
       "layers.4.attn.compressor.wgate.weight is on a layer which is no KV source with a ratio over 1"},
      {{"drop layers.2.attn.compressor.wgate.weight"},
       {"compressor gates are on exactly the KV sources with a ratio over 1"},
       "layers.2.attn.compressor.wgate.weight is missing"},
      {{"drop layers.6.attn.indexer.wq_b.weight"},
       {"index queries are on exactly the index sources", pairs},
       "layers.6.attn.indexer.wq_b.weight is missing"},
      {{"drop layers.4.attn.indexer.wk.weight"},
       {"index keys are on exactly the KV sources", "every layer owns the tensors of one role"},
       "layer 4 has a compressor, no index keys and index queries, which is no role"},
      {{"reshape mtp.2.markov_head.embed.weight 512,64"},
       {"the Markov and confidence heads match the config"},
       "mtp.2.markov_head.embed.weight is BF16 [512, 64] in model-00014-of-00016.safetensors, expected BF16 "
       "[512, 32]"},
      {{"reshape mtp.0.main_proj.weight 128,256"},
       {pairs, blocks, "main_proj reads one hidden state per draft layer"},
       "mtp.0.main_proj.weight is F8_E4M3 [128, 256] in model-00012-of-00016.safetensors, expected F8_E4M3 "
       "[128, 384]"},
      {{"add mtp.1.markov_head.embed.weight BF16 4"},
       {"every draft layer has attention and FFN, only the last the heads"},
       "mtp.1.markov_head.embed.weight has no place in this config"},
      {{"drop vision.blocks.1.mlp.w1.weight"},
       {"all blocks, the aligner and the image vectors are there"},
       "vision.blocks.1.mlp.w1.weight is missing"},
      {{"reshape aligner.w1.weight 128,64"},
       {"the shapes of encoder and aligner match the config"},
       "expected BF16 [128, 576]"},
      {{"reshape layers.1.engram.embed.weight 659,32", "reshape layers.1.engram.embed.scale 659,1"},
       {table_types},
       "layers.1.engram.embed.weight is F8_E4M3 [659, 32] in model-00015-of-00016.safetensors, expected "
       "F8_E4M3 [660, 32]"},
      {{"reshape layers.1.engram.embed.scale 659,1"},
       {table_blocks, pairs},
       "layers.1.engram.embed.scale is F8_E8M0 [659, 1] in model-00015-of-00016.safetensors, expected [660, "
       "1] for "
       "[660, 32] and blocks of 1x32"},
      {{"add layers.2.engram.q_weight BF16 4"},
       {"the tables are on exactly the Engram layers"},
       "layers.2.engram.q_weight has no place in this config"},
      {{"drop layers.4.engram.k_weight"},
       {"every Engram layer has its gate and value projections"},
       "layers.4.engram.k_weight is missing"},
      {{"short layers.2.attn.q_norm.weight"},
       {extents},
       "tensor 'layers.2.attn.q_norm.weight' BF16 [64] takes 128 bytes, but its data_offsets span 127"},
      {{"overlap layers.2.attn.q_norm.weight"}, {extents}, "shares bytes with tensor"},
      {{"duplicate layers.2.attn.q_norm.weight"},
       {once},
       "model-00005-of-00016.safetensors: tensor 'layers.2.attn.q_norm.weight' is described twice; the first "
       "description counts"},
      {{"copy layers.2.attn.q_norm.weight"},
       {index},
       "model-00016-of-00016.safetensors holds layers.2.attn.q_norm.weight, which the index places in "
       "model-00005-of-00016.safetensors"},
      {{"lose layers.2.attn.q_norm.weight"},
       {full_sets, index},
       "model-00005-of-00016.safetensors lacks layers.2.attn.q_norm.weight"},
      {{"truncate 11"}, {files}, "'norm.weight' ends at byte"},
  };
  const ModelConfig config = config_of(kGoldenA);
  for (const Case& c : cases) {
    TempDir folder;
    SynthOptions options;
    for (const std::string& fault : c.faults) {
      const auto parsed = parse_synth_fault(fault);
      ASSERT_TRUE(parsed.ok()) << parsed.status().message();
      options.faults.push_back(*parsed);
    }
    synthesize_ok(config, folder.path(), options);
    const AuditReport report = audit_of(config, folder.path());
    EXPECT_THAT(titles(report, Verdict::Fail), ElementsAreArray(c.failed)) << c.faults[0];
    EXPECT_THAT(details(report, Verdict::Fail), HasSubstr(c.evidence));
    EXPECT_THAT(titles(report, Verdict::Undecided), IsEmpty());
  }
}

TEST(Audit, FlipsExactlyTheConfigCheckThatAWrongKeyConcerns) {
  struct Case {
    const char* key;
    json::value value;
    std::vector<std::string> failed;
  };
  const std::string sources = "every compressed layer has KV and index sources of its ratio";
  const Case cases[] = {
      {"dspark_target_layer_ids", {4, 5, 6}, {"the DSpark targets are the last layers, one per draft layer"}},
      {"candidate_source_layer", 6, {"the candidate source is the last KV source"}},
      {"engram_compressed_vocab_size",
       600,
       {"the compressed vocabulary is set and no larger than the vocabulary"}},
      {"compress_ratios", {0, 0, 2, 2, 1, 1, 1, 1, 0, 0, 1}, {"draft layers compress nothing"}},
      {"compress_ratios", {0, 0, 2, 2, 1, 2, 1, 1, 0, 0, 0}, {sources}},
      {"compress_ratios",
       {0, 0, 2, 2, 1, 1, 1, 1, 0, 0},
       {"compress_ratios cover backbone and draft layers"}},
  };
  for (const Case& c : cases) {
    ModelConfig config = config_of(kGoldenA);
    ASSERT_TRUE(set_config_value(config, c.key, c.value).ok());
    EXPECT_THAT(titles(audit_of(config, kGoldenA), Verdict::Fail), ElementsAreArray(c.failed)) << c.key;
  }
}

TEST(Audit, NamesTheKeysThatAConfigLacks) {
  ModelConfig config = config_of(kGoldenA);
  config.present.erase("route_scale");
  EXPECT_THAT(details(audit_of(config, kGoldenA), Verdict::Fail),
              HasSubstr("text_config.routed_scaling_factor is not in"));
  EXPECT_EQ(counts(audit_of(config, kGoldenA)), "38/0/1 of 39") << "the inventory does not depend on it";
  config.present.erase("dim");
  const AuditReport report = audit_of(config, kGoldenA);
  EXPECT_THAT(titles(report, Verdict::Fail), ElementsAre("every key is there"));
  EXPECT_GT(report.count(Verdict::Undecided), 20);
}

TEST(Audit, RefusesTwoCopiesOfATensorWithoutAnIndex) {
  TempDir folder;
  SynthOptions options;
  options.index = false;
  options.faults = {*parse_synth_fault("copy norm.weight")};
  synthesize_ok(config_of(kGoldenA), folder.path(), options);
  EXPECT_THAT(details(audit_of(config_of(kGoldenA), folder.path()), Verdict::Fail),
              HasSubstr("norm.weight (model-00011-of-00016.safetensors, model-00016-of-00016.safetensors) is "
                        "in two files"));
}

TEST(Audit, IgnoresAndListsAFileThatTheIndexDoesNotName) {
  TempDir folder;
  copy_checkpoint(kGoldenA, folder.path());
  const std::vector<TensorData> stray = {{"x", DType::U8, {1}, std::vector<std::byte>(1)}};
  ASSERT_TRUE(write_safetensors(folder / "stray.safetensors", stray).ok());
  const AuditReport report = audit_of(config_of(kGoldenA), folder.path());
  EXPECT_EQ(counts(report), "39/0/0 of 39");
  EXPECT_THAT(report.notes, ElementsAre("stray.safetensors ignored: the index does not name it"));
}

TEST(Audit, SkipsAFileWhoseHeaderIsThatOfAnotherAndSaysSo) {
  TempDir folder;
  copy_checkpoint(kGoldenA, folder.path());
  fs::remove(folder / kIndexFile);
  fs::copy(folder / "model-00011-of-00016.safetensors", folder / "again.safetensors");
  const AuditReport report = audit_of(config_of(kGoldenA), folder.path());
  EXPECT_EQ(counts(report), "38/0/0 of 38");
  EXPECT_EQ(report.tensors, 1080);
  EXPECT_THAT(
      report.notes,
      ElementsAre("again.safetensors skipped: its header is that of model-00011-of-00016.safetensors"));
}

TEST(Audit, FailsTheIndexCheckOnAShardThatIsACopyOfAnother) {
  TempDir folder;
  copy_checkpoint(kGoldenA, folder.path());
  fs::copy(folder / "model-00003-of-00016.safetensors", folder / "model-00004-of-00016.safetensors",
           fs::copy_options::overwrite_existing);
  const AuditReport report = audit_of(config_of(kGoldenA), folder.path());
  EXPECT_THAT(details(report, Verdict::Fail),
              HasSubstr("model-00004-of-00016.safetensors holds the tensors of "
                        "model-00003-of-00016.safetensors"));
}

TEST(Audit, GoesOnWithoutAnIndexThatCannotBeRead) {
  TempDir folder;
  copy_checkpoint(kGoldenA, folder.path());
  write_text(folder / kIndexFile, R"({"weight_map": {"a": "x", "a": "y"}})");
  const AuditReport report = audit_of(config_of(kGoldenA), folder.path());
  EXPECT_EQ(counts(report), "38/0/1 of 39");
  EXPECT_THAT(details(report, Verdict::Fail), HasSubstr("index.json:1:34: key 'a' is given twice"));
  EXPECT_FALSE(ShardSet::scan(folder.path(), {.index = folder / kIndexFile}).ok()) << "asked for by name";
}

TEST(Audit, ReportsAnUnreadableFileAndChecksTheRest) {
  const std::string hostile[] = {"", safetensors_bytes("{}", 0, 0), safetensors_bytes("{}", 0, 1ULL << 63),
                                 safetensors_bytes("{\"a\":" + std::string(10'000'000, '['), 0)};
  for (const std::string& bytes : hostile) {
    TempDir folder;
    copy_checkpoint(kGoldenA, folder.path());
    write_text(folder / "model-00003-of-00016.safetensors", bytes);
    const AuditReport report = audit_of(config_of(kGoldenA), folder.path());
    EXPECT_THAT(titles(report, Verdict::Fail),
                ElementsAre("every file has a readable header and its whole payload"));
    EXPECT_THAT(details(report, Verdict::Fail), HasSubstr("model-00003-of-00016.safetensors: "));
    EXPECT_EQ(report.readable, 1080 - 102);
  }
}

TEST(Audit, NamesATensorOfUnknownTypeAndChecksTheRest) {
  TempDir folder;
  copy_checkpoint(kGoldenA, folder.path());
  std::string bytes = read_text(folder / "model-00011-of-00016.safetensors");
  bytes.replace(bytes.find("BF16"), 4, "FP16");
  write_text(folder / "model-00011-of-00016.safetensors", bytes);
  const AuditReport report = audit_of(config_of(kGoldenA), folder.path());
  EXPECT_EQ(counts(report), "37/0/2 of 39");
  EXPECT_THAT(
      details(report, Verdict::Fail),
      HasSubstr("model-00011-of-00016.safetensors: tensor 'head.weight' has the unknown dtype 'FP16'"));
  EXPECT_THAT(list_tensors(*ShardSet::scan(folder.path()), "head.*"),
              HasSubstr("head.weight\tFP16\t[512, 128]"));
}

TEST(Audit, AssumesAnotherBlockOnRequest) {
  const AuditReport report = audit_of(config_of(kGoldenA), kGoldenA, {}, {.fp8_block = std::array{128, 128}});
  EXPECT_THAT(titles(report, Verdict::Fail), ElementsAre("all dense FP8 weights have the same block"));
}

TEST(Audit, RefusesAConfigThatCallsForAbsurdlyManyTensors) {
  ModelConfig config = config_of(kGoldenA);
  config.n_routed_experts = 2'000'000'000;
  const auto report = audit(config, *ShardSet::scan(kGoldenA));
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.status().message(), HasSubstr("more than the 10000000 that a checkpoint may have"));
}

TEST(Audit, SaysTheSameInJson) {
  const AuditReport report = audit_of(config_of(kGoldenA), kGoldenA);
  const json::object object = to_json(report, false);
  EXPECT_EQ(object.at("checks").as_array().size(), 39u);
  EXPECT_EQ(object.at("pass"), 39);
  EXPECT_EQ(object.at("passed"), true);
  EXPECT_EQ(object.at("bytes"), 4'797'524u);
  EXPECT_EQ(object.at("checks").as_array()[0].at("status"), "pass");
}

}  // namespace
}  // namespace dsv
