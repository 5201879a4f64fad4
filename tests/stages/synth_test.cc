// synthesize: checkpoints of any geometry with holes or random weights.
#include "stages/audit/synth.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstring>

#include "stages/kernels/formats.h"
#include "stages/model/checkpoint.h"
#include "tests/stages/checkpoint_fixture.h"

namespace dsv {
namespace {

using namespace dsv::test;
using ::testing::HasSubstr;

SynthReport synthesize_ok(const ModelConfig& config, const fs::path& folder,
                          const SynthOptions& options = {}) {
  const auto report = synthesize(config, folder, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *report : SynthReport();
}

TEST(Synth, WritesTheSameTensorsAsTheGoldenCheckpointHas) {
  TempDir folder;
  const SynthReport report = synthesize_ok(*load_config(kGoldenA), folder.path());
  EXPECT_EQ(report.shards, 16);
  EXPECT_EQ(report.tensors, 1080);
  EXPECT_EQ(report.bytes, 4'797'524u);
  const auto made = *Checkpoint::open(folder.path()), golden = *Checkpoint::open(kGoldenA);
  for (const TensorInfo& tensor : golden->tensors()) {
    const TensorInfo* same = made->find(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_EQ(same->dtype, tensor.dtype) << tensor.name;
    EXPECT_EQ(same->shape, tensor.shape) << tensor.name;
    EXPECT_EQ(made->shard(same->shard).path.filename(), golden->shard(tensor.shard).path.filename())
        << tensor.name;
  }
}

TEST(Synth, WritesBothConfigsAndTheTokenizerBesideTheShards) {
  TempDir folder;
  synthesize_ok(*load_config(kGoldenA), folder.path());
  for (const char* name : {"config.json", "inference/config.json"}) {
    const auto config = load_config(folder / name);
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_TRUE(config_differences(*config, *load_config(kGoldenA / name)).empty()) << name;
  }
  EXPECT_EQ(load_config(folder.path())->weight_block_size, (std::array{32, 32}));
  EXPECT_EQ(read_text(folder / "tokenizer.json"), read_text(kGoldenA / "tokenizer.json"));
}

TEST(Synth, WritesOnlyTheFlatConfigWhereTheNestedFactsAreUnknown) {
  TempDir folder;
  synthesize_ok(*load_config(kGoldenA / "inference/config.json"), folder.path());
  EXPECT_FALSE(fs::exists(folder / "config.json"));
  EXPECT_TRUE(fs::exists(folder / "inference/config.json"));
  EXPECT_TRUE(fs::exists(folder / "tokenizer.json")) << "found one folder above the flat config";
}

TEST(Synth, LeavesHeadersAloneWhenAskedForNoPayload) {
  TempDir folder;
  synthesize_ok(*load_config(kGoldenA), folder.path(), {.payload = SynthPayload::None});
  const fs::path shard = folder / "model-00011-of-00016.safetensors";
  EXPECT_EQ(fs::file_size(shard), 8 + read_header_text(shard)->size());
}

TEST(Synth, GivesTheSameBytesForTheSameSeedAndOthersForAnother) {
  TempDir first, again, other;
  const ModelConfig config = *load_config(kGoldenA);
  synthesize_ok(config, first.path(), {.payload = SynthPayload::Random, .seed = 5});
  synthesize_ok(config, again.path(), {.payload = SynthPayload::Random, .seed = 5});
  synthesize_ok(config, other.path(), {.payload = SynthPayload::Random, .seed = 6});
  const char* shard = "model-00005-of-00016.safetensors";
  EXPECT_EQ(read_text(first / shard), read_text(again / shard));
  EXPECT_NE(read_text(first / shard), read_text(other / shard));
}

/// Standard deviation of a quantized weight, decoded with its scales of 32 columns and `rows_per_scale` rows.
double deviation_of(const Checkpoint& checkpoint, const std::string& name, std::size_t rows_per_scale) {
  const TensorInfo& weight = *checkpoint.find(name + ".weight");
  const auto codes = *checkpoint.read(weight), scales = *checkpoint.read(*checkpoint.find(name + ".scale"));
  const bool fp4 = weight.dtype == DType::I8;
  const auto rows = static_cast<std::size_t>(weight.shape[0]),
             columns = static_cast<std::size_t>(weight.shape[1]) * (fp4 ? 2 : 1);
  double sum = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      const float scale =
          e8m0_value(static_cast<std::uint8_t>(scales[r / rows_per_scale * (columns / 32) + c / 32]));
      const auto byte = static_cast<std::uint8_t>(codes[fp4 ? (r * columns + c) / 2 : r * columns + c]);
      const float value =
          (fp4 ? e2m1_value(static_cast<std::uint8_t>(c % 2 ? byte >> 4 : byte & 15)) : e4m3_value(byte)) *
          scale;
      sum += double(value) * value;
    }
  }
  return std::sqrt(sum / static_cast<double>(rows * columns));
}

TEST(Synth, DrawsWeightsOfTheSizeThatTrainedOnesHave) {
  TempDir folder;
  synthesize_ok(*load_config(kGoldenA), folder.path(), {.payload = SynthPayload::Random});
  const auto checkpoint = *Checkpoint::open(folder.path());
  const auto near = [](double expected) {
    return ::testing::AllOf(::testing::Gt(expected / 2), ::testing::Lt(expected * 2));
  };
  EXPECT_THAT(deviation_of(*checkpoint, "layers.0.attn.wq_a", 32), near(1 / std::sqrt(128.0)));
  EXPECT_THAT(deviation_of(*checkpoint, "layers.0.ffn.experts.0.w1", 1), near(1 / std::sqrt(128.0)));
  EXPECT_THAT(deviation_of(*checkpoint, "layers.1.engram.embed", 1), near(1.0));
  const auto norm = checkpoint->view("layers.0.attn_norm.weight")->as<bf16>();
  for (const bf16 w : *norm) EXPECT_NEAR(static_cast<float>(w), 1.0f, 0.3f);
  for (const TensorInfo& tensor : checkpoint->tensors()) {
    const auto bytes = *checkpoint->read(tensor);
    const auto count = [&](auto is_nan) { return std::ranges::count_if(bytes, is_nan); };
    if (tensor.dtype == DType::F8_E4M3) {
      EXPECT_EQ(count([](std::byte b) { return (b & std::byte{0x7f}) == std::byte{0x7f}; }), 0)
          << tensor.name;
    } else if (tensor.dtype == DType::F8_E8M0) {
      EXPECT_EQ(count([](std::byte b) { return b == std::byte{0xff}; }), 0) << tensor.name;
    }
  }
}

TEST(Synth, WritesAnotherGeometryFromAnEditedConfig) {
  TempDir folder;
  ModelConfig config = *load_config(kGoldenA);
  ASSERT_TRUE(set_config_value(config, "n_routed_experts", 4).ok());
  EXPECT_EQ(synthesize_ok(config, folder.path()).tensors, 1080 - 8 * 8 * 6);
  EXPECT_EQ(load_config(folder.path())->n_routed_experts, 4);
  EXPECT_THAT(set_config_value(config, "n_experts", 4).message(), HasSubstr("no key 'n_experts'"));
  EXPECT_THAT(set_config_value(config, "dim", "x").message(),
              HasSubstr("key 'dim' is \"x\", expected a whole number"));
}

TEST(Synth, NeverWritesIntoAFolderThatHoldsAnything) {
  TempDir folder;
  write_text(folder / "old.safetensors", "");
  const auto report = synthesize(*load_config(kGoldenA), folder.path());
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().message(),
            folder.path().string() +
                ": already holds old.safetensors; name a folder that is empty or not there yet");
}

TEST(Synth, LeavesNothingBehindWhenItFails) {
  TempDir folder;
  SynthOptions options;
  options.faults = {*parse_synth_fault("add x BF16 4000000000000000")};  // no file can be that long
  for (const fs::path& target : {folder / "a/b/new", folder.path()}) {
    const auto report = synthesize(*load_config(kGoldenA), target, options);
    ASSERT_FALSE(report.ok());
    EXPECT_THAT(report.status().message(), HasSubstr("cannot write "));
    EXPECT_EQ(folder.entries(), 0u) << target;
  }
}

TEST(Synth, LeavesOnlyTheCheckpointBehindWhenItIsDone) {
  TempDir folder;
  synthesize_ok(*load_config(kGoldenA), folder.path());
  // 16 shards, the index, config.json, the folder inference, and two files of the tokenizer
  EXPECT_EQ(folder.entries(), 21u);
}

TEST(Synth, RefusesAFolderWithoutAName) {
  EXPECT_EQ(synthesize(*load_config(kGoldenA), "").status().message(),
            "the name of the folder to write to is empty");
}

TEST(Synth, ReadsFaultsFromWordsAndExplainsThoseItCannotRead) {
  const auto fault = parse_synth_fault("add layers.0.x BF16 4,5");
  ASSERT_TRUE(fault.ok());
  EXPECT_EQ(fault->target, "layers.0.x");
  EXPECT_EQ(fault->dtype, DType::BF16);
  EXPECT_EQ(fault->shape, (std::vector<std::int64_t>{4, 5}));
  const struct {
    const char *text, *message;
  } cases[] = {
      {"", "fault '' begins with none of drop, lose, reshape"},
      {"burn x", "fault 'burn x' begins with none of drop"},
      {"drop", "fault 'drop' is not 'drop TARGET'"},
      {"reshape x", "fault 'reshape x' is not 'reshape TARGET SIZE,SIZE'"},
      {"retype x BF17", "'BF17' is no dtype"},
      {"reshape x 4,five", "'4,five' is no shape"},
  };
  for (const auto& c : cases) EXPECT_THAT(parse_synth_fault(c.text).status().message(), HasSubstr(c.message));
  TempDir folder;
  SynthOptions options;
  options.faults = {*parse_synth_fault("drop layers.99.x")};
  EXPECT_THAT(synthesize(*load_config(kGoldenA), folder.path(), options).status().message(),
              HasSubstr("there is no tensor 'layers.99.x' to break"));
}

}  // namespace
}  // namespace dsv
