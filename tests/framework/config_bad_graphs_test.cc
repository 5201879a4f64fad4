// tests/bad/graphs: each file NAME.yaml is a graph with mistakes, NAME.txt its error lines, all of them.
// The files name the stages of config_stages.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "framework/config/load.h"

namespace flow_test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(DSV41_SOURCE_DIR) / "tests/bad/graphs";

std::vector<std::string> bad_graphs() {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(kFolder)) {
    if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class BadGraph : public testing::TestWithParam<std::string> {
 protected:
  BadGraph() : home_(fs::current_path()) { fs::current_path(kFolder); }
  ~BadGraph() override { fs::current_path(home_); }

 private:
  fs::path home_;
};

TEST_P(BadGraph, IsRefusedWithExactlyItsErrors) {
  const std::vector<std::string> expected = lines_of(GetParam() + ".txt");
  ASSERT_FALSE(expected.empty()) << "there is no " << GetParam() << ".txt";
  const flow::LoadOutcome outcome = flow::load_graph({.files = {GetParam() + ".yaml"}});
  EXPECT_FALSE(outcome.plan);
  EXPECT_THAT(outcome.errors, testing::ElementsAreArray(expected));
}

INSTANTIATE_TEST_SUITE_P(Graphs, BadGraph, testing::ValuesIn(bad_graphs()),
                         [](const auto& graph) { return graph.param; });

}  // namespace
}  // namespace flow_test
