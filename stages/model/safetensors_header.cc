// Reading and checking a safetensors header.
#include <algorithm>
#include <bit>
#include <boost/json/basic_parser_impl.hpp>
#include <functional>
#include <limits>
#include <unordered_set>
#include <utility>

#include "stages/model/file.h"
#include "stages/model/json_events.h"
#include "stages/model/safetensors.h"

namespace dsv {

namespace {

namespace json = boost::json;
using flow::errorf;
using flow::Result;

constexpr std::uint64_t kMaxOffset = std::numeric_limits<std::int64_t>::max();

/// Turns one entry `{"dtype": .., "shape": [..], "data_offsets": [..]}` into a TensorInfo and faults.
class EntryChecker {
 public:
  EntryChecker(SafetensorsHeader& header, HeaderOptions options) : header_(header), options_(options) {}

  struct Numbers {
    bool given = false;
    bool fits = true;  ///< every number is whole and within 63 bits
    std::vector<std::int64_t> values;
    std::string text;  ///< the numbers as the file writes them

    void add(std::int64_t value, bool value_fits, std::string_view written) {
      values.push_back(value);
      fits &= value_fits;
      text.append(text.empty() ? "" : ", ").append(written);
    }
    /// "[0.5, 128]", and why that cannot be.
    std::string quoted() const {
      constexpr std::size_t kMostShown = 80;
      const bool cut = text.size() > kMostShown;
      return fmt::format("[{}{}]{}", std::string_view(text).substr(0, kMostShown), cut ? "..." : "",
                         fits ? "" : " (not whole numbers of 63 bits)");
    }
  };

  std::string name, dtype;
  bool has_dtype = false;
  Numbers shape, offsets;

  void begin(std::string tensor) {
    name = std::move(tensor);
    dtype.clear();
    has_dtype = reported_ = false;
    shape = offsets = {};
  }

  /// Reports that the entry has not the expected form; once per entry.
  void malformed(std::string message) {
    if (!reported_) report(HeaderFault::Malformed, std::move(message));
    reported_ = true;
  }

  void finish() {
    if (!names_.insert(name).second) {
      return report(HeaderFault::Duplicate, "is described twice; the first description counts");
    }
    if (reported_) return;
    if (!has_dtype) return malformed("has no \"dtype\"");
    if (!shape.given) return malformed("has no \"shape\"");
    if (!offsets.given || offsets.values.size() != 2) return malformed("has no pair of \"data_offsets\"");
    add();
  }

 private:
  void report(HeaderFault fault, std::string message) {
    header_.problems.push_back({fault, name, std::move(message)});
  }

  void add() {
    TensorInfo info;
    info.name = name;
    info.dtype = dtype_from_name(dtype);
    info.shape = std::move(shape.values);
    if (info.dtype == DType::Unknown) {
      header_.unknown_dtypes[name] = dtype;
      report(HeaderFault::UnknownDtype, fmt::format("has the unknown dtype '{}'", dtype));
    }
    if (place(info)) check_extent(info);
    header_.tensors.push_back(std::move(info));
  }

  bool place(TensorInfo& info) {
    const std::int64_t begin = offsets.values[0], end = offsets.values[1];
    info.begin = info.end = header_.data_begin;
    if (!offsets.fits || begin < 0 || end < begin ||
        static_cast<std::uint64_t>(end) > kMaxOffset - header_.data_begin) {
      report(HeaderFault::Offsets, "has impossible data_offsets " + offsets.quoted());
      return false;
    }
    info.begin += static_cast<std::uint64_t>(begin);
    info.end += static_cast<std::uint64_t>(end);
    if (info.end > header_.file_size && !options_.header_prefix) {
      report(HeaderFault::BeyondFile,
             fmt::format("ends at byte {}, but the file has only {} bytes", info.end, header_.file_size));
    }
    return true;
  }

  void check_extent(const TensorInfo& info) {
    if (info.dtype == DType::Unknown && shape.fits) return;
    const std::optional<std::uint64_t> expected = tensor_bytes(info.dtype, info.shape);
    if (!shape.fits || !expected) {
      report(HeaderFault::Shape, "has the impossible shape " + shape.quoted());
    } else if (*expected != info.bytes()) {
      report(HeaderFault::Extent, fmt::format("{} {} takes {} bytes, but its data_offsets span {}", dtype,
                                              shape_text(info.shape), *expected, info.bytes()));
    }
  }

  SafetensorsHeader& header_;
  HeaderOptions options_;
  std::unordered_set<std::string> names_;
  bool reported_ = false;
};

/// Follows the parser's events; no JSON value is built.
class HeaderHandler : public JsonEvents<HeaderHandler> {
 public:
  HeaderHandler(SafetensorsHeader& header, HeaderOptions options)
      : header_(header), entry_(header, options) {}

  bool on_object_begin(json::error_code&) {
    if (++depth_ == 2) {
      entry_.begin(key_);
      in_metadata_ = key_ == "__metadata__";
    } else if (depth_ > 2) {
      unexpected("an object");
    }
    return true;
  }
  bool on_object_end(std::size_t, json::error_code&) {
    if (depth_-- == 2 && !in_metadata_) entry_.finish();
    return true;
  }
  bool on_array_begin(json::error_code& ec) {
    if (++depth_ == 1) return refuse(ec, kNoObject);
    if (depth_ == 2) return stray_value("a list");
    numbers_ = depth_ == 3 ? numbers_field() : nullptr;
    if (numbers_ == nullptr)
      unexpected("a list");
    else if (numbers_->given)
      entry_.malformed(fmt::format("gives \"{}\" twice", key_));
    else
      numbers_->given = true;
    return true;
  }
  bool on_array_end(std::size_t, json::error_code&) {
    --depth_;
    numbers_ = nullptr;
    return true;
  }

  void key(std::string& text, json::error_code&) { key_.swap(text); }
  void string(std::string& text, json::error_code& ec) {
    if (depth_ == 2 && in_metadata_)
      header_.metadata[key_] = text;
    else if (depth_ != 2 || key_ != "dtype")
      scalar("a string", ec);
    else if (entry_.has_dtype)
      entry_.malformed("gives \"dtype\" twice");
    else
      entry_.has_dtype = true, entry_.dtype = text;
  }

  bool on_number_part(json::string_view part, json::error_code&) {
    number_.append(part.data(), part.size());
    return true;
  }
  bool on_int64(std::int64_t value, json::string_view text, json::error_code& ec) {
    return number(value, true, text, ec);
  }
  bool on_uint64(std::uint64_t value, json::string_view text, json::error_code& ec) {
    const bool fits = value <= kMaxOffset;
    return number(fits ? static_cast<std::int64_t>(value) : 0, fits, text, ec);
  }
  bool on_double(double, json::string_view text, json::error_code& ec) { return number(0, false, text, ec); }
  bool on_bool(bool, json::error_code& ec) { return scalar("true or false", ec); }
  bool on_null(json::error_code& ec) { return scalar("null", ec); }

 private:
  static constexpr char kNoObject[] = "not a JSON object";

  /// A value in the place of an entry.
  bool stray_value(std::string_view kind) {
    entry_.begin(key_);
    entry_.malformed(fmt::format("is described by {}, not by an object", kind));
    return true;
  }
  void unexpected(std::string_view kind) {
    entry_.malformed(fmt::format("has {} in \"{}\", which does not belong there", kind, key_));
  }
  EntryChecker::Numbers* numbers_field() {
    if (in_metadata_) return nullptr;
    return key_ == "shape" ? &entry_.shape : key_ == "data_offsets" ? &entry_.offsets : nullptr;
  }
  /// `text` is how the number is written, from the last part on.
  bool number(std::int64_t value, bool fits, json::string_view text, json::error_code& ec) {
    const std::string written = std::exchange(number_, {}).append(text.data(), text.size());
    if (numbers_ == nullptr || depth_ != 3) return scalar("a number", ec);
    numbers_->add(value, fits, written);
    return true;
  }
  bool scalar(std::string_view kind, json::error_code& ec) {
    if (depth_ == 0) return refuse(ec, kNoObject);
    if (depth_ == 1) return stray_value(kind);
    unexpected(kind);
    return true;
  }

  SafetensorsHeader& header_;
  EntryChecker entry_;
  EntryChecker::Numbers* numbers_ = nullptr;
  std::string key_, number_;
  int depth_ = 0;
  bool in_metadata_ = false;
};

/// Finds overlaps and gaps; `tensors` are sorted by place. Tensors without a place are empty here, and
/// gaps are looked for only where every entry has its place: else each such entry would show as one.
void check_coverage(SafetensorsHeader& header, HeaderOptions options) {
  const bool all_placed = std::ranges::none_of(header.problems, [](const HeaderProblem& p) {
    return p.fault == HeaderFault::Malformed || p.fault == HeaderFault::Duplicate ||
           p.fault == HeaderFault::Offsets;
  });
  std::uint64_t covered = header.data_begin;
  const TensorInfo* last = nullptr;
  for (const TensorInfo& t : header.tensors) {
    if (t.bytes() == 0) continue;
    if (t.begin < covered) {
      header.problems.push_back(
          {HeaderFault::Overlap, t.name, fmt::format("shares bytes with tensor '{}'", last->name)});
    } else if (t.begin > covered && all_placed) {
      header.problems.push_back(
          {HeaderFault::Gap, t.name,
           fmt::format("follows {} bytes that belong to no tensor", t.begin - covered)});
    }
    if (t.end > covered) covered = t.end, last = &t;
  }
  if (header.file_size > covered && all_placed && !options.header_prefix) {
    header.problems.push_back(
        {HeaderFault::Gap, last != nullptr ? last->name : "",
         fmt::format("{}is followed by {} bytes that belong to no tensor",
                     header.tensors.empty() ? "names no tensor, but " : "", header.file_size - covered)});
  }
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::uint64_t file_size,
                                                   HeaderOptions options) {
  SafetensorsHeader header;
  header.data_begin = 8 + text.size();
  header.file_size = file_size;
  header.fingerprint = std::hash<std::string_view>()(text);
  json::basic_parser<HeaderHandler> parser(strict_options(), header, options);
  FLOW_TRY(parse_events(parser, text).in("header"));
  const auto by_place = [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  };
  std::stable_sort(header.tensors.begin(), header.tensors.end(), by_place);
  check_coverage(header, options);
  return header;
}

namespace {

Result<std::string> header_text(const InputFile& file) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length)
    return errorf("{}: {} bytes are too few for a safetensors file (incomplete download?)",
                  file.path().string(), file.size());
  FLOW_TRY(file.read(0, std::as_writable_bytes(std::span(&length, 1))));
  static_assert(std::endian::native == std::endian::little, "the length is little-endian");
  if (length > file.size() - sizeof length)
    return errorf(
        "{}: the header claims {} bytes, but the file has only {} (not a safetensors file, or an "
        "incomplete download)",
        file.path().string(), length, file.size());
  if (length > kMaxHeaderBytes)
    return errorf("{}: the header claims {} bytes, more than the {} allowed", file.path().string(), length,
                  kMaxHeaderBytes);
  if (length < 2)
    return errorf("{}: the header of {} bytes holds no JSON object", file.path().string(), length);
  std::string text(length, '\0');
  FLOW_TRY(file.read(sizeof length, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

Result<std::string> read_header_text(const std::filesystem::path& path) {
  FLOW_ASSIGN(const std::unique_ptr<InputFile> file, InputFile::open(path));
  return header_text(*file);
}

Result<SafetensorsHeader> read_safetensors_header(const InputFile& file, HeaderOptions options) {
  FLOW_ASSIGN(const std::string text, header_text(file));
  return parse_safetensors_header(text, file.size(), options).in(file.path().string());
}

Result<SafetensorsHeader> read_safetensors_header(const std::filesystem::path& path, HeaderOptions options) {
  FLOW_ASSIGN(const std::unique_ptr<InputFile> file, InputFile::open(path));
  return read_safetensors_header(*file, options);
}

}  // namespace dsv
