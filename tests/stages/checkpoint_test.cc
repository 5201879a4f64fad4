// Checkpoint: opening a folder of shards, and reading tensors from it.
#include "stages/model/checkpoint.h"

#include <boost/json.hpp>
#include <cstring>
#include <thread>

#include "stages/model/checkpoint_index.h"
#include "tests/stages/checkpoint_fixture.h"

namespace dsv {
namespace {

namespace json = boost::json;
using namespace dsv::test;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const Checkpoint> open_ok(const fs::path& path) {
  auto checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  return checkpoint.ok() ? *checkpoint : nullptr;
}

std::string error_of(const fs::path& path) {
  const auto checkpoint = Checkpoint::open(path);
  return checkpoint.ok() ? "no error" : checkpoint.status().message();
}

std::string shard_name(int i) {
  return fmt::format("model-{:05}-of-00016.safetensors", i);
}

/// A copy of golden a whose files a test may spoil.
class SpoiledCheckpoint : public ::testing::Test {
 protected:
  SpoiledCheckpoint() { copy_checkpoint(kGoldenA, dir_.path()); }

  void edit_index(const std::function<void(json::object&)>& edit) {
    json::value index = json_of(dir_ / kIndexFile);
    edit(index.as_object()["weight_map"].as_object());
    write_text(dir_ / kIndexFile, json::serialize(index));
  }
  std::string error() const { return error_of(dir_.path()); }

  TempDir dir_;
};

TEST(Checkpoint, OpensTheGoldenAndTheDemoCheckpoint) {
  const auto golden = open_ok(kGoldenA);
  ASSERT_NE(golden, nullptr);
  EXPECT_EQ(golden->tensors().size(), 1080u);
  EXPECT_EQ(golden->total_bytes(), 4'797'524u);
  EXPECT_EQ(golden->shards().size(), 16u);
  EXPECT_TRUE(golden->has_index());
  EXPECT_EQ(load_checkpoint_index(kGoldenA / kIndexFile)->total_size, golden->total_bytes());
  const auto demo = open_ok(kDemo);
  ASSERT_NE(demo, nullptr);
  EXPECT_EQ(demo->tensors().size(), 1308u);
}

TEST(Checkpoint, FindsTheSameTensorsWithoutAnIndex) {
  TempDir dir;
  copy_checkpoint(kGoldenA, dir.path());
  fs::remove(dir / kIndexFile);
  const auto checkpoint = open_ok(dir.path());
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_FALSE(checkpoint->has_index());
  EXPECT_EQ(checkpoint->tensors().size(), 1080u);
  EXPECT_EQ(checkpoint->shard(4).path.filename(), shard_name(5));
  EXPECT_EQ(checkpoint->shard(4).tensors, 110);
}

TEST(Checkpoint, OpensASingleFile) {
  const auto file = open_ok(kSource / "tests/golden/a/short.safetensors");
  ASSERT_NE(file, nullptr);
  EXPECT_NE(file->find("decode.logits"), nullptr);
  EXPECT_EQ(file->shards().size(), 1u);
}

TEST(Checkpoint, ViewsAndReadsTheBytesOfTheFile) {
  const auto checkpoint = open_ok(kGoldenA);
  std::vector<std::string> shards;
  for (const auto& shard : checkpoint->shards()) shards.push_back(read_text(shard.path));
  for (const TensorInfo& tensor : checkpoint->tensors()) {
    const auto expected = std::as_bytes(std::span(shards[static_cast<std::size_t>(tensor.shard)]))
                              .subspan(tensor.begin, tensor.bytes());
    const auto view = checkpoint->view(tensor.name);
    ASSERT_TRUE(view.ok()) << view.status().message();
    EXPECT_TRUE(std::ranges::equal(view->bytes, expected)) << tensor.name;
    const auto copy = checkpoint->read(tensor);
    ASSERT_TRUE(copy.ok()) << copy.status().message();
    EXPECT_TRUE(std::ranges::equal(*copy, expected)) << tensor.name;
  }
}

TEST(Checkpoint, ViewsElementsOfTheRightSizeAndAlignmentOnly) {
  const auto checkpoint = open_ok(kGoldenA);
  const auto view = checkpoint->view("layers.0.attn.attn_sink");
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->as<float>()->size(), 4u);
  EXPECT_THAT(view->as<std::uint16_t>().status().message(), HasSubstr("F32 elements are not 2 bytes long"));
  TempDir dir;
  const std::vector<TensorData> tensors = {{"odd", DType::U8, {3}, std::vector<std::byte>(3)},
                                           {"f", DType::F32, {1}, std::vector<std::byte>(4)}};
  ASSERT_TRUE(write_safetensors(dir / "x.safetensors", tensors).ok());
  EXPECT_THAT(open_ok(dir.path())->view("f")->as<float>().status().message(), HasSubstr("no multiple of 4"));
}

TEST(Checkpoint, RequiresATensorInOneMessageWithPlaceExpectedAndFound) {
  const auto checkpoint = open_ok(kGoldenA);
  const auto wq_a = checkpoint->require("layers.2.attn.wq_a.weight", DType::F8_E4M3, {64, 128});
  ASSERT_TRUE(wq_a.ok()) << wq_a.status().message();
  EXPECT_EQ((*wq_a)->shape, (std::vector<std::int64_t>{64, 128}));
  const std::string place = (kGoldenA / shard_name(5)).string() + ": tensor 'layers.2.attn.wq_a.weight'";
  EXPECT_EQ(checkpoint->require("layers.2.attn.wq_a.weight", DType::F8_E4M3, {64, 256}).status().message(),
            place + ": expected F8_E4M3 [64, 256], found F8_E4M3 [64, 128]");
  EXPECT_EQ(checkpoint->require("layers.2.attn.wq_a.weight", DType::BF16, {64, 128}).status().message(),
            place + ": expected BF16 [64, 128], found F8_E4M3 [64, 128]");
  EXPECT_EQ(checkpoint->require("layers.9.x", DType::BF16, {1}).status().message(),
            kGoldenA.string() + ": has no tensor 'layers.9.x' (expected BF16 [1])");
}

TEST(Checkpoint, ReadsOnlyInsideATensor) {
  const auto checkpoint = open_ok(kGoldenA);
  const TensorInfo& tensor = *checkpoint->find("norm.weight");
  std::vector<std::byte> out(8);
  EXPECT_TRUE(checkpoint->read(tensor, tensor.bytes() - 8, out).ok());
  EXPECT_THAT(
      checkpoint->read(tensor, tensor.bytes() - 7, out).message(),
      AllOf(HasSubstr("'norm.weight'"), HasSubstr("8 bytes from offset 249 on do not lie inside its 256")));
  EXPECT_FALSE(checkpoint->read(tensor, ~std::uint64_t(0) - 3, out).ok()) << "the sum must not wrap";
}

TEST(Checkpoint, ServesSeveralThreadsAtOnce) {
  const auto checkpoint = open_ok(kGoldenA);
  std::vector<std::thread> threads;
  std::array<bool, 4> good{};
  for (std::size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      bool all = true;
      for (const TensorInfo& tensor : checkpoint->tensors())
        all &= std::ranges::equal(*checkpoint->read(tensor), checkpoint->view(tensor)->bytes);
      good[t] = all;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(good, ::testing::Each(true));
}

TEST(Checkpoint, NamesAPathThatHoldsNoCheckpoint) {
  TempDir dir;
  EXPECT_EQ(error_of(dir / "absent"), (dir / "absent").string() + ": there is no such checkpoint");
  EXPECT_EQ(error_of(dir.path()), dir.path().string() + ": holds no .safetensors file");
}

TEST_F(SpoiledCheckpoint, ListsEveryMissingShardBeforeReadingAny) {
  fs::remove(dir_ / shard_name(3));
  fs::remove(dir_ / shard_name(12));
  EXPECT_EQ(error(), dir_.path().string() +
                         ": 2 of 16 shards named by model.safetensors.index.json are not there (incomplete "
                         "download?): model-00003-of-00016.safetensors, model-00012-of-00016.safetensors");
}

TEST_F(SpoiledCheckpoint, ListsTheGapsInTheNumberingOfTheShardsWithoutAnIndex) {
  fs::remove(dir_ / kIndexFile);
  fs::remove(dir_ / shard_name(3));
  fs::remove(dir_ / shard_name(16));
  EXPECT_EQ(error(), dir_.path().string() +
                         ": 2 of 16 shards that their numbering calls for are not there (incomplete "
                         "download?): model-00003-of-00016.safetensors, model-00016-of-00016.safetensors");
}

TEST_F(SpoiledCheckpoint, NamesATruncatedShardAndTheFirstTensorThatIsCut) {
  const fs::path shard = dir_ / shard_name(11);
  const auto size = fs::file_size(shard);
  fs::resize_file(shard, size - 1);
  EXPECT_EQ(error(), fmt::format("{}: tensor 'norm.weight' ends at byte {}, but the file has only {} bytes "
                                 "(incomplete download?)",
                                 shard.string(), size, size - 1));
  fs::resize_file(shard, 100);
  EXPECT_THAT(error(), HasSubstr("bytes, but the file has only 100"));
  fs::resize_file(shard, 0);
  EXPECT_THAT(error(), HasSubstr("0 bytes are too few for a safetensors file (incomplete download?)"));
}

TEST_F(SpoiledCheckpoint, NamesATensorThatTheIndexPlacesInAShardWithoutIt) {
  edit_index([](json::object& map) { map["layers.0.ghost"] = shard_name(3); });
  EXPECT_EQ(error(), (dir_ / shard_name(3)).string() +
                         ": has no tensor 'layers.0.ghost', which model.safetensors.index.json places there");
  edit_index([](json::object& map) { map["norm.weight"] = shard_name(1); });
  EXPECT_THAT(error(),
              AllOf(HasSubstr(shard_name(1) + ": has no tensor 'norm.weight'"), HasSubstr("1 more")));
}

TEST_F(SpoiledCheckpoint, LetsTheIndexDecideBetweenTwoCopiesAndRefusesThemWithoutOne) {
  const std::vector<TensorData> copy = {{"norm.weight", DType::BF16, {1}, std::vector<std::byte>(2)}};
  ASSERT_TRUE(write_safetensors(dir_ / "zz.safetensors", copy).ok());
  const auto checkpoint = open_ok(dir_.path());
  EXPECT_EQ(checkpoint->find("norm.weight")->shape[0], 128);
  EXPECT_THAT(checkpoint->stray_files(), ElementsAre("zz.safetensors"));
  fs::remove(dir_ / kIndexFile);
  EXPECT_THAT(error(),
              AllOf(HasSubstr("tensor 'norm.weight' is in "), HasSubstr(shard_name(11)),
                    HasSubstr("zz.safetensors, and there is no model.safetensors.index.json to decide")));
}

TEST_F(SpoiledCheckpoint, RefusesAnIndexThatIsNotAMapOfFileNames) {
  const struct {
    std::string text, message;
  } cases[] = {
      {"{\"weight_map\": {\"a\": 1}}", ":1:23: weight_map['a'] is a number, expected the name of a shard"},
      {"{\"weight_map\": {\"a\": \"../x\"}}",
       ":1:27: weight_map['a'] = '../x' is not the name of a file in this folder"},
      {"{\"weight_map\": {\"a\": \"\"}}",
       ":1:23: weight_map['a'] = '' is not the name of a file in this folder"},
      {"{\"weight_map\": []}", ": holds no object 'weight_map'"},
      {R"({"weight_map": {"a": "x"}, "weight_map": {"b": "x"}})", ":1:42: key 'weight_map' is given twice"},
      {"[]", ": holds no object 'weight_map'"},
      {"{\"weight_map\": {\"a\": \"x\",\n\"a\": \"y\"}}", ":2:8: key 'a' is given twice"},
      {"{\"weight_map\"", ":1:14: not JSON"},
  };
  for (const auto& c : cases) {
    write_text(dir_ / kIndexFile, c.text);
    EXPECT_THAT(error(), HasSubstr((dir_ / kIndexFile).string() + c.message));
  }
}

TEST_F(SpoiledCheckpoint, RefusesAHeaderThatLiesNamingFileAndTensor) {
  const std::string header = R"({"norm.weight":{"dtype":"BF16","shape":[128],"data_offsets":[0,255]},)"
                             R"("head.weight":{"dtype":"BF16","shape":[4,2],"data_offsets":[250,266]}})";
  write_text(dir_ / shard_name(11), safetensors_bytes(header, 266));
  EXPECT_EQ(error(),
            (dir_ / shard_name(11)).string() +
                ": tensor 'norm.weight' BF16 [128] takes 256 bytes, but its data_offsets span 255; 1 more "
                "problem");
}

TEST_F(SpoiledCheckpoint, OpensBesideATensorOfUnknownTypeAndRefusesOnlyThatTensor) {
  const std::string header = R"({"norm.weight":{"dtype":"BF16","shape":[128],"data_offsets":[0,256]},)"
                             R"("head.weight":{"dtype":"X9","shape":[4,2],"data_offsets":[256,266]}})";
  write_text(dir_ / shard_name(11), safetensors_bytes(header, 266));
  const auto checkpoint = open_ok(dir_.path());
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_TRUE(checkpoint->view("norm.weight").ok());
  EXPECT_THAT(checkpoint->require("head.weight", DType::BF16, {512, 128}).status().message(),
              HasSubstr("expected BF16 [512, 128], found unknown [4, 2]"));
}

}  // namespace
}  // namespace dsv
