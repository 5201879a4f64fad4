// The safetensors header reader and the writer.
#include "stages/model/safetensors.h"

#include <sys/resource.h>

#include <csignal>
#include <ctime>
#include <numeric>

#include "tests/stages/checkpoint_fixture.h"

namespace dsv {
namespace {

using namespace dsv::test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTwo[] = R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                        R"("b":{"dtype":"I8","shape":[4],"data_offsets":[24,28]}})";

SafetensorsHeader parse_ok(std::string_view text, std::uint64_t payload, HeaderOptions options = {}) {
  auto header = parse_safetensors_header(text, 8 + text.size() + payload, options);
  EXPECT_TRUE(header.ok()) << header.status().message();
  return header.ok() ? *std::move(header) : SafetensorsHeader();
}

std::vector<std::string> problems_of(const SafetensorsHeader& header) {
  std::vector<std::string> lines;
  for (const HeaderProblem& p : header.problems) lines.push_back(p.tensor + " " + p.message);
  return lines;
}

TEST(SafetensorsHeader, GivesNameTypeShapeAndAbsolutePlaceInFileOrder) {
  const std::string text = R"({"__metadata__":{"format":"pt"},)"
                           R"("b":{"data_offsets":[24,28],"shape":[4],"dtype":"I8"},)"
                           R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  const SafetensorsHeader header = parse_ok(text, 28);
  EXPECT_THAT(problems_of(header), IsEmpty());
  ASSERT_EQ(header.tensors.size(), 2u);
  const TensorInfo& a = header.tensors[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, DType::F32);
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(a.begin, 8 + text.size());
  EXPECT_EQ(a.bytes(), 24u);
  EXPECT_EQ(header.tensors[1].begin, a.end);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, AcceptsScalarsAndEmptyTensors) {
  const SafetensorsHeader header = parse_ok(R"({"scalar":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                            R"("empty":{"dtype":"BF16","shape":[0,7],"data_offsets":[4,4]}})",
                                            4);
  EXPECT_THAT(problems_of(header), IsEmpty());
  EXPECT_EQ(header.tensors.size(), 2u);
  EXPECT_THAT(problems_of(parse_ok("{}", 0)), IsEmpty());
}

TEST(SafetensorsHeader, ReportsEachFaultOnTheTensorThatHasIt) {
  struct Case {
    const char* header;
    std::uint64_t payload;
    HeaderFault fault;
    const char* message;
  };
  const Case cases[] = {
      {R"({"a":{"dtype":"X9","shape":[4],"data_offsets":[0,4]}})", 4, HeaderFault::UnknownDtype,
       "a has the unknown dtype 'X9'"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})",
       4, HeaderFault::Duplicate, "a is described twice; the first description counts"},
      {R"({"a":{"dtype":"I8","shape":[4]}})", 0, HeaderFault::Malformed, "a has no pair of \"data_offsets\""},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0]}})", 0, HeaderFault::Malformed,
       "a has no pair of \"data_offsets\""},
      {R"({"a":{"shape":[4],"data_offsets":[0,4]}})", 4, HeaderFault::Malformed, "a has no \"dtype\""},
      {R"({"a":{"dtype":"I8","data_offsets":[0,4]}})", 4, HeaderFault::Malformed, "a has no \"shape\""},
      {R"({"a":{"dtype":"I8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4, HeaderFault::Malformed,
       "a gives \"dtype\" twice"},
      {R"({"a":{"dtype":"I8","shape":[4],"shape":[4],"data_offsets":[0,4]}})", 4, HeaderFault::Malformed,
       "a gives \"shape\" twice"},
      {R"({"a":{"dtype":8,"shape":[4],"data_offsets":[0,4]}})", 4, HeaderFault::Malformed,
       "a has a number in \"dtype\", which does not belong there"},
      {R"({"a":{"dtype":"I8","shape":4,"data_offsets":[0,4]}})", 4, HeaderFault::Malformed,
       "a has a number in \"shape\", which does not belong there"},
      {R"({"a":{"dtype":"I8","shape":["4"],"data_offsets":[0,4]}})", 4, HeaderFault::Malformed,
       "a has a string in \"shape\", which does not belong there"},
      {R"({"a":{"dtype":"I8","shape":[[4]],"data_offsets":[0,4]}})", 4, HeaderFault::Malformed,
       "a has a list in \"shape\", which does not belong there"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4],"strides":[1]}})", 4, HeaderFault::Malformed,
       "a has a list in \"strides\", which does not belong there"},
      {R"({"a":{"dtype":"I8","shape":{"x":4},"data_offsets":[0,4]}})", 4, HeaderFault::Malformed,
       "a has an object in \"shape\", which does not belong there"},
      {R"({"a":17})", 0, HeaderFault::Malformed, "a is described by a number, not by an object"},
      {R"({"a":[1,2]})", 0, HeaderFault::Malformed, "a is described by a list, not by an object"},
      {R"({"a":null})", 0, HeaderFault::Malformed, "a is described by null, not by an object"},
      {R"({"__metadata__":{"n":3}})", 0, HeaderFault::Malformed,
       "__metadata__ has a number in \"n\", which does not belong there"},
      {R"({"a":{"dtype":"I8","shape":[-4],"data_offsets":[0,4]}})", 4, HeaderFault::Shape,
       "a has the impossible shape [-4]"},
      {R"({"a":{"dtype":"I8","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4, HeaderFault::Shape,
       "a has the impossible shape [4294967296, 4294967296]"},
      {R"({"a":{"dtype":"I8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       HeaderFault::Shape, "a has the impossible shape [0, 4294967296, 4294967296]"},
      {R"({"a":{"dtype":"I8","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4, HeaderFault::Shape,
       "a has the impossible shape [18446744073709551615] (not whole numbers of 63 bits)"},
      {R"({"a":{"dtype":"I8","shape":[4.5],"data_offsets":[0,4]}})", 4, HeaderFault::Shape,
       "a has the impossible shape [4.5] (not whole numbers of 63 bits)"},
      {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1, HeaderFault::Shape,
       "a has the impossible shape [3]"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[4,0]}})", 0, HeaderFault::Offsets,
       "a has impossible data_offsets [4, 0]"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[-4,0]}})", 0, HeaderFault::Offsets,
       "a has impossible data_offsets [-4, 0]"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,9223372036854775807]}})", 0, HeaderFault::Offsets,
       "a has impossible data_offsets [0, 9223372036854775807]"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,18446744073709551615]}})", 0, HeaderFault::Offsets,
       "a has impossible data_offsets [0, 18446744073709551615] (not whole numbers of 63 bits)"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0.5,1e30]}})", 0, HeaderFault::Offsets,
       "a has impossible data_offsets [0.5, 1e30] (not whole numbers of 63 bits)"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,15]}})", 15, HeaderFault::Extent,
       "a F32 [4] takes 16 bytes, but its data_offsets span 15"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"I8","shape":[4],"data_offsets":[3,7]}})",
       7, HeaderFault::Overlap, "b shares bytes with tensor 'a'"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"I8","shape":[4],"data_offsets":[5,9]}})",
       9, HeaderFault::Gap, "b follows 1 bytes that belong to no tensor"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})", 6, HeaderFault::Gap,
       "a is followed by 2 bytes that belong to no tensor"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})", 3, HeaderFault::BeyondFile,
       "a ends at byte 65, but the file has only 64 bytes"},
  };
  for (const Case& c : cases) {
    const SafetensorsHeader header = parse_ok(c.header, c.payload);
    ASSERT_EQ(header.problems.size(), 1u) << c.header << ::testing::PrintToString(problems_of(header));
    EXPECT_EQ(header.problems[0].fault, c.fault) << c.header;
    EXPECT_EQ(problems_of(header)[0], c.message);
  }
}

TEST(SafetensorsHeader, CutsANumberOfManyDigitsInAMessage) {
  const std::string digits(1000, '1');
  const SafetensorsHeader header =
      parse_ok(R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,)" + digits + "]}}", 0);
  EXPECT_THAT(problems_of(header),
              ::testing::ElementsAre("a has impossible data_offsets [0, " + digits.substr(0, 77) +
                                     "...] (not whole numbers of 63 bits)"));
}

TEST(SafetensorsHeader, SaysOfAPayloadWithoutTensorsThatTheHeaderNamesNone) {
  const SafetensorsHeader header = parse_ok("{}", 4);
  ASSERT_EQ(header.problems.size(), 1u);
  EXPECT_EQ(header.problems[0].text(),
            "the header names no tensor, but is followed by 4 bytes that belong to no tensor");
}

TEST(SafetensorsHeader, FindsAnOverlapWithATensorFurtherBack) {
  const SafetensorsHeader header = parse_ok(
      R"({"long":{"dtype":"I8","shape":[9],"data_offsets":[0,9]},)"
      R"("x":{"dtype":"I8","shape":[1],"data_offsets":[1,2]},"y":{"dtype":"I8","shape":[1],"data_offsets":[4,5]}})",
      9);
  EXPECT_THAT(problems_of(header), ::testing::ElementsAre("x shares bytes with tensor 'long'",
                                                          "y shares bytes with tensor 'long'"));
}

TEST(SafetensorsHeader, StaysUsableBesideATensorOfUnknownType) {
  const SafetensorsHeader header = parse_ok(R"({"a":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,3]},)"
                                            R"("b":{"dtype":"I8","shape":[4],"data_offsets":[3,7]}})",
                                            7);
  EXPECT_THAT(problems_of(header), ::testing::ElementsAre("a has the unknown dtype 'F6_E3M2'"));
  EXPECT_EQ(header.unknown_dtypes.at("a"), "F6_E3M2");
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].bytes(), 3u);
  EXPECT_EQ(header.tensors[1].dtype, DType::I8);
}

TEST(SafetensorsHeader, AcceptsAFileCutAfterItsHeaderOnlyOnRequest) {
  EXPECT_EQ(parse_ok(kTwo, 0).problems.size(), 2u) << "both tensors lie past the end";
  EXPECT_THAT(problems_of(parse_ok(kTwo, 0, {.header_prefix = true})), IsEmpty());
  EXPECT_THAT(problems_of(parse_ok(kTwo, 100, {.header_prefix = true})), IsEmpty());
}

TEST(SafetensorsHeader, RefusesWhatIsNoObject) {
  const struct {
    std::string text, message;
  } cases[] = {
      {"[]", "not a JSON object"},
      {"17", "not a JSON object"},
      {"\"a\"", "not a JSON object"},
      {"{\"a\":", "header: 1:6: not JSON"},
      {"{} x", "header: 1:4: text after the end of the JSON value"},
      {"{\"a\":" + std::string(10'000'000, '['), "nested deeper than 32"},
      {std::string(5'000'000, '[') + std::string(5'000'000, ']'), "not a JSON object"},
      {"{\"a\":{\"shape\":" + std::string(10'000'000, '['), "nested deeper than 32"},
  };
  for (const auto& c : cases) {
    const auto header = parse_safetensors_header(c.text, 8 + c.text.size());
    ASSERT_FALSE(header.ok()) << c.text.substr(0, 40);
    EXPECT_THAT(header.status().message(), HasSubstr(c.message));
  }
}

TEST(SafetensorsHeader, ReadsLikeTheFileThatItDescribes) {
  const auto header = read_safetensors_header(kGoldenA / "model-00005-of-00016.safetensors");
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_THAT(problems_of(*header), IsEmpty());
  EXPECT_EQ(header->tensors.size(), 110u);
  EXPECT_EQ(header->tensors.back().end, header->file_size);
}

TEST(SafetensorsHeader, NeverBelievesALengthThatTheFileCannotHold) {
  const struct {
    std::string bytes, message;
  } cases[] = {
      {"", "0 bytes are too few for a safetensors file (incomplete download?)"},
      {"1234567", "7 bytes are too few for a safetensors file (incomplete download?)"},
      {safetensors_bytes("", 0, 0), "the header of 0 bytes holds no JSON object"},
      {safetensors_bytes("{", 20, 1), "the header of 1 bytes holds no JSON object"},
      {safetensors_bytes("{}", 6, 9), "the header claims 9 bytes, but the file has only 16"},
      {safetensors_bytes("{}", 6, std::uint64_t(1) << 63),
       "the header claims 9223372036854775808 bytes, but"},
      {safetensors_bytes("{}", 6, ~std::uint64_t(0)), "the header claims 18446744073709551615 bytes, but"},
  };
  TempDir dir;
  const fs::path file = dir / "x.safetensors";
  for (const auto& c : cases) {
    write_text(file, c.bytes);
    const auto header = read_safetensors_header(file);
    ASSERT_FALSE(header.ok());
    EXPECT_THAT(header.status().message(), HasSubstr(file.string() + ": " + c.message));
  }
  write_text(file, safetensors_bytes("{}", 0, kMaxHeaderBytes + 1));
  fs::resize_file(file, kMaxHeaderBytes + 100);  // a hole
  EXPECT_THAT(read_safetensors_header(file).status().message(), HasSubstr("more than the 100000000 allowed"));
  EXPECT_THAT(read_safetensors_header(dir.path()).status().message(), HasSubstr("not a regular file"));
  EXPECT_THAT(read_safetensors_header("/dev/zero").status().message(), HasSubstr("not a regular file"));
}

/// The header of `count` tensors shaped like packed experts.
std::string expert_header(int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i)
    text += fmt::format(
        R"({}"layers.{}.ffn.experts.{}.w1.weight":{{"dtype":"I8","shape":[2304,2560],"data_offsets":[{},{}]}})",
        i == 0 ? "" : ",", i / 2304, i % 2304, i * 5898240L, (i + 1) * 5898240L);
  return text + "}";
}

TEST(SafetensorsHeader, ParsesAsManyTensorsAsTheReleasedModelHasInTimeThatGrowsLinearly) {
  const auto seconds = [](int count) {
    const std::string text = expert_header(count);
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const std::clock_t start = std::clock();  // processor time: the machine may be busy
      EXPECT_EQ(parse_ok(text, static_cast<std::uint64_t>(count) * 5898240).tensors.size(),
                std::size_t(count));
      best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
  };
  const double quarter = seconds(96085 / 4), whole = seconds(96085);
  EXPECT_LT(whole, 5.0) << "about 0.1 s without sanitizers";
  EXPECT_LT(whole, 12 * quarter) << "quadratic would be 16 times";
}

std::vector<std::byte> counting(std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  TempDir dir;
  const fs::path file = dir / "out.safetensors";
  const std::vector<TensorData> tensors = {{"b \"quoted\" \xc3\xa9", DType::BF16, {2, 3}, counting(12)},
                                           {"a", DType::F8_E8M0, {5}, counting(5)},
                                           {"none", DType::F32, {0, 4}, {}}};
  const flow::Status written = write_safetensors(file, tensors, {{"made by", "a \"test\""}});
  ASSERT_TRUE(written.ok()) << written.message();
  const auto header = read_safetensors_header(file);
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_THAT(problems_of(*header), IsEmpty());
  EXPECT_EQ(header->metadata.at("made by"), "a \"test\"");
  EXPECT_EQ(header->data_begin % 8, 0u);
  ASSERT_EQ(header->tensors.size(), 3u);
  const std::string bytes = read_text(file);
  for (std::size_t i = 0; i < 2; ++i) {
    const TensorInfo& found = header->tensors[i];
    EXPECT_EQ(found.name, tensors[i].name);
    EXPECT_EQ(found.dtype, tensors[i].dtype);
    EXPECT_EQ(found.shape, tensors[i].shape);
    EXPECT_EQ(std::memcmp(bytes.data() + found.begin, tensors[i].bytes.data(), found.bytes()), 0);
  }
  EXPECT_EQ(dir.entries(), 1u) << "no temporary file is left";
}

TEST(SafetensorsWriter, ReplacesTheTargetOnlyOnCommitAndOtherwiseLeavesNothing) {
  TempDir dir;
  const fs::path file = dir / "out.safetensors";
  write_text(file, "before");
  {
    SafetensorsWriter writer(file);
    ASSERT_TRUE(writer.declare("a", DType::U8, std::vector<std::int64_t>{10}).ok());
    ASSERT_TRUE(writer.append(counting(4)).ok());
    EXPECT_EQ(dir.entries(), 2u);
    EXPECT_THAT(writer.commit().message(), HasSubstr("out.safetensors: 4 of 10 payload bytes were written"));
  }
  EXPECT_EQ(dir.entries(), 1u);
  EXPECT_EQ(read_text(file), "before");
}

TEST(SafetensorsWriter, RefusesWhatNoReaderWouldAccept) {
  TempDir dir;
  SafetensorsWriter writer(dir / "x.safetensors");
  const std::vector<std::int64_t> four = {4}, negative = {-1}, huge = {1L << 62, 4};
  EXPECT_TRUE(writer.declare("a", DType::U8, four).ok());
  EXPECT_THAT(writer.declare("a", DType::U8, four).message(), HasSubstr("tensor 'a' declared twice"));
  EXPECT_THAT(writer.declare("b", DType::U8, negative).message(), HasSubstr("'b' cannot be U8 [-1]"));
  EXPECT_THAT(writer.declare("b", DType::F32, huge).message(), HasSubstr("cannot be F32"));
  EXPECT_THAT(writer.declare("b", DType::Unknown, four).message(), HasSubstr("cannot be unknown [4]"));
  EXPECT_THAT(writer.append(counting(5)).message(), HasSubstr("1 bytes more than the declared tensors take"));
  EXPECT_THAT(writer.declare("c", DType::U8, four).message(), HasSubstr("declared after the first data"));
}

TEST(SafetensorsWriter, LeavesHolesThatTakeNoSpace) {
  TempDir dir;
  const fs::path file = dir / "sparse.safetensors";
  SafetensorsWriter writer(file);
  const std::int64_t rows = 1 << 20;
  ASSERT_TRUE(writer.declare("a", DType::U8, std::vector<std::int64_t>{rows, 1024}).ok());
  ASSERT_TRUE(writer.declare("b", DType::U8, std::vector<std::int64_t>{3}).ok());
  ASSERT_TRUE(writer.skip(static_cast<std::uint64_t>(rows) * 1024).ok());
  ASSERT_TRUE(writer.append(counting(3)).ok());
  ASSERT_TRUE(writer.commit().ok());
  const auto header = read_safetensors_header(file);
  ASSERT_TRUE(header.ok());
  EXPECT_THAT(problems_of(*header), IsEmpty());
  struct stat info {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
}

TEST(SafetensorsWriter, NamesTheFileWhenTheDiskIsFullAndLeavesNothing) {
  TempDir dir;
  // A limit on the file size fails the same write calls that a full disk fails.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 16, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::vector<TensorData> tensors = {{"a", DType::U8, {1 << 20}, counting(1 << 20)}};
  const flow::Status status = write_safetensors(dir / "big.safetensors", tensors);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(status.message(), testing::MatchesRegex("cannot write '.*/big.safetensors': File too large"));
  EXPECT_EQ(dir.entries(), 0u);
  EXPECT_EQ(write_safetensors("/nowhere/x.safetensors", tensors).message(),
            "cannot write '/nowhere/x.safetensors': No such file or directory");
}

TEST(DType, KnowsTheSizeOfEverySpelling) {
  const std::vector<std::int64_t> shape = {4, 2};
  for (const char* name : {"BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64", "F16", "BF16", "F32",
                           "F64", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4"}) {
    const DType dtype = dtype_from_name(name);
    ASSERT_NE(dtype, DType::Unknown) << name;
    EXPECT_EQ(dtype_name(dtype), name);
    EXPECT_EQ(tensor_bytes(dtype, shape), static_cast<std::uint64_t>(dtype_bits(dtype)));
  }
  EXPECT_EQ(dtype_from_name("unknown"), DType::Unknown);
  EXPECT_EQ(tensor_bytes(DType::Unknown, shape), std::nullopt);
}

}  // namespace
}  // namespace dsv
