// sample_payload: what it finds in the weights themselves, and how little of them it needs.
#include <boost/json.hpp>
#include <set>

#include "stages/audit/payload.h"
#include "stages/audit/synth.h"
#include "tests/stages/checkpoint_fixture.h"

namespace dsv {
namespace {

using namespace dsv::test;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kAll = 1 << 20;

ShardSet scan(const fs::path& folder) {
  auto shards = ShardSet::scan(folder);
  EXPECT_TRUE(shards.ok()) << shards.status().message();
  return *std::move(shards);
}

std::vector<std::string> lines(const std::vector<PayloadFinding>& findings) {
  std::vector<std::string> lines;
  for (const PayloadFinding& f : findings) lines.push_back(f.tensor + ": " + f.message);
  return lines;
}

std::set<std::string> names(const PayloadReport& report) {
  std::set<std::string> names;
  for (const auto* findings : {&report.faults, &report.remarks})
    for (const PayloadFinding& f : *findings) names.insert(f.tensor);
  return names;
}

/// A checkpoint of one file, to be spoiled byte by byte.
class OneTensor {
 public:
  OneTensor(DType dtype, std::vector<std::int64_t> shape, std::byte fill) {
    const TensorData tensor{"x.weight", dtype, shape,
                            std::vector<std::byte>(*tensor_bytes(dtype, shape), fill)};
    EXPECT_TRUE(write_safetensors(file(), {&tensor, 1}).ok());
    begin_ = read_safetensors_header(file())->data_begin;
  }
  fs::path file() const { return folder_ / "model.safetensors"; }
  /// Overwrites payload bytes; a negative place counts from the end.
  OneTensor& put(std::int64_t at, std::string_view bytes) {
    std::fstream out(file(), std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(at >= 0 ? static_cast<std::int64_t>(begin_) + at : at, at >= 0 ? std::ios::beg : std::ios::end);
    out << bytes;
    return *this;
  }
  PayloadReport sample(const PayloadOptions& options = {}) const {
    return sample_payload(scan(folder_.path()), options);
  }

 private:
  TempDir folder_;
  std::uint64_t begin_ = 0;
};

TEST(PayloadSample, FindsNothingInSoundCheckpoints) {
  TempDir random;
  ASSERT_TRUE(
      synthesize(*read_config(kGoldenA), random.path(), {.payload = SynthPayload::Random, .seed = 7}).ok());
  for (const fs::path& folder : {kGoldenA, kDemo, random.path()}) {
    const PayloadReport report = sample_payload(scan(folder), {.tensors_per_shard = kAll});
    EXPECT_THAT(lines(report.faults), IsEmpty()) << folder;
    EXPECT_GT(report.tensors, 1000) << folder;
    EXPECT_THAT(to_text(report), HasSubstr("[ok]"));
  }
}

TEST(PayloadSample, CountsTheNaNCodesOfEveryFormat) {
  using namespace std::string_view_literals;
  struct Case {
    DType dtype;
    std::string_view bytes;
    const char* message;
  };
  const Case cases[] = {
      {DType::F8_E8M0, "\xff\xfe\xff"sv, "2 of 64 elements are NaN or infinite"},
      {DType::F8_E4M3, "\x7f\xff\x7e\xfe"sv, "2 of 64 elements are NaN or infinite"},
      {DType::BF16, "\x80\x7f\xc0\xff\x7f\x7f"sv, "2 of 32 elements are NaN or infinite"},
      {DType::F32, "\0\0\x80\x7f\1\0\x80\xff\xff\xff\x7f\x7f"sv, "2 of 16 elements are NaN or infinite"},
  };
  for (const Case& c : cases) {
    const std::int64_t columns = 64 * 8 / dtype_bits(c.dtype) / 4;
    OneTensor tensor(c.dtype, {4, columns}, std::byte{1});
    EXPECT_THAT(tensor.sample().faults, IsEmpty()) << dtype_name(c.dtype);
    EXPECT_THAT(lines(tensor.put(8, c.bytes).sample().faults),
                ::testing::ElementsAre(std::string("x.weight: ") + c.message))
        << dtype_name(c.dtype);
  }
}

TEST(PayloadSample, KnowsNoNaNInPackedCodes) {
  EXPECT_THAT(OneTensor(DType::I8, {4, 16}, std::byte{0xff}).sample().faults, IsEmpty());
}

TEST(PayloadSample, FailsATensorThatIsNothingButNaN) {
  EXPECT_THAT(lines(OneTensor(DType::F8_E8M0, {4, 16}, std::byte{0xff}).sample().faults),
              ::testing::ElementsAre("x.weight: nothing but NaN in it"));
}

TEST(PayloadSample, FailsAMatrixOfZerosAndRemarksAVectorOfZeros) {
  const PayloadReport matrix = OneTensor(DType::BF16, {4, 16}, std::byte{0}).sample();
  EXPECT_THAT(lines(matrix.faults), ::testing::ElementsAre("x.weight: nothing but zeros in it"));
  EXPECT_THAT(matrix.remarks, IsEmpty());
  const PayloadReport vector = OneTensor(DType::F32, {16}, std::byte{0}).sample();
  EXPECT_THAT(vector.faults, IsEmpty());
  EXPECT_THAT(lines(vector.remarks), ::testing::ElementsAre("x.weight: nothing but zeros in it"));
}

TEST(PayloadSample, SaysWhereATruncatedFileEndsAndJudgesWhatIsThere) {
  OneTensor tensor(DType::F8_E4M3, {64, 64}, std::byte{1});
  tensor.put(0, "\x7f");
  const auto size = fs::file_size(tensor.file());
  fs::resize_file(tensor.file(), size - 100);
  EXPECT_THAT(
      lines(tensor.sample().faults),
      ::testing::ElementsAre(fmt::format("x.weight: ends at byte {}, the file after {}", size, size - 100),
                             "x.weight: 1 of 3996 elements are NaN or infinite"));
}

TEST(PayloadSample, RemarksALongTailOfZerosAsAPreallocatedDownloadLeavesIt) {
  OneTensor tensor(DType::BF16, {128, 128}, std::byte{1});
  tensor.put(-5000, std::string(5000, '\0'));
  EXPECT_THAT(lines(tensor.sample().remarks),
              ::testing::ElementsAre("x.weight: its last 5000 bytes read are zeros"));
}

TEST(PayloadSample, ReadsOnlyPiecesOfALargeTensorTheFirstAndTheLastAmongThem) {
  constexpr std::int64_t kMiB = 1 << 20;
  OneTensor tensor(DType::F8_E4M3, {33, kMiB}, std::byte{1});
  tensor.put(0, "\x7f").put(-1, "\x7f").put(17 * kMiB, "\x7f");
  const PayloadReport report = tensor.sample({.bytes_per_tensor = 8 * kMiB});
  EXPECT_EQ(report.bytes, 5u * kMiB) << "the last of nine pieces is 1 MiB";
  EXPECT_THAT(lines(report.faults),
              ::testing::ElementsAre("x.weight: 2 of 5242880 elements are NaN or infinite"));
}

TEST(PayloadSample, DrawsTheSameTensorsForTheSameSeed) {
  TempDir sparse;
  ASSERT_TRUE(synthesize(*read_config(kGoldenA), sparse.path()).ok());
  const ShardSet shards = scan(sparse.path());
  const auto draw = [&](std::uint64_t seed) {
    return names(sample_payload(shards, {.tensors_per_shard = 3, .seed = seed}));
  };
  std::size_t expected = 0;
  for (const ShardFile& file : shards.files())
    expected += std::min<std::size_t>(3, file.header.tensors.size());
  EXPECT_THAT(draw(1), SizeIs(expected));
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(PayloadSample, StopsWhenItIsCancelled) {
  int pieces = 0;
  const PayloadReport report =
      sample_payload(scan(kDemo), {.tensors_per_shard = kAll,
                                   .progress = [&](std::uint64_t, std::uint64_t) { ++pieces; },
                                   .cancelled = [&] { return pieces >= 3; }});
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(report.tensors, 3);
}

TEST(PayloadSample, TellsHowFarItIs) {
  std::uint64_t last = 0, expected = 0;
  const PayloadReport report = sample_payload(
      scan(kDemo), {.tensors_per_shard = kAll, .progress = [&](std::uint64_t done, std::uint64_t total) {
                      EXPECT_GT(done, last);
                      last = done;
                      expected = total;
                    }});
  EXPECT_EQ(last, expected);
  EXPECT_EQ(last, report.bytes);
  EXPECT_EQ(last, 6'264'432u);
}

}  // namespace
}  // namespace dsv
