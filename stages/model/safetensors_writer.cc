// Writing a safetensors file: declare, append, commit.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <cstring>
#include <limits>

#include "stages/model/safetensors.h"

namespace dsv {

using flow::errorf;
using flow::Status;

SafetensorsWriter::SafetensorsWriter(std::filesystem::path target) : target_(std::move(target)) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

Status SafetensorsWriter::declare(std::string_view name, DType dtype, std::span<const std::int64_t> shape) {
  if (file_ >= 0) return errorf("{}: tensor '{}' declared after the first data", target_.string(), name);
  const std::optional<std::uint64_t> bytes = tensor_bytes(dtype, shape);
  constexpr std::uint64_t limit = std::numeric_limits<std::int64_t>::max();
  if (!bytes || *bytes > limit - declared_)
    return errorf("{}: tensor '{}' cannot be {} {}", target_.string(), name, dtype_name(dtype),
                  shape_text(shape));
  if (!names_.emplace(name).second) return errorf("{}: tensor '{}' declared twice", target_.string(), name);
  tensors_.push_back({std::string(name), dtype, {shape.begin(), shape.end()}, declared_, declared_ + *bytes});
  declared_ += *bytes;
  return {};
}

std::string SafetensorsWriter::header_text() const {
  namespace json = boost::json;
  std::string text = "{";
  const auto add = [&text](std::string_view key, const json::value& value) {
    if (text.size() > 1) text += ',';
    text += json::serialize(json::string_view(key)) + ":" + json::serialize(value);
  };
  if (!metadata_.empty()) {
    json::object metadata;
    for (const auto& [key, value] : metadata_) metadata[key] = value;
    add("__metadata__", metadata);
  }
  for (const TensorInfo& t : tensors_) {
    add(t.name, {{"dtype", json::string_view(dtype_name(t.dtype))},
                 {"shape", json::array(t.shape.begin(), t.shape.end())},
                 {"data_offsets", {t.begin, t.end}}});
  }
  text += '}';
  if (header_edit_) text = header_edit_(std::move(text));
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the payload starts aligned
  return text;
}

Status SafetensorsWriter::start() {
  if (file_ >= 0) return {};
  temporary_ = target_.string() + ".XXXXXX";
  std::string name = temporary_.string();
  file_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file_ < 0) return io_error("create");
  temporary_ = name;
  ::fchmod(file_, 0644);
  const std::string text = header_text();
  const std::uint64_t length = text.size();
  FLOW_TRY(write_all(std::as_bytes(std::span(&length, 1))));
  return write_all(std::as_bytes(std::span(text)));
}

Status SafetensorsWriter::io_error(std::string_view what) const {
  return errorf("{}: cannot {}: {}", target_.string(), what, std::strerror(errno));
}

Status SafetensorsWriter::write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return io_error("write");
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  FLOW_TRY(start());
  if (bytes.size() > declared_ - written_)
    return errorf("{}: {} bytes more than the declared tensors take", target_.string(),
                  bytes.size() - (declared_ - written_));
  written_ += bytes.size();
  return write_all(bytes);
}

Status SafetensorsWriter::skip(std::uint64_t bytes) {
  FLOW_TRY(start());
  if (bytes > declared_ - written_)
    return errorf("{}: {} bytes more than the declared tensors take", target_.string(),
                  bytes - (declared_ - written_));
  written_ += bytes;
  const off_t end = ::lseek(file_, static_cast<off_t>(bytes), SEEK_CUR);
  if (end < 0 || ::ftruncate(file_, end) != 0) return io_error("extend");
  return {};
}

Status SafetensorsWriter::commit() {
  FLOW_TRY(start());
  if (written_ != declared_)
    return errorf("{}: {} of {} payload bytes were written", target_.string(), written_, declared_);
  const int file = std::exchange(file_, -1);
  const char* failed = ::close(file) != 0 ? "write" : nullptr;
  if (failed == nullptr && ::rename(temporary_.c_str(), target_.c_str()) != 0) failed = "rename";
  if (failed == nullptr) return {};
  const Status error = io_error(failed);
  ::unlink(temporary_.c_str());
  return error;
}

Status write_safetensors(const std::filesystem::path& target, std::span<const TensorData> tensors,
                         const std::map<std::string, std::string>& metadata) {
  SafetensorsWriter writer(target);
  for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
  for (const TensorData& t : tensors) FLOW_TRY(writer.declare(t.name, t.dtype, t.shape));
  for (const TensorData& t : tensors) FLOW_TRY(writer.append(t.bytes).in(t.name));
  return writer.commit();
}

}  // namespace dsv
