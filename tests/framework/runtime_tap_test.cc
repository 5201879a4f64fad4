// Recording an output's packets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "framework/core/registry.h"
#include "tests/framework/test_graph.h"

namespace flow_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Files that exist, by path; their content is "prefix+array=value" lines.
std::map<std::string, std::vector<std::string>> files;

/// A writer that keeps its file in memory, and fails where its path says.
class MemoryWriter final : public flow::TapWriter {
 public:
  explicit MemoryWriter(std::string path) : path_(std::move(path)) {}
  Status add(const std::string& prefix, const std::vector<flow::TensorRef>& tensors) override {
    if (path_.starts_with("add fails") && lines_.size() == 2) return Status::error("No space left on device");
    for (const flow::TensorRef& tensor : tensors) {
      std::int64_t value = 0;
      std::memcpy(&value, tensor.bytes.data(), sizeof value);
      lines_.push_back(fmt::format("{}{}={}", prefix, tensor.name, value));
    }
    return {};
  }
  Status close() override {
    if (path_.starts_with("close fails")) return Status::error("No space left on device");
    files[path_] = lines_;
    return {};
  }

 private:
  const std::string path_;
  std::vector<std::string> lines_;
};

struct Blob {};

class RuntimeTap : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    flow::Registry::instance().add(flow::TapFormat{
        ".mem", [](const std::string& path) -> flow::Result<std::unique_ptr<flow::TapWriter>> {
          if (path.starts_with("open fails")) return flow::errorf("{}: Permission denied", path);
          return std::unique_ptr<flow::TapWriter>(std::make_unique<MemoryWriter>(path));
        }});
  }
  void SetUp() override { files.clear(); }

  Status run_tapped(std::vector<flow::TapRequest> taps, int count = 3) {
    TestGraph graph;
    Log<std::int64_t> log;
    graph.add_counter("layers.0.source", count)
        .add("relay", {.process = [this](Context& context) -> Status {
               ++bodies;
               send(context, 10 * value(context));
               return value(context) == fail_at ? Status::error("broken") : Status();
             }},
             {{"in", "layers.0.source.out"}})
        .add("sink", sink(log), {{"in", "relay.out"}});
    flow::Runner runner(graph.plan(), {.taps = std::move(taps)});
    return runner.run();
  }
  std::atomic<int> bodies{0};
  std::int64_t fail_at = -1;
};

TEST_F(RuntimeTap, WritesEachPacketUnderItsStamp) {
  const Status status = run_tapped({{"relay.out", "x.mem"}, {"layers.0.source.out", "y.mem"}});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(files["x.mem"], ElementsAre("0.0.value=0", "1.0.value=10", "2.0.value=20"));
  EXPECT_THAT(files["y.mem"], ElementsAre("0.0.value=0", "1.0.value=1", "2.0.value=2"));
}

TEST_F(RuntimeTap, NamesTheNearestPortOfAnUnknownOneBeforeAnythingRuns) {
  EXPECT_THAT(run_tapped({{"relay.ot", "x.mem"}}).message(),
              testing::AllOf(HasSubstr("tap relay.ot=x.mem"), HasSubstr("did you mean 'relay.out'?")));
  EXPECT_EQ(bodies, 0);
}

TEST_F(RuntimeTap, RefusesAFormatThatNobodyWrites) {
  EXPECT_EQ(run_tapped({{"relay.out", "x.csv"}}).message(),
            "tap relay.out=x.csv: no tap format '.csv'; known: .mem");
  EXPECT_EQ(run_tapped({{"relay.out", "x"}}).message(),
            "tap relay.out=x: the name of the file needs an extension: .mem");
}

TEST_F(RuntimeTap, RefusesTwoTapsOfOneFile) {
  for (const char* same : {"x.mem", "./x.mem", "none/../x.mem"}) {
    EXPECT_EQ(run_tapped({{"relay.out", "x.mem"}, {"layers.0.source.out", same}}).message(),
              fmt::format("tap layers.0.source.out={}: another tap writes this file", same));
  }
}

TEST_F(RuntimeTap, ReportsAFileThatCannotBeMade) {
  EXPECT_EQ(run_tapped({{"relay.out", "open fails.mem"}}).message(),
            "tap relay.out: open fails.mem: Permission denied");
  EXPECT_EQ(run_tapped({{"relay.out", "none/x.mem"}}).message(),
            "tap relay.out: cannot write 'none/x.mem': No such file or directory");
  EXPECT_EQ(bodies, 0) << "nothing has run";
}

TEST_F(RuntimeTap, EndsTheRunWhenAWriteFailsAndLeavesNoFile) {
  EXPECT_EQ(run_tapped({{"layers.0.source.out", "y.mem"}, {"relay.out", "add fails.mem"}}, 100).message(),
            "test.yaml:2:5: stage 'tap relay.out' (Tap): No space left on device");
  EXPECT_THAT(files, IsEmpty());
}

TEST_F(RuntimeTap, FailsTheRunWhenTheFileCannotBeCompleted) {
  EXPECT_EQ(run_tapped({{"relay.out", "close fails.mem"}}).message(),
            "tap relay.out: No space left on device");
  EXPECT_THAT(files, IsEmpty());
}

TEST_F(RuntimeTap, LeavesNoFileOfARunThatFailed) {
  fail_at = 2;
  EXPECT_THAT(run_tapped({{"layers.0.source.out", "y.mem"}}).message(), HasSubstr("broken"));
  EXPECT_THAT(files, IsEmpty());
}

}  // namespace
}  // namespace flow_test

template <>
struct flow::PacketTraits<flow_test::Blob> {
  static constexpr std::string_view name = "Blob";
};

namespace flow_test {
namespace {

TEST_F(RuntimeTap, RefusesATypeWithoutArrays) {
  flow::StageInfo info;
  info.name = "Test";
  info.outputs.push_back({"blob", "", &flow::packet_type<Blob>(), flow::Arity::one});
  flow::GraphPlan plan;
  plan.nodes.emplace_back();
  plan.nodes.back().name = "source";
  plan.nodes.back().stage = &info;
  flow::Runner runner(std::move(plan), {.taps = {{"source.blob", "x.mem"}}});
  EXPECT_EQ(runner.run().message(), "tap source.blob=x.mem: packets of type Blob have no arrays");
}

}  // namespace
}  // namespace flow_test
