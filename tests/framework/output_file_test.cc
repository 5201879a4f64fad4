// Files that appear as a whole or not at all.
#include "framework/core/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/framework/config_fixture.h"

namespace flow_test {
namespace {

namespace fs = std::filesystem;
using flow::OutputFile;
using testing::UnorderedElementsAre;

class OutputFiles : public GraphTest {
 protected:
  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static std::vector<std::string> entries() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(".")) names.push_back(entry.path().filename());
    return names;
  }
};

TEST_F(OutputFiles, AppearWhenTheyAreComplete) {
  write("x", "old");
  auto file = OutputFile::open("x");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write("new").ok());
  EXPECT_EQ(content("x"), "old");
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(content("x"), "new");
  EXPECT_THAT(entries(), UnorderedElementsAre("x"));
}

TEST_F(OutputFiles, LeaveNothingWithoutACommit) {
  { ASSERT_TRUE(OutputFile::open("x")->write("half").ok()); }
  ASSERT_TRUE(flow::can_write("x").ok());
  EXPECT_THAT(entries(), UnorderedElementsAre());
}

TEST_F(OutputFiles, TouchNoOtherFile) {
  write("x.part", "a user's own");
  ASSERT_TRUE(flow::write_file("x", "new").ok());
  EXPECT_EQ(content("x.part"), "a user's own");
}

TEST_F(OutputFiles, FollowLinksToWhatTheyLeadTo) {
  fs::create_directory("folder");
  write("folder/target", "old");
  fs::create_symlink("target", "folder/near");
  fs::create_symlink("folder/near", "far");
  fs::create_symlink("folder/none yet", "dangling");
  ASSERT_TRUE(flow::write_file("far", "new").ok());
  ASSERT_TRUE(flow::write_file("dangling", "first").ok());
  EXPECT_TRUE(fs::is_symlink("far") && fs::is_symlink("folder/near") && fs::is_symlink("dangling"));
  EXPECT_EQ(content("folder/target"), "new");
  EXPECT_EQ(content("folder/none yet"), "first");
  EXPECT_EQ(flow::output_target("far"), flow::output_target("./folder/../folder/target"));
}

TEST_F(OutputFiles, WriteAPipeInPlace) {
  ASSERT_EQ(::mkfifo("pipe", 0600), 0);
  ASSERT_TRUE(flow::can_write("pipe").ok()) << "nobody reads yet";
  const int reader = ::open("pipe", O_RDWR | O_CLOEXEC);
  ASSERT_TRUE(flow::write_file("pipe", "text").ok());
  char text[5] = {};
  EXPECT_EQ(::read(reader, text, 4), 4);
  ::close(reader);
  EXPECT_STREQ(text, "text");
  EXPECT_TRUE(fs::is_fifo("pipe")) << "it was replaced";
}

TEST_F(OutputFiles, WriteADeviceInPlace) {
  if (::mknod("null", S_IFCHR | 0600, makedev(1, 3)) != 0) GTEST_SKIP() << "making a device needs privileges";
  if (!std::ofstream("null").is_open()) GTEST_SKIP() << "devices do not work in this folder";
  ASSERT_TRUE(flow::write_file("null", "text").ok());
  EXPECT_TRUE(fs::is_character_file("null")) << "it was replaced";
}

TEST_F(OutputFiles, ContinueAnOpenFileThatIsNamedByItsDescriptor) {
  const int file = ::open("x", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::write(file, "first ", 6), 6);
  fs::create_symlink(fmt::format("/proc/self/fd/{}", file), "out");
  ASSERT_TRUE(flow::write_file("out", "second").ok());
  ::close(file);
  EXPECT_EQ(content("x"), "first second");
}

TEST_F(OutputFiles, TellWhyTheyCannotBeWritten) {
  fs::create_directory("folder");
  fs::create_symlink("loop", "loop");
  const std::pair<const char*, const char*> cases[] = {
      {"none/x", "cannot write 'none/x': No such file or directory"},
      {"folder", "cannot write 'folder': Is a directory"},
      {"loop", "cannot write 'loop': Too many levels of symbolic links"},
      {"", "cannot write '': No such file or directory"},
  };
  for (const auto& [path, message] : cases) {
    EXPECT_EQ(flow::can_write(path).message(), message);
    EXPECT_EQ(flow::write_file(path, "text").message(), message);
  }
}

}  // namespace
}  // namespace flow_test
