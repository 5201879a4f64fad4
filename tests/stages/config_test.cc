// ModelConfig: both layouts of a config file read into one schema, strictly.
#include "stages/model/config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "stages/model/config_schema.h"
#include "tests/stages/checkpoint_fixture.h"

namespace dsv {
namespace {

namespace json = boost::json;
using namespace dsv::test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFlat[] = "inference/config.json";

ModelConfig read_ok(const fs::path& path) {
  auto config = read_config(path);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *std::move(config) : ModelConfig();
}

std::string error_of(const fs::path& path) {
  const auto config = load_config(path);
  return config.ok() ? "no error" : config.status().message();
}

json::object& parent_of(json::object& root, std::string_view& path) {
  json::object* object = &root;
  for (std::size_t dot; (dot = path.find('.')) != path.npos; path.remove_prefix(dot + 1))
    object = &object->at(path.substr(0, dot)).as_object();
  return *object;
}

/// A copy of one of golden a's configs with one change.
class EditedConfig {
 public:
  explicit EditedConfig(const fs::path& base) : root_(json_of(base).as_object()) {}
  EditedConfig& set(std::string_view path, json::value value) {
    parent_of(root_, path)[path] = std::move(value);
    return *this;
  }
  EditedConfig& erase(std::string_view path) {
    parent_of(root_, path).erase(path);
    return *this;
  }
  /// The edited file, which lives until the program ends.
  fs::path write() {
    static TempDir dir;
    static int count = 0;
    const fs::path file = dir / std::to_string(count++) / "config.json";
    write_text(file, json::serialize(root_));
    return file;
  }

 private:
  json::object root_;
};

EditedConfig flat() {
  return EditedConfig(kGoldenA / kFlat);
}
EditedConfig nested() {
  return EditedConfig(kGoldenA / "config.json");
}

TEST(Config, GivesTheFlatFileBackFromEitherLayoutWithItsValuesAndTypes) {
  for (const fs::path& folder : {kReleased, kGoldenA, kDemo}) {
    const json::value flat_file = json_of(folder / kFlat);
    EXPECT_EQ(flat_file.as_object().size(), 64u);
    for (const char* name : {"config.json", kFlat}) {
      // Equality of JSON values distinguishes 10 from 10.0 by kind.
      const json::object written = read_ok(folder / name).to_flat_json();
      EXPECT_EQ(json::serialize(written), json::serialize(flat_file)) << folder / name;
    }
  }
}

TEST(Config, KeepsWholeNumbersWholeAndFractionsFloatingAndNullNull) {
  const json::object written = read_ok(kReleased / "config.json").to_flat_json();
  EXPECT_TRUE(written.at("rope_theta").is_int64());
  EXPECT_TRUE(written.at("swiglu_limit").is_double());
  EXPECT_EQ(written.at("norm_eps").as_double(), 1e-20);
  EXPECT_EQ(written.at("hc_eps").as_double(), 1e-6);
  EXPECT_TRUE(written.at("vision_max_wh_ratio").is_null());
}

TEST(Config, ReleasedPairDiffersInExactlyTheTwelveFieldsThatOnlyTheNestedFileStates) {
  std::vector<std::string> keys;
  for (const ConfigDifference& d :
       config_differences(read_ok(kReleased / "config.json"), read_ok(kReleased / kFlat))) {
    keys.push_back(d.key);
    EXPECT_EQ(d.right, "absent") << d.key;
  }
  EXPECT_THAT(keys, ElementsAre("model_type", "architectures", "bos_token_id", "eos_token_id", "pad_token_id",
                                "hidden_act", "max_position_embeddings", "num_key_value_heads",
                                "tie_word_embeddings", "topk_method", "norm_topk_prob", "param_dtype"));
}

TEST(Config, DifferencesNameBothValues) {
  const auto differences =
      config_differences(read_ok(kGoldenA / kFlat), read_ok(flat().set("dim", 256).write()));
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].key + " " + differences[0].left + " " + differences[0].right, "dim 128 256");
}

TEST(Config, CompleteAndConsistentAreTheReleasedGoldenAndDemoConfigs) {
  for (const fs::path& folder : {kReleased, kGoldenA, kDemo}) {
    for (const char* name : {"config.json", kFlat}) {
      const auto config = load_config(folder / name);
      ASSERT_TRUE(config.ok()) << config.status().message();
      EXPECT_THAT(config->unknown_keys, IsEmpty());
    }
  }
}

TEST(Config, PrefersTheNestedFileOfAFolderAndFallsBackToTheFlatOne) {
  EXPECT_EQ(read_ok(kReleased).path, kReleased / "config.json");
  EXPECT_EQ(read_ok(kReleased).layout, ConfigLayout::Nested);
  TempDir dir;
  EXPECT_EQ(error_of(dir.path()),
            dir.path().string() + ": holds neither config.json nor inference/config.json");
  fs::create_directory(dir / "inference");
  fs::copy(kReleased / kFlat, dir / kFlat);
  EXPECT_EQ(read_ok(dir.path()).layout, ConfigLayout::Flat);
}

TEST(Config, DerivesTheRoleAndTheSourcesOfEachLayer) {
  const ModelConfig config = read_ok(kReleased);
  std::map<LayerRole, std::vector<int>> layers;
  for (int l = 0; l < config.n_layers; ++l) layers[config.role(l)].push_back(l);
  EXPECT_THAT(layers[LayerRole::Window], ElementsAre(0, 1));
  EXPECT_THAT(layers[LayerRole::Full], ElementsAre(2, 8, 14, 20));
  EXPECT_THAT(layers[LayerRole::Reindex], ElementsAre(24, 28, 32, 36));
  EXPECT_EQ(layers[LayerRole::Reuse].size(), 30u);
  EXPECT_EQ(config.role(41), LayerRole::Window) << "draft layers compress nothing";
  EXPECT_EQ(config.kv_source(1), -1);
  EXPECT_EQ(config.kv_source(2), 2);
  EXPECT_EQ(config.kv_source(39), 20);
  EXPECT_EQ(config.index_source(7), 2);
  EXPECT_EQ(config.index_source(39), 36);
  EXPECT_EQ(config.engram_slot(14), 1);
  EXPECT_FALSE(config.is_engram_layer(2));
}

TEST(Config, ContextLengthIsTheStatedOneOrWhatYarnExtendsTo) {
  EXPECT_EQ(read_ok(kReleased / "config.json").context_length(), 1048576);
  EXPECT_EQ(read_ok(kReleased / kFlat).context_length(), 1048576);
  EXPECT_EQ(read_ok(kGoldenA / "config.json").context_length(), 1024);
  EXPECT_EQ(read_ok(kGoldenA / kFlat).context_length(), 512);
}

TEST(Config, ReadsTheBlockSizeOfScalesWhereItIsStated) {
  EXPECT_EQ(read_ok(kReleased / "config.json").weight_block_size, (std::array{32, 32}));
  EXPECT_EQ(read_ok(kReleased / kFlat).weight_block_size, std::nullopt);
  const auto odd = nested().set("quantization_config.weight_block_size", {128, 64}).write();
  EXPECT_EQ(read_ok(odd).weight_block_size, (std::array{128, 64}));
}

TEST(Config, AcceptsTheYarnTypeUnderEitherName) {
  const auto renamed = nested()
                           .erase("text_config.rope_scaling.rope_type")
                           .set("text_config.rope_scaling.type", "yarn")
                           .write();
  EXPECT_EQ(error_of(renamed), "no error");
  EXPECT_THAT(read_ok(renamed).unknown_keys, IsEmpty());
  EXPECT_THAT(
      error_of(nested().set("text_config.rope_scaling.rope_type", "linear").write()),
      HasSubstr("key 'text_config.rope_scaling.rope_type' is \"linear\"; this program runs \"yarn\" only"));
}

TEST(Config, RefusesEveryMissingKeyByTheNameItHasInThatLayout) {
  for (const ConfigField& field : config_fields()) {
    EXPECT_THAT(error_of(nested().erase(field.nested).write()),
                HasSubstr(fmt::format("config.json: lacks the key {}", field.nested)));
    if (field.group == ConfigGroup::NestedOnly) continue;
    EXPECT_THAT(error_of(flat().erase(field.flat).write()),
                HasSubstr(fmt::format("config.json: lacks the key {}", field.flat)));
  }
}

TEST(Config, NeedsNoKeyOfAPartThatTheModelLacks) {
  EditedConfig config = flat();
  for (const ConfigField& field : config_fields())
    if (field.group != ConfigGroup::Text && field.group != ConfigGroup::NestedOnly) config.erase(field.flat);
  config.set("compress_ratios", {0, 0, 2, 2, 1, 1, 1, 1});
  const fs::path file = config.write();
  EXPECT_EQ(error_of(file), "no error");
  EXPECT_FALSE(read_ok(file).has_engram() || read_ok(file).has_dspark() || read_ok(file).has_vision());
}

TEST(Config, RefusesAnotherModelTypeByName) {
  EXPECT_THAT(error_of(nested().set("model_type", "llama").write()),
              HasSubstr("model_type is \"llama\"; this program runs \"deepseek_v41\" only"));
  EXPECT_THAT(error_of(flat().set("model_type", "deepseek_v4").write()),
              HasSubstr("model_type is \"deepseek_v4\""));
}

TEST(Config, ReportsEveryWrongTypeWithKeyFoundAndExpected) {
  struct Case {
    const char* path;
    json::value value;
    const char* message;
  };
  const Case cases[] = {
      {"dim", "128", "key 'dim' is \"128\", expected a whole number of 32 bits"},
      {"dim", 128.5, "key 'dim' is 1.285E2, expected a whole number of 32 bits"},
      {"dim", 5000000000, "key 'dim' is 5000000000, expected a whole number of 32 bits"},
      {"dim", nullptr, "key 'dim' is null, expected a whole number of 32 bits"},
      {"dim", true, "key 'dim' is true, expected a whole number of 32 bits"},
      {"norm_eps", "tiny", "key 'norm_eps' is \"tiny\", expected a number"},
      {"score_func", 3, "key 'score_func' is 3, expected a string"},
      {"kv_source_layers", 2, "key 'kv_source_layers' is 2, expected a list of whole numbers"},
      {"kv_source_layers", {2, "4"}, "key 'kv_source_layers' is [2,\"4\"], expected a list of whole numbers"},
      {"vision_max_wh_ratio", "none", "key 'vision_max_wh_ratio' is \"none\", expected a number or null"},
  };
  for (const Case& c : cases)
    EXPECT_THAT(error_of(flat().set(c.path, c.value).write()), HasSubstr(c.message));
  const std::string both = error_of(flat().set("dim", "x").set("n_heads", "y").write());
  EXPECT_THAT(both, HasSubstr("key 'dim'"));
  EXPECT_THAT(both, HasSubstr("key 'n_heads'"));
  EXPECT_THAT(
      error_of(nested().set("quantization_config.weight_block_size", {32}).write()),
      HasSubstr("'quantization_config.weight_block_size' is [32], expected two positive whole numbers"));
  EXPECT_THAT(
      error_of(nested().set("quantization_config.scale_fmt", "float").write()),
      HasSubstr("key 'quantization_config.scale_fmt' is \"float\"; this program runs \"ue8m0\" only"));
}

TEST(Config, ListsTheKeysItDoesNotKnow) {
  const auto file = nested().set("text_config.dropped", 1).set("extra", {{"a", 1}}).write();
  EXPECT_THAT(read_ok(file).unknown_keys, ElementsAre("text_config.dropped", "extra"));
}

TEST(Config, LocatesKeysAmongHundredsOfThousandsOfOthersAtOnce) {
  EditedConfig config = flat();
  for (int i = 0; i < 300'000; ++i) config.set(fmt::format("unknown{}", i), i);
  config.set("hc_eps", -1);
  EXPECT_THAT(error_of(config.write()), HasSubstr(": hc_eps is -1, expected at least 0"));
}

TEST(Config, LocatesWhatIsNotJson) {
  TempDir dir;
  const fs::path file = dir / "config.json";
  const struct {
    std::string text, message;
  } cases[] = {
      {"{\"dim\": 1,\n \"dim\": 2}", ":2:6: key 'dim' is given twice"},
      {"{\"dim\": 1,\n}", ":2:1: not JSON"},
      {"{} {}", ":1:4: text after the end of the JSON value"},
      {std::string(1000, '['), ":1:33: nested deeper than 32"},
      {"", ":1:1: not JSON"},
      {"[1]", ": is not a JSON object"},
      {"{\"hidden_size\": 3}", ": holds no key of a DeepSeek-V4.1 config"},
      {"{\"dim\": \"\xff\"}", ": not JSON"},
  };
  for (const auto& c : cases) {
    write_text(file, c.text);
    EXPECT_THAT(error_of(file), HasSubstr(c.message));
    EXPECT_THAT(error_of(file), HasSubstr(file.string()));
  }
}

std::vector<std::string> problems_of(const fs::path& file) {
  std::vector<std::string> messages;
  for (const ConfigProblem& problem : read_ok(file).verify()) messages.push_back(problem.message);
  return messages;
}

TEST(Config, NamesEveryContradiction) {
  struct Case {
    const char* key;
    json::value value;
    std::vector<std::string> problems;
  };
  const json::value ratios_2_at_draft = {0, 0, 2, 2, 1, 1, 1, 1, 2, 0, 0};
  const Case cases[] = {
      {"n_heads", 3, {"n_heads 3 is no multiple of o_groups 2"}},
      {"rope_head_dim",
       80,
       {"rope_head_dim 80 exceeds head_dim 64", "rope_head_dim 80 exceeds index_head_dim 64"}},
      {"rope_head_dim", 15, {"rope_head_dim 15 is odd"}},
      {"beta_fast", 0.5, {"beta_fast 0.5 is less than beta_slow 1"}},
      {"window_size", 513, {"window_size 513 exceeds the context of 512 tokens"}},
      {"original_seq_len",
       2000000,
       {"original_seq_len 2000000 times rope_factor 16 is a context of 32000000 tokens, expected at most "
        "16777216"}},
      {"compress_ratios",
       {0, 0, 2, 2, 1, 1, 1, 1, 0, 0},
       {"compress_ratios has 10 entries, expected 11 (8 layers + 3 draft)"}},
      {"compress_ratios",
       ratios_2_at_draft,
       {"compress_ratios has 2 for layer 8, a draft layer, which compresses nothing"}},
      {"compress_ratios",
       {0, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0},
       {"kv_source_layers has no layer at or before layer 1, which reads compressed positions",
        "index_source_layers has no layer at or before layer 1, which reads compressed positions"}},
      {"compress_ratios",
       {0, 0, 2, 1, 1, 1, 1, 1, 0, 0, 0},
       {"compress_ratios has 1 for layer 3, but 2 for layer 2, its source in kv_source_layers",
        "compress_ratios has 1 for layer 3, but 2 for layer 2, its source in index_source_layers"}},
      {"kv_source_layers",
       {2, 4, 5},
       {"kv_source_layers names layer 5, which is not in index_source_layers"}},
      {"kv_source_layers", {4, 2}, {"kv_source_layers is not ascending: 2 after 4"}},
      {"index_source_layers",
       {2, 4, 6, 8},
       {"index_source_layers names layer 8, outside the 8 layers of the backbone"}},
      {"index_source_layers", {1, 2, 4, 6}, {"index_source_layers names layer 1, whose compress ratio is 0"}},
      {"candidate_source_layer", 5, {"candidate_source_layer 5 is no index source"}},
      {"n_activated_experts", 13, {"n_activated_experts 13 exceeds n_routed_experts 12"}},
      {"score_func", "relu", {R"(score_func is "relu", expected one of softmax, sigmoid, sqrtsoftplus)"}},
      {"score_func",
       json::string(1000, 'x'),
       {"score_func is \"" + std::string(60, 'x') + "\"..., expected one of softmax, sigmoid, sqrtsoftplus"}},
      {"expert_dtype", "int4", {R"(expert_dtype is "int4"; experts are read as fp4 only)"}},
      {"engram_layer_ids", {4, 1}, {"engram_layer_ids is not ascending: 1 after 4"}},
      {"engram_layer_ids", {1, 8}, {"engram_layer_ids names layer 8, outside the 8 layers of the backbone"}},
      {"engram_layer_ids",
       json::array(),
       {"engram_num_embeddings has 2 entries, but engram_layer_ids has 0"}},
      {"engram_num_embeddings", {660}, {"engram_num_embeddings has 1 entries, but engram_layer_ids has 2"}},
      {"engram_compressed_vocab_size", 513, {"engram_compressed_vocab_size 513 exceeds vocab_size 512"}},
      {"dspark_target_layer_ids",
       {6, 7, 8},
       {"dspark_target_layer_ids names layer 8, outside the 8 layers of the backbone"}},
      {"dspark_target_layer_ids",
       json::array(),
       {"dspark_target_layer_ids has 0 entries, but there are 3 draft layers (n_mtp_layers)"}},
      {"dspark_n_activated_experts", 7, {"dspark_n_activated_experts 7 exceeds dspark_n_routed_experts 6"}},
      {"vision_dim",
       66,
       {"vision_dim 66 makes heads of 33, which cannot rotate by row and by column (expected a multiple of "
        "4)"}},
      {"vision_n_heads", 3, {"vision_dim 64 is no multiple of vision_n_heads 3"}},
      {"vision_patch_size", 13, {"vision_patch_size 13 is odd"}},
      {"image_token_id", 512, {"image_token_id 512 is outside the vocabulary of 512"}},
      {"dspark_noise_token_id", 512, {"dspark_noise_token_id 512 is outside the vocabulary of 512"}},
  };
  for (const Case& c : cases) {
    const auto file = flat().set(c.key, c.value).write();
    EXPECT_THAT(problems_of(file), ::testing::ElementsAreArray(c.problems)) << c.key << " = " << c.value;
    EXPECT_THAT(error_of(file), ::testing::ContainsRegex("config.json:1:[0-9]+: "));
    EXPECT_THAT(error_of(file), HasSubstr(c.problems[0]));
  }
}

TEST(Config, ReportsANumberOutOfRangeOnceAndNothingThatFollowsFromIt) {
  struct Case {
    const char* key;
    json::value value;
    const char* problem;
  };
  const Case cases[] = {
      {"dim", 0, "dim is 0, expected at least 1"},
      {"n_layers", 0, "n_layers is 0, expected at least 1"},
      {"n_mtp_layers", -1, "n_mtp_layers is -1, expected at least 0"},
      {"vision_n_layers", -1, "vision_n_layers is -1, expected at least 0"},
      {"o_groups", -2, "o_groups is -2, expected at least 1"},
      {"engram_max_ngram_size", -1, "engram_max_ngram_size is -1, expected at least 2"},
      {"hc_sinkhorn_iters", 2147483647, "hc_sinkhorn_iters is 2147483647, expected at most 1000"},
      {"window_size", 2147483647, "window_size is 2147483647, expected at most 16777216"},
      {"vocab_size", 16777217, "vocab_size is 16777217, expected at most 16777216"},
      {"rope_factor", 0, "rope_factor is 0, expected more than 0"},
      {"rope_factor", 1e30, "rope_factor is 1e+30, expected at most 16777216"},
      {"compress_rope_theta", 1, "compress_rope_theta is 1, expected more than 1"},
      {"hc_eps", 1e300, "hc_eps is 1e+300, too large for single precision"},
      {"route_scale", 1e300, "route_scale is 1e+300, too large for single precision"},
      {"norm_eps", -1.0, "norm_eps is -1, expected at least 0"},
  };
  for (const Case& c : cases)
    EXPECT_THAT(problems_of(flat().set(c.key, c.value).write()), ElementsAre(c.problem)) << c.key;
  EXPECT_THAT(problems_of(nested().set("text_config.max_position_embeddings", 2147483647).write()),
              ElementsAre("text_config.max_position_embeddings is 2147483647, expected at most 16777216"));
}

TEST(Config, LocatesTheFirstProblemByLineAndByTheNameInTheFileAndCountsTheOthers) {
  TempDir dir;
  const fs::path file = dir / "config.json";
  std::string text = read_text(kDemo / "config.json");
  text.replace(text.find("\"hidden_size\": 128"), 18, "\"hidden_size\": -1");
  write_text(file, text);
  EXPECT_EQ(error_of(file), file.string() + ":24:5: text_config.hidden_size is -1, expected at least 1");
  text.replace(text.find("\"head_dim\": 64"), 14, "\"head_dim\": 0");
  write_text(file, text);
  EXPECT_EQ(error_of(file), fmt::format("{}:24:5: text_config.hidden_size is -1, expected at least 1; "
                                        "dsv41-run config --set checkpoint={} lists 1 more",
                                        file.string(), file.string()));
}

TEST(Config, ComparesTheFactsOfTheNestedFileWithTheRest) {
  struct Case {
    const char* path;
    json::value value;
    const char* problem;
  };
  const Case cases[] = {
      {"text_config.engram_pad_token_id", 3,
       "text_config.engram_pad_token_id 3 is not the tokenizer's pad id 2"},
      {"eos_token_id", 512, "eos_token_id 512 is outside the vocabulary of 512"},
      {"bos_token_id", -1, "bos_token_id -1 is outside the vocabulary of 512"},
      {"text_config.hidden_act", "",
       R"(text_config.hidden_act is "", but this model is defined for "silu" only)"},
      {"text_config.num_key_value_heads", 8,
       "text_config.num_key_value_heads is 8, but this model is defined for 1 only"},
      {"text_config.tie_word_embeddings", true,
       "text_config.tie_word_embeddings is true, but this model is defined for false only"},
      {"text_config.norm_topk_prob", false,
       "text_config.norm_topk_prob is false, but this model is defined for true only"},
  };
  for (const Case& c : cases)
    EXPECT_THAT(problems_of(nested().set(c.path, c.value).write()), ElementsAre(c.problem));
}

TEST(Config, RefusesANestedFileWithoutAKeyThatSelectsArithmetic) {
  for (const char* key : {"text_config.model_type", "text_config.rope_scaling.rope_type",
                          "quantization_config.weight_block_size", "quantization_config.activation_scheme",
                          "quantization_config.scale_fmt"})
    EXPECT_THAT(error_of(nested().erase(key).write()),
                HasSubstr(fmt::format("config.json: lacks the key {}", key)));
  for (const char* key :
       {"text_config.attention_bias", "quantization_config.fmt", "vision_config.model_type"})
    EXPECT_EQ(error_of(nested().erase(key).write()), "no error") << key << " is what the shards show";
}

TEST(Config, ListsTheFirstOfManyMissingKeys) {
  TempDir dir;
  write_text(dir / "config.json", R"({"dim": 128})");
  EXPECT_EQ(
      error_of(dir / "config.json"),
      (dir / "config.json").string() +
          ": lacks the keys vocab_size, moe_inter_dim, n_layers, n_heads, n_routed_experts and 32 more");
}

TEST(Config, SaysWhyAPathHoldsNoConfig) {
  EXPECT_EQ(error_of(""), "the path of the checkpoint is empty; 'demo' is the built-in one");
  TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of(dir / "pipe"), (dir / "pipe").string() + ": not a regular file");
  EXPECT_EQ(error_of(dir / "absent"), (dir / "absent").string() + ": No such file or directory");
}

/// Not root for as long as it lives: root may read everything.
class OtherUser {
 public:
  OtherUser() { EXPECT_EQ(::seteuid(::getuid() == 0 ? 65534 : ::getuid()), 0); }
  ~OtherUser() { EXPECT_EQ(::seteuid(::getuid()), 0); }
};

TEST(Config, TellsAFolderThatMayNotBeReadFromOneWithoutAConfig) {
  TempDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0), 0);
  std::string error;
  {
    const OtherUser user;
    error = error_of(dir.path());
  }
  ::chmod(dir.path().c_str(), 0700);
  EXPECT_EQ(error, (dir / "config.json").string() + ": Permission denied");
}

TEST(Config, JudgesARelationOnlyWhereItsKeysAreThere) {
  const auto file = flat().erase("n_layers").erase("o_groups").erase("vocab_size").write();
  EXPECT_THAT(problems_of(file), IsEmpty());
  EXPECT_THAT(read_ok(file).missing(), ElementsAre("vocab_size", "n_layers", "o_groups"));
}

TEST(Config, DescribesItsShapeInOneLine) {
  EXPECT_EQ(
      read_ok(kReleased).shape_line(),
      "40 layers + 3 draft, dim 5120, 64 heads of 512, 384 experts (6 active); Engram on layers [1, 14], "
      "vision 32 layers, DSpark blocks of 5 from layers [37, 38, 39]");
}

}  // namespace
}  // namespace dsv
