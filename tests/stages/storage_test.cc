// The ways to read a checkpoint give the same bytes, and fail alike.
#include "stages/model/io/storage.h"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <random>
#include <thread>

#include "framework/testing/stage_runner.h"
#include "tests/stages/checkpoint_fixture.h"

namespace dsv::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

/// A storage outside any graph.
struct OpenStorage {
  explicit OpenStorage(Storage::Options options) : storage(std::make_shared<Storage>(std::move(options))) {
    status = storage->open(flow::Opening("io", uses, {}, console, cancelled));
  }
  boost::json::object report() const {
    flow::RunReport report;
    storage->close(report);
    return report.snapshot().at("io").as_object();
  }
  std::vector<flow::UseInfo> uses;
  flow::CapturingConsole console;
  std::atomic<bool> cancelled{false};
  std::shared_ptr<Storage> storage;
  flow::Status status;
};

/// A file of random bytes.
class RandomFile {
 public:
  explicit RandomFile(std::size_t size) : bytes(size) {
    std::mt19937_64 random(size);
    for (char& byte : bytes) byte = static_cast<char>(random());
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(size));
    file = *InputFile::open(path);
  }
  bool holds(std::uint64_t offset, std::span<const std::byte> out) const {
    return std::memcmp(bytes.data() + offset, out.data(), out.size()) == 0;
  }
  TempDir folder;
  fs::path path = folder / "file";
  std::vector<char> bytes;
  std::unique_ptr<InputFile> file;
};

/// Extents of a file that do not overlap, in any order: tiny and long ones, neighbours and gaps, up to the
/// end.
std::vector<std::pair<std::uint64_t, std::uint64_t>> random_extents(std::uint64_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  const std::uint64_t gaps[] = {0, 0, 1, 100, 4095, 4096, 70'000},
                      lengths[] = {1, 2, 32, 4096, 5000, 300'000, 1'200'000};
  for (std::uint64_t at = random() % 3; at < size;) {
    const std::uint64_t length = std::min(lengths[random() % 7], size - at);
    extents.emplace_back(at, length);
    at += length + gaps[random() % 7];
  }
  std::shuffle(extents.begin(), extents.end(), random);
  return extents;
}

class BackEnd : public ::testing::TestWithParam<const char*> {};

TEST_P(BackEnd, GivesTheBytesOfTheFileForReadsOfAnySizeAndPlace) {
  const RandomFile file(5'000'001);
  for (const auto& [depth, delay, shuffle] : {std::tuple{0, 0.0, false}, {1, 0.0, false}, {5, 0.002, true}}) {
    OpenStorage io({.backend = GetParam(), .depth = depth, .delay = delay, .shuffle = shuffle});
    ASSERT_TRUE(io.status.ok()) << io.status.message();
    Reader reader(io.storage);
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const auto extents = random_extents(file.bytes.size(), seed);
      std::vector<std::vector<std::byte>> out;
      Reads reads;
      for (const auto& [offset, length] : extents) out.emplace_back(length + 1, std::byte{0xAA});
      for (std::size_t i = 0; i < extents.size(); ++i)
        reads.push_back({file.file.get(), extents[i].first, std::span(out[i]).first(extents[i].second)});
      const flow::Status status = reader.read(std::move(reads));
      ASSERT_TRUE(status.ok()) << status.message();
      for (std::size_t i = 0; i < extents.size(); ++i) {
        ASSERT_TRUE(file.holds(extents[i].first, std::span(out[i]).first(extents[i].second)));
        ASSERT_EQ(out[i].back(), std::byte{0xAA}) << "the byte behind stays untouched";
      }
    }
    EXPECT_THAT(std::string(io.report().at("backend").as_string()), HasSubstr(GetParam()));
  }
}

TEST_P(BackEnd, NamesTheFileAndTheOffsetWhenTheFileHasBeenCutMeanwhile) {
  const RandomFile file(2'000'000);
  OpenStorage io({.backend = GetParam()});
  ASSERT_TRUE(io.status.ok()) << io.status.message();
  Reader reader(io.storage);
  std::vector<std::byte> out(2'000'000);
  ASSERT_TRUE(reader.read({{file.file.get(), 0, out}}).ok());
  fs::resize_file(file.path, 1'000'100);
  EXPECT_EQ(reader.read({{file.file.get(), 0, out}}).message(),
            file.path.string() + ": ends at offset 1000100, in the middle of a read");
  EXPECT_EQ(reader.read({{file.file.get(), 1'500'000, std::span(out).first(9)}}).message(),
            file.path.string() + ": ends at offset 1000100, in the middle of a read")
      << "past the end";
  EXPECT_TRUE(reader.read({{file.file.get(), 1'000'090, std::span(out).first(10)}}).ok());
}

TEST_P(BackEnd, ReportsAFaultOfTheDiskOnceAndGoesOn) {
  const RandomFile file(600'000);
  for (const auto& [fault, words] : {std::pair{"eio@2", "cannot read at offset 524288: Input/output error"},
                                     {"short@2", "ends at offset 562144, in the middle of a read"}}) {
    OpenStorage io({.backend = GetParam(), .depth = 1, .fault = fault});
    Reader reader(io.storage);
    std::vector<std::byte> out(600'000);
    EXPECT_EQ(reader.read({{file.file.get(), 0, out}}).message(), file.path.string() + ": " + words);
    EXPECT_TRUE(reader.read({{file.file.get(), 0, out}}).ok());
    EXPECT_TRUE(file.holds(0, out));
  }
}

TEST_P(BackEnd, LetsItsReaderGoWhileReadsAreOnTheirWay) {
  const RandomFile file(3'000'000);
  OpenStorage io({.backend = GetParam(), .depth = 2, .delay = 0.005});
  std::atomic<int> called{0};
  std::optional<Reader> reader(io.storage);
  {
    std::vector<std::byte> out(3'000'000);
    for (std::uint64_t at = 0; at < 3'000'000; at += 100'000) {
      reader->start({{file.file.get(), at, std::span(out).subspan(at, 100'000)}},
                    at % 200'000 ? Urgency::needed : Urgency::guessed,
                    [&](const flow::Status&) { ++called; });
    }
    std::this_thread::sleep_for(7ms);
    reader.reset();
    EXPECT_EQ(called, 30) << "each callback has run";
  }
}

TEST_P(BackEnd, ServesManyReadersAtOnce) {
  const RandomFile file(3'000'000);
  OpenStorage io({.backend = GetParam()});
  std::vector<std::jthread> threads;
  std::atomic<int> good{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Reader reader(io.storage);
      for (std::uint64_t i = 0; i < 20; ++i) {
        std::vector<std::byte> out(10'000 * (t + 1));
        const std::uint64_t offset = (i * 977 + t * 131) * 97 % 2'900'000;
        good += reader.read({{file.file.get(), offset, out}}).ok() && file.holds(offset, out);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(good, 80);
}

TEST_P(BackEnd, StopsWaitingForASlowDiskWhenTheRunIsCancelled) {
  const RandomFile file(3'000'000);
  OpenStorage io({.backend = GetParam(), .depth = 2, .delay = 30});
  Reader reader(io.storage);
  std::vector<std::byte> out(3'000'000);
  const auto begin = Clock::now();
  std::jthread user([&] {
    std::this_thread::sleep_for(30ms);
    io.cancelled = true;
  });
  EXPECT_FALSE(reader.read({{file.file.get(), 0, out}}).ok());
  EXPECT_LT(Clock::now() - begin, 10s) << "a third of one read";
}

INSTANTIATE_TEST_SUITE_P(All, BackEnd, ::testing::Values("io_uring", "pread", "mmap"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Reads, AreJoinedWithNeighboursAndCutAtBlocks) {
  const RandomFile file(1);
  std::vector<std::byte> memory(2 * kBlockBytes);
  const auto blocks_of = [&](std::vector<std::pair<std::uint64_t, std::uint64_t>> extents) {
    Reads reads;
    for (const auto& [offset, size] : extents)
      reads.push_back({file.file.get(), offset, std::span(memory).first(size)});
    std::vector<std::tuple<std::uint64_t, std::uint64_t, std::size_t>> shown;
    for (const ReadBlock& b : make_blocks(reads)) shown.emplace_back(b.begin, b.end, b.pieces.size());
    return shown;
  };
  using Blocks = std::vector<std::tuple<std::uint64_t, std::uint64_t, std::size_t>>;
  EXPECT_EQ(blocks_of({{50, 10}, {10, 10}, {20, 30}}), (Blocks{{10, 60, 3}})) << "in file order";
  EXPECT_EQ(blocks_of({{0, 10}, {10 + kPageBytes - 1, 1}}), (Blocks{{0, kPageBytes + 10, 2}}))
      << "a small gap";
  EXPECT_EQ(blocks_of({{0, 10}, {10 + kPageBytes, 1}}),
            (Blocks{{0, 10, 1}, {kPageBytes + 10, kPageBytes + 11, 1}}));
  EXPECT_EQ(blocks_of({{kBlockBytes - 5, kBlockBytes + 10}}),
            (Blocks{{kBlockBytes - 5, kBlockBytes, 1},
                    {kBlockBytes, 2 * kBlockBytes, 1},
                    {2 * kBlockBytes, 2 * kBlockBytes + 5, 1}}));
}

/// A queue with six guessed reads and a needed one (6), and the order in which a back end gets them.
class Order : public ::testing::Test {
 protected:
  Order() {
    for (int i = 0; i < 7; ++i) {
      auto batch = std::make_shared<ReadBatch>();
      batch->owner = this;
      batch->urgency = i == 6 ? Urgency::needed : Urgency::guessed;
      batch->done = [this, i](const flow::Status& status) { ended_.push_back(status.ok() ? i : -1 - i); };
      tickets_.push_back(batch);
      queue_.put(batch,
                 {{file_.file.get(), static_cast<std::uint64_t>(i) * 10'000, std::span(out_).first(9)}});
    }
  }
  std::vector<int> rest() {
    while (auto block = queue_.try_take()) queue_.finish(*std::move(block), {});
    return ended_;
  }
  const RandomFile file_{100'000};
  std::vector<std::byte> out_ = std::vector<std::byte>(9);
  std::vector<int> ended_;
  std::vector<ReadTicket> tickets_;
  ReadQueue queue_{4, {}};
};

TEST_F(Order, NeededReadsOvertakeGuessedOnes) {
  EXPECT_EQ(rest(), (std::vector<int>{6, 0, 1, 2, 3, 4, 5}));
}

TEST_F(Order, AGuessThatIsNeededOvertakesTheOthers) {
  queue_.hurry(tickets_[5]);
  EXPECT_EQ(rest(), (std::vector<int>{6, 5, 0, 1, 2, 3, 4}));
}

TEST_F(Order, ReadsThatAreGivenUpEndWithAnErrorAtOnce) {
  queue_.drop(tickets_[4]);
  EXPECT_EQ(ended_, std::vector<int>{-1 - 4});
  EXPECT_EQ(rest(), (std::vector<int>{-1 - 4, 6, 0, 1, 2, 3, 5}));
}

TEST_F(Order, GuessesLeaveHalfOfTheBackEndToNeededReads) {
  std::vector<ReadBlock> taken;
  while (auto block = queue_.try_take()) taken.push_back(*std::move(block));
  EXPECT_EQ(taken.size(), 3u) << "the needed one and two of four";
  queue_.hurry(tickets_[5]);
  taken.push_back(*queue_.try_take());
  EXPECT_EQ(taken.back().batch, tickets_[5]);
  EXPECT_FALSE(queue_.try_take()) << "four at once";
  for (ReadBlock& block : taken) queue_.finish(std::move(block), {});
  EXPECT_EQ(rest().size(), 7u);
}

TEST_F(Order, AClosedQueueEndsWhatWasNotStarted) {
  auto block = queue_.try_take();
  queue_.close();
  EXPECT_EQ(ended_.size(), 6u);
  EXPECT_FALSE(queue_.take());
  queue_.finish(*std::move(block), {});
  EXPECT_EQ(ended_.back(), 6);
}

TEST(Storage, ReportsAFileSystemWithoutDirectReadsAndReadsThroughThePageCache) {
  OpenStorage io({.backend = "io_uring"});
  ASSERT_TRUE(io.status.ok()) << io.status.message();
  auto file = InputFile::open("/proc/version");
  ASSERT_TRUE(file.ok());
  Reader reader(io.storage);
  std::vector<std::byte> out(5);
  const flow::Status status = reader.read({{file->get(), 0, out}});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(std::memcmp(out.data(), "Linux", 5), 0);
  EXPECT_THAT(io.console.notes(), HasSubstr("io: /proc/version: direct reads are refused (Invalid argument); "
                                            "reading it through the page cache"));
  EXPECT_EQ(io.report().at("fallbacks").as_array().size(), 1u);
}

TEST(Storage, RefusesSettingsThatMeanNothing) {
  EXPECT_EQ(OpenStorage({.shuffle = true}).status.message(), "shuffle needs a delay");
  for (const char* fault : {"eio", "eio@", "eio@0", "eio@x", "eio@3x", "late@3", "@3", "eio@-1"}) {
    EXPECT_THAT(OpenStorage({.fault = fault}).status.message(), HasSubstr("neither eio@N nor short@N"))
        << fault;
  }
}

TEST(Storage, CountsWhatWasReadAndWhatOfItWasAskedFor) {
  const RandomFile file(100'000);
  OpenStorage io({.backend = "pread"});
  Reader reader(io.storage);
  std::vector<std::byte> out(300);
  ASSERT_TRUE(reader
                  .read({{file.file.get(), 0, std::span(out).first(100)},
                         {file.file.get(), 200, std::span(out).subspan(100, 100)},
                         {file.file.get(), 50'000, std::span(out).subspan(200, 100)}})
                  .ok());
  const boost::json::object report = io.report();
  EXPECT_EQ(report.at("reads"), 2);
  EXPECT_EQ(report.at("bytes_read"), 400);
  EXPECT_EQ(report.at("bytes_used"), 300);
}

}  // namespace
}  // namespace dsv::test
