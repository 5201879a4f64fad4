// Writing a safetensors file: declare, append, commit.
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <limits>

#include "stages/model/safetensors.h"

namespace dsv {

using flow::errorf;
using flow::Status;

namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Status SafetensorsWriter::declare(std::string_view name, DType dtype, std::span<const std::int64_t> shape) {
  if (file_) return errorf("{}: tensor '{}' declared after the first data", target_.string(), name);
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
  if (file_) return {};
  FLOW_ASSIGN(flow::OutputFile file, flow::OutputFile::open(target_.string()));
  file_.emplace(std::move(file));
  const std::string text = header_text();
  const std::uint64_t length = text.size();
  FLOW_TRY(file_->write(text_of(std::as_bytes(std::span(&length, 1)))));
  return file_->write(text);
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  FLOW_TRY(start());
  if (bytes.size() > declared_ - written_)
    return errorf("{}: {} bytes more than the declared tensors take", target_.string(),
                  bytes.size() - (declared_ - written_));
  written_ += bytes.size();
  return file_->write(text_of(bytes));
}

Status SafetensorsWriter::skip(std::uint64_t bytes) {
  FLOW_TRY(start());
  if (bytes > declared_ - written_)
    return errorf("{}: {} bytes more than the declared tensors take", target_.string(),
                  bytes - (declared_ - written_));
  written_ += bytes;
  return file_->skip(bytes);
}

Status SafetensorsWriter::commit() {
  FLOW_TRY(start());
  if (written_ != declared_)
    return errorf("{}: {} of {} payload bytes were written", target_.string(), written_, declared_);
  return file_->commit();
}

Status write_safetensors(const std::filesystem::path& target, std::span<const TensorData> tensors,
                         const std::map<std::string, std::string>& metadata) {
  SafetensorsWriter writer(target);
  for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
  for (const TensorData& t : tensors) FLOW_TRY(writer.declare(t.name, t.dtype, t.shape));
  for (const TensorData& t : tensors) FLOW_TRY(writer.append(t.bytes));
  return writer.commit();
}

}  // namespace dsv
