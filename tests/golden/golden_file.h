// Reads the golden tensors below tests/golden for tests; every failure is a test failure with a name.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "stages/model/safetensors.h"

namespace dsv::testing {

/// One golden tensor: its shape and its bytes.
struct GoldenTensor {
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  std::int64_t dim(std::size_t axis) const { return shape.at(axis); }
  /// The elements as T (size must match; bf16, float, std::uint8_t, std::int32_t, std::int64_t).
  template <class T>
  std::vector<T> as() const {
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(static_cast<void*>(values.data()), bytes.data(), values.size() * sizeof(T));
    return values;
  }
};

/// A safetensors file below tests/golden, read whole.
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name) {
    read(std::string(DSV41_SOURCE_DIR) + "/tests/golden/" + name);
  }
  /// A file anywhere, for example one that a tap wrote.
  static GoldenFile at(const std::string& path) {
    GoldenFile file;
    file.read(path);
    return file;
  }
  const GoldenTensor& operator[](const std::string& name) const {
    static const GoldenTensor none;
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) ADD_FAILURE() << "no golden tensor " << name;
    return it == tensors_.end() ? none : it->second;
  }

 private:
  GoldenFile() = default;
  void read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    auto header = read_safetensors_header(std::filesystem::path(path));
    if (!header.ok()) {
      ADD_FAILURE() << header.status().message();
      return;
    }
    for (const TensorInfo& info : header->tensors) {
      const auto* data = reinterpret_cast<const std::byte*>(content.data());
      tensors_[info.name] = {info.shape, std::vector<std::byte>(data + info.begin, data + info.end)};
    }
  }
  std::map<std::string, GoldenTensor> tensors_;
};

/// The golden single operations.
inline const GoldenFile& golden_ops() {
  static const GoldenFile file("ops.safetensors");
  return file;
}

}  // namespace dsv::testing
