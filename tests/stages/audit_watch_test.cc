// ShardSet on a folder that is still being filled.
#include <boost/json.hpp>

#include "stages/audit/audit.h"
#include "tests/stages/checkpoint_fixture.h"

namespace dsv {
namespace {

using namespace dsv::test;
using ::testing::HasSubstr;

/// A copy of the demo checkpoint whose third shard has only its first `bytes` bytes.
void copy_with_a_cut(const fs::path& to, std::uintmax_t bytes) {
  copy_checkpoint(kDemo, to);
  fs::resize_file(to / "model-00003-of-00006.safetensors", bytes);
}

std::string notes(const AuditReport& report) {
  return fmt::format("{}", fmt::join(report.notes, "\n"));
}

TEST(ArrivingShards, AreWaitedForInsteadOfFailed) {
  struct Case {
    std::uintmax_t bytes;
    const char* note;
  };
  const Case cases[] = {{0, ""}, {5, ""}, {200, ""}, {300'000, "ends at byte"}};
  for (const Case& c : cases) {
    TempDir folder;
    copy_with_a_cut(folder.path(), c.bytes);
    const auto shards = *ShardSet::scan(folder.path(), {.arriving = true});
    EXPECT_FALSE(shards.complete());
    const AuditReport report = *audit(*read_config(folder.path()), shards);
    EXPECT_EQ(report.count(Verdict::Fail), 0) << c.bytes;
    EXPECT_GT(report.count(Verdict::Undecided), 0) << c.bytes;
    EXPECT_THAT(notes(report), HasSubstr("model-00003-of-00006.safetensors is still arriving: "));
    EXPECT_THAT(notes(report), HasSubstr(c.note));
    EXPECT_GT(audit(*read_config(folder.path()), *ShardSet::scan(folder.path()))->count(Verdict::Fail), 0)
        << "only on request";
  }
}

TEST(ArrivingShards, LeaveACompleteCheckpointAsItIs) {
  const auto shards = *ShardSet::scan(kDemo, {.arriving = true});
  EXPECT_TRUE(shards.complete());
  EXPECT_EQ(audit(*read_config(kDemo), shards)->count(Verdict::Pass), 39);
}

TEST(ArrivingShards, MakeNoEmptyFolderComplete) {
  TempDir folder;
  EXPECT_FALSE(ShardSet::scan(folder.path(), {.arriving = true})->complete());
}

TEST(ArrivingShards, LeaveNothingToFailWhileOnlyTheIndexIsThere) {
  TempDir folder;
  for (const char* name : {"config.json", "model.safetensors.index.json"})
    fs::copy(kDemo / name, folder / name);
  const AuditReport report = *audit(*read_config(folder.path()), *ShardSet::scan(folder.path()));
  EXPECT_EQ(report.count(Verdict::Fail), 0) << to_text(report, false);
  EXPECT_EQ(report.count(Verdict::Undecided), 10);
}

TEST(ArrivingShards, DoNotHideAWrongTensor) {
  TempDir folder;
  copy_with_a_cut(folder.path(), 100);
  ModelConfig config = *read_config(kDemo);
  config.vocab_size += 1;
  EXPECT_GT(audit(config, *ShardSet::scan(folder.path(), {.arriving = true}))->count(Verdict::Fail), 0);
}

}  // namespace
}  // namespace dsv
