// Rules of the house that a compiler does not know.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace dsv::testing {
namespace {

TEST(House, StagesIncludeNeitherOneTbbNorYamlCpp) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(DSV41_SOURCE_DIR) + "/stages")) {
    if (!entry.is_regular_file()) continue;
    ++files;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("#include")) continue;
      for (const char* library : {"tbb/", "yaml-cpp/"}) {
        EXPECT_EQ(line.find(library), std::string::npos) << entry.path() << ": " << line;
      }
    }
  }
  EXPECT_GT(files, 50);
}

}  // namespace
}  // namespace dsv::testing
