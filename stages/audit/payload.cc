#include "stages/audit/payload.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstring>
#include <random>

#include "framework/core/units.h"
#include "stages/model/file.h"

namespace dsv {

namespace json = boost::json;

namespace {

constexpr std::uint64_t kPiece = 4u << 20;
constexpr std::uint64_t kLongTail = 4096;  // zeros at the end that a download may have left

template <class T, class Test>
std::uint64_t count_if_element(std::span<const std::byte> bytes, Test test) {
  std::uint64_t count = 0;
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    count += test(value) ? 1 : 0;
  }
  return count;
}

/// Elements that are NaN, and infinities of the formats that have them.
std::uint64_t count_not_finite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::F8_E8M0:
      return count_if_element<std::uint8_t>(bytes, [](std::uint8_t v) { return v == 0xff; });
    case DType::F8_E4M3:
      return count_if_element<std::uint8_t>(bytes, [](std::uint8_t v) { return (v & 0x7f) == 0x7f; });
    case DType::BF16:
      return count_if_element<std::uint16_t>(bytes, [](std::uint16_t v) { return (v & 0x7f80) == 0x7f80; });
    case DType::F32:
      return count_if_element<std::uint32_t>(
          bytes, [](std::uint32_t v) { return (v & 0x7f800000u) == 0x7f800000u; });
    default:
      return 0;
  }
}

/// Zero bytes at the end.
std::uint64_t zero_tail(std::span<const std::byte> bytes) {
  const auto last = std::find_if(bytes.rbegin(), bytes.rend(), [](std::byte b) { return b != std::byte{0}; });
  return static_cast<std::uint64_t>(last - bytes.rbegin());
}

/// What was seen of one tensor so far.
struct Tally {
  std::uint64_t bytes = 0, elements = 0, not_finite = 0;
  std::uint64_t tail = 0;  ///< zero bytes since the last other one
};

class PayloadSampler {
 public:
  PayloadSampler(const ShardSet& shards, const PayloadOptions& options)
      : shards_(shards), options_(options), buffer_(kPiece) {}

  PayloadReport run() {
    for (std::size_t i = 0; i < shards_.files().size(); ++i)
      if (shards_.files()[i].state == ShardFile::State::Used) draw(i);
    for (const auto& [file, tensors] : chosen_)
      for (const TensorInfo* tensor : tensors) total_ += std::min(tensor->bytes(), bytes_per_tensor());
    for (const auto& [file, tensors] : chosen_) sample(*file, tensors);
    return std::move(report_);
  }

 private:
  using Tensors = std::vector<const TensorInfo*>;

  std::uint64_t bytes_per_tensor() const { return std::max(options_.bytes_per_tensor, kPiece); }
  bool cancelled() const { return options_.cancelled && options_.cancelled(); }

  void draw(std::size_t number) {
    const ShardFile& file = shards_.files()[number];
    Tensors tensors;
    for (const TensorInfo& tensor : file.header.tensors)
      if (shards_.find(tensor.name) == &tensor && tensor.bytes() > 0) tensors.push_back(&tensor);
    std::seed_seq seed{options_.seed, std::uint64_t{number}};
    std::mt19937_64 random(seed);
    const auto count = std::min(tensors.size(), static_cast<std::size_t>(options_.tensors_per_shard));
    for (std::size_t i = 0; i < count; ++i)
      std::swap(tensors[i], tensors[i + random() % (tensors.size() - i)]);
    tensors.resize(count);
    std::ranges::sort(tensors, {}, &TensorInfo::begin);
    chosen_.emplace_back(&file, std::move(tensors));
  }

  void sample(const ShardFile& shard, const Tensors& tensors) {
    ++report_.shards;
    const auto file = InputFile::open(shard.path);
    for (const TensorInfo* tensor : tensors) {
      if (cancelled()) return;
      ++report_.tensors;
      if (!file.ok())
        add(report_.faults, *tensor, file.status().message());
      else
        read(**file, *tensor);
    }
  }

  void read(const InputFile& file, const TensorInfo& tensor) {
    if (tensor.end > file.size())
      add(report_.faults, tensor, fmt::format("ends at byte {}, the file after {}", tensor.end, file.size()));
    const std::uint64_t pieces = (tensor.bytes() + kPiece - 1) / kPiece;
    const std::uint64_t wanted = std::min(pieces, bytes_per_tensor() / kPiece);
    Tally tally;
    for (std::uint64_t i = 0; i < wanted && !cancelled(); ++i) {
      // The first piece, the last one, and others at even distances between them.
      const std::uint64_t piece = wanted > 1 ? i * (pieces - 1) / (wanted - 1) : 0;
      const std::uint64_t begin = tensor.begin + piece * kPiece;
      const std::uint64_t end = std::min({begin + kPiece, tensor.end, file.size()});
      if (begin >= end) break;
      const auto bytes = std::span(buffer_).first(end - begin);
      if (const auto status = file.read(begin, bytes); !status.ok())
        return add(report_.faults, tensor, status.message());
      add(tally, tensor.dtype, bytes);
      report_.bytes += bytes.size();
      if (options_.progress) options_.progress(report_.bytes, total_);
    }
    judge(tensor, tally);
  }

  static void add(Tally& tally, DType dtype, std::span<const std::byte> bytes) {
    const std::uint64_t tail = zero_tail(bytes);
    tally.bytes += bytes.size();
    tally.elements += bytes.size() * 8 / static_cast<std::uint64_t>(std::max(1, dtype_bits(dtype)));
    tally.not_finite += count_not_finite(dtype, bytes);
    tally.tail = tail == bytes.size() ? tally.tail + tail : tail;
  }

  void judge(const TensorInfo& tensor, const Tally& tally) {
    if (tally.bytes == 0) return;
    const bool part = tally.bytes < tensor.bytes();
    const std::string seen = part ? fmt::format("the {} bytes read", tally.bytes) : "it";
    if (tally.tail == tally.bytes) {
      const bool vector = tensor.shape.size() < 2 && tensor.dtype != DType::F8_E8M0;
      add(vector ? report_.remarks : report_.faults, tensor, fmt::format("nothing but zeros in {}", seen));
    } else if (tally.tail >= kLongTail) {
      add(report_.remarks, tensor, fmt::format("its last {} bytes read are zeros", tally.tail));
    }
    if (tally.not_finite == tally.elements && tally.elements > 0)
      add(report_.faults, tensor, fmt::format("nothing but NaN in {}", seen));
    else if (tally.not_finite > 0)
      add(report_.faults, tensor,
          fmt::format("{} of {} elements are NaN or infinite", tally.not_finite, tally.elements));
  }

  void add(std::vector<PayloadFinding>& findings, const TensorInfo& tensor, std::string message) {
    findings.push_back({tensor.name, shards_.file_of(tensor).path.filename(), std::move(message)});
  }

  const ShardSet& shards_;
  const PayloadOptions& options_;
  std::vector<std::byte> buffer_;
  std::vector<std::pair<const ShardFile*, Tensors>> chosen_;
  std::uint64_t total_ = 0;
  PayloadReport report_;
};

json::array to_array(const std::vector<PayloadFinding>& findings) {
  json::array array;
  for (const PayloadFinding& f : findings)
    array.push_back({{"tensor", f.tensor}, {"file", f.file}, {"message", f.message}});
  return array;
}

}  // namespace

PayloadReport sample_payload(const ShardSet& shards, const PayloadOptions& options) {
  return PayloadSampler(shards, options).run();
}

std::string to_text(const PayloadReport& report) {
  std::string text = fmt::format("\npayload sample: {} tensors of {} shards, {} read\n", report.tensors,
                                 report.shards, flow::bytes_text(report.bytes));
  for (const PayloadFinding& f : report.faults)
    text += fmt::format("  [fail] {} in {}: {}\n", f.tensor, f.file, f.message);
  for (const PayloadFinding& f : report.remarks)
    text += fmt::format("  note: {} in {}: {}\n", f.tensor, f.file, f.message);
  if (report.faults.empty()) text += "  [ok] no NaN, no empty tensor, no missing byte among them\n";
  return text;
}

json::object to_json(const PayloadReport& report) {
  return {{"shards", report.shards},
          {"tensors", report.tensors},
          {"bytes", report.bytes},
          {"faults", to_array(report.faults)},
          {"remarks", to_array(report.remarks)}};
}

}  // namespace dsv
