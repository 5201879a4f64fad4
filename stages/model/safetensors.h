// The safetensors file format: reading and checking one header, and writing a file.
//
// A file is an 8-byte little-endian header length, that many bytes of JSON, then the payload. The JSON
// names each tensor's dtype, shape and [begin, end) in the payload. Nothing here trusts a number of the
// file: memory grows with the bytes that are really there, never with what a header claims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/output_file.h"
#include "framework/core/status.h"
#include "stages/model/dtype.h"

namespace dsv {

class InputFile;

/// Where one tensor lies: what its header says, with offsets counted from the start of the file.
struct TensorInfo {
  std::string name;
  DType dtype = DType::Unknown;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< absolute offset of the first byte
  std::uint64_t end = 0;    ///< one past the last byte
  int shard = 0;            ///< index of the file within its checkpoint

  std::uint64_t bytes() const { return end - begin; }
};

/// What can be wrong with one tensor of a readable header.
enum class HeaderFault : std::uint8_t {
  UnknownDtype,  ///< a type this program cannot decode; size unknown, offsets kept
  Malformed,     ///< a field is missing, of the wrong type or given twice
  Duplicate,     ///< a name that occurs twice; the first entry counts
  Shape,         ///< a negative dimension, or an element count over 63 bits
  Offsets,       ///< reversed, or past 63 bits
  Extent,        ///< end - begin is not the size that dtype and shape give
  Overlap,       ///< shares bytes with another tensor
  Gap,           ///< payload bytes before it, or after the last one, belong to no tensor
  BeyondFile,    ///< ends after the end of the file
};

/// A fault of one tensor, worded for the user (expected, found; without the names of tensor and file).
struct HeaderProblem {
  HeaderFault fault;
  std::string tensor;  ///< empty: the header as a whole
  std::string message;

  /// "tensor 'x' has ..."
  std::string text() const {
    return (tensor.empty() ? "the header" : "tensor '" + tensor + "'") + " " + message;
  }
};

/// One parsed header. `tensors` holds every entry that has a dtype, a shape and offsets, in file order,
/// also those with a problem, except the second and later entries of a name.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::string> metadata;        ///< `__metadata__`
  std::map<std::string, std::string> unknown_dtypes;  ///< tensor -> the spelling found
  std::vector<HeaderProblem> problems;
  std::uint64_t data_begin = 0;   ///< 8 + header length
  std::uint64_t file_size = 0;    ///< bytes on disk
  std::uint64_t fingerprint = 0;  ///< hash of the header's bytes
};

struct HeaderOptions {
  /// Accept a file that ends after its header: BeyondFile and the trailing Gap are not looked for.
  bool header_prefix = false;
};

/// Longest header accepted, in bytes (the limit of the reference library).
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// Parses the JSON part of a header. `file_size` is the size of the whole file in bytes.
/// Error: not a JSON object of the expected form at all. Faults of single tensors are `problems`.
flow::Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::uint64_t file_size,
                                                         HeaderOptions options = {});

/// Reads the JSON part of a file's header as it stands. Errors name the file.
flow::Result<std::string> read_header_text(const std::filesystem::path& file);

/// Reads and parses the header of a file. Errors name the file.
flow::Result<SafetensorsHeader> read_safetensors_header(const std::filesystem::path& file,
                                                        HeaderOptions options = {});
flow::Result<SafetensorsHeader> read_safetensors_header(const InputFile& file, HeaderOptions options = {});

/// Writes one safetensors file: declare every tensor, then append the payload in the declared order in
/// pieces of any size, then commit. Without a commit (an error, a full disk, destruction) nothing is left
/// behind (flow::OutputFile).
class SafetensorsWriter {
 public:
  explicit SafetensorsWriter(std::filesystem::path target) : target_(std::move(target)) {}

  /// Adds a tensor to the header. Errors: a name used before, a size that overflows, data already written.
  flow::Status declare(std::string_view name, DType dtype, std::span<const std::int64_t> shape);
  /// Adds an entry to `__metadata__`.
  void set_metadata(std::string key, std::string value) { metadata_[std::move(key)] = std::move(value); }

  /// Rewrites the header's JSON before it is written: for files that are broken on purpose.
  void set_header_edit(std::function<std::string(std::string)> edit) { header_edit_ = std::move(edit); }

  /// Writes the next bytes of the payload. The first call (or skip) fixes the header.
  flow::Status append(std::span<const std::byte> bytes);
  /// Leaves a hole of zeros, which takes no disk space where the file system can.
  flow::Status skip(std::uint64_t bytes);
  /// Checks that the payload is complete, and moves the file to its name.
  flow::Status commit();

  /// Bytes of payload declared so far.
  std::uint64_t payload_bytes() const { return declared_; }

 private:
  flow::Status start();
  std::string header_text() const;

  std::filesystem::path target_;
  std::function<std::string(std::string)> header_edit_;
  std::map<std::string, std::string> metadata_;
  std::set<std::string, std::less<>> names_;
  std::vector<TensorInfo> tensors_;  ///< offsets relative to the payload
  std::uint64_t declared_ = 0, written_ = 0;
  std::optional<flow::OutputFile> file_;  ///< from the first data on
};

/// A tensor in memory, to be written.
struct TensorData {
  std::string name;
  DType dtype = DType::Unknown;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

/// Writes `tensors` in one go (see SafetensorsWriter).
flow::Status write_safetensors(const std::filesystem::path& target, std::span<const TensorData> tensors,
                               const std::map<std::string, std::string>& metadata = {});

}  // namespace dsv
