// verify_engram: the tables that a config's Engram figures lead to, and every way in which they disagree.
#include <boost/json.hpp>

#include "stages/audit/engram_report.h"
#include "tests/stages/checkpoint_fixture.h"

namespace dsv {
namespace {

using namespace dsv::test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelConfig released(std::initializer_list<std::pair<const char*, boost::json::value>> changes = {}) {
  auto config = read_config(kReleased);
  EXPECT_TRUE(config.ok()) << config.status().message();
  for (const auto& [key, value] : changes) EXPECT_TRUE(set_config_value(*config, key, value).ok()) << key;
  return *std::move(config);
}

std::shared_ptr<const Tokenizer> tokenizer(const fs::path& folder) {
  auto loaded = Tokenizer::load(folder / "tokenizer.json");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return *std::move(loaded);
}

TEST(EngramReport, DerivesTheReleasedTablesFromTheConfigAlone) {
  struct Case {
    std::int64_t layer, first, last, rows;
    std::vector<std::int64_t> multipliers;
  };
  const Case cases[] = {
      {1, 16000057, 16000463, 384006168, {76632096046245, 4839876093313, 35959672319349, 73987337458391}},
      {14, 16000477, 16000889, 384016682, {67716810739261, 51510806800915, 30921347202721, 82619226485591}}};
  const EngramReport report = verify_engram(released(), nullptr);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.columns, 24);
  EXPECT_EQ(report.pad_id, 2);
  ASSERT_EQ(report.tables.size(), std::size(cases));
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const EngramTableReport& table = report.tables[i];
    EXPECT_EQ(table.layout.layer_id, cases[i].layer);
    EXPECT_EQ(table.layout.primes.size(), 24u);
    EXPECT_EQ(table.layout.primes.front(), cases[i].first);
    EXPECT_EQ(table.layout.primes.back(), cases[i].last);
    EXPECT_EQ(table.layout.rows, cases[i].rows);
    EXPECT_EQ(table.declared_rows, cases[i].rows);
    EXPECT_EQ(table.code_bytes, static_cast<std::uint64_t>(cases[i].rows) * 256);
    EXPECT_EQ(table.scale_bytes, static_cast<std::uint64_t>(cases[i].rows) * 8);
    EXPECT_EQ(table.layout.multipliers, cases[i].multipliers);
  }
}

TEST(EngramReport, HashesASampleThatReachesFarIntoEveryTableAndStaysInside) {
  for (const EngramTableReport& table : verify_engram(released(), nullptr).tables) {
    EXPECT_EQ(table.sampled_ids, 256 * 24) << table.layout.layer_id;
    EXPECT_GE(table.lowest_id, 0);
    EXPECT_LT(table.lowest_id, table.layout.rows / 100);
    EXPECT_GT(table.highest_id, table.layout.rows / 100 * 99);
    EXPECT_LT(table.highest_id, table.layout.rows);
  }
}

TEST(EngramReport, SkipsTheClassesWithoutATokenizerAndSaysSo) {
  const EngramReport report = verify_engram(released(), nullptr);
  EXPECT_FALSE(report.classes);
  EXPECT_THAT(to_text(report), HasSubstr("[SKIP] token classes"));
  EXPECT_TRUE(to_json(report).at("classes").is_null());
}

TEST(EngramReport, RebuildsTheReleasedClassesFromTheReleasedTokenizer) {
  const EngramReport report = verify_engram(released(), tokenizer(kSource / "tests/golden/tokenizer").get());
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.tokens, 129280);
  EXPECT_EQ(report.classes, 99092);
  EXPECT_EQ(report.pad_class, 2);
  EXPECT_THAT(to_text(report), HasSubstr("tokenizer: 129280 tokens in 99092 classes, 99092 declared"));
}

TEST(EngramReport, NamesEveryDisagreement) {
  struct Case {
    const char* key;
    boost::json::value value;
    std::vector<std::string> problems;
  };
  const Case cases[] = {
      {"engram_n_heads",
       7,
       {"layer 1 declares 384006168 rows; its buckets add up to 336004849",
        "layer 14 declares 384016682 rows; its buckets add up to 336012883"}},
      {"engram_num_embeddings",
       {384006168, 384016681},
       {"layer 14 declares 384016681 rows; its buckets add up to 384016682"}},
      {"engram_num_embeddings", {384006168}, {"1 table sizes are declared for 2 Engram layers"}},
      {"engram_head_dim", 0, {"engram_head_dim is 0; expected a multiple of 32"}},
      {"engram_max_ngram_size", 1, {"engram_max_ngram_size is 1; expected 2 to 65536"}},
      {"engram_pad_id", 129280, {"engram_pad_id is 129280; the tokenizer has 129280 ids"}},
      {"vocab_size", 2147483647, {"vocab_size is 2147483647; expected 1 to 16777216"}},
  };
  for (const Case& c : cases)
    EXPECT_EQ(verify_engram(released({{c.key, c.value}}), nullptr).problems, c.problems) << c.key;
}

TEST(EngramReport, FailsOnATokenizerWithOtherClassesAndStillHashesASample) {
  const EngramReport report = verify_engram(released(), tokenizer(kDemo).get());
  EXPECT_THAT(report.problems,
              ElementsAre("the tokenizer makes 1931 classes; engram_compressed_vocab_size is 99092"));
  EXPECT_EQ(report.tables[0].sampled_ids, 256 * 24);
}

TEST(EngramReport, NamesAMissingKeyInTheSpellingOfTheFile) {
  TempDir folder;
  auto json = json_of(kReleased / "inference/config.json");
  json.as_object().erase("engram_vocab_size");
  write_text(folder / "config.json", boost::json::serialize(json));
  EXPECT_THAT(verify_engram(*read_config(folder / "config.json"), nullptr).problems,
              ElementsAre("key 'engram_vocab_size' is missing"));
}

}  // namespace
}  // namespace dsv
