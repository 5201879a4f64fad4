// Temporary folders, hand-made safetensors files and edited JSON for the checkpoint tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "stages/model/json.h"

namespace dsv::test {

namespace fs = std::filesystem;

inline const fs::path kSource = DSV41_SOURCE_DIR;
inline const fs::path kReleased = kSource / "tests/golden/released";
inline const fs::path kGoldenA = kSource / "tests/golden/a/checkpoint";
inline const fs::path kDemo = kSource / "pipelines/demo";

/// A folder that disappears with the test.
class TempDir {
 public:
  TempDir() {
    std::string name = fs::temp_directory_path() / "dsv41-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  fs::path operator/(const fs::path& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), {}));
  }

 private:
  fs::path path_;
};

inline void write_text(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

inline std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The bytes of a file: a length that may lie, the header text, and `payload` zero bytes.
inline std::string safetensors_bytes(std::string_view header, std::size_t payload,
                                     std::optional<std::uint64_t> claimed_length = {}) {
  const std::uint64_t length = claimed_length.value_or(header.size());
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes.append(header).append(payload, '\0');
}

inline boost::json::value json_of(const fs::path& file) {
  auto value = load_json(file);
  if (!value.ok()) {
    ADD_FAILURE() << value.status().message();
    return {};
  }
  return *std::move(value);
}

/// Copies a checkpoint's top folder, so that one file can be spoiled.
inline void copy_checkpoint(const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
}

}  // namespace dsv::test
