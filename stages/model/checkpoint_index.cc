#include "stages/model/checkpoint_index.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <utility>

#include "stages/model/json_events.h"

namespace dsv {

namespace json = boost::json;
using flow::errorf;
using flow::Result;
using flow::Status;

namespace {

/// Fills an index from {"metadata": {"total_size": n}, "weight_map": {tensor: shard}}; no value is built,
/// because a large model has many tensors.
class IndexHandler : public JsonEvents<IndexHandler> {
 public:
  explicit IndexHandler(CheckpointIndex& index) : index_(index) {}

  bool has_map() const { return has_map_; }

  bool on_object_begin(json::error_code& ec) {
    if (++depth_ == 2) section_ = key_;
    if (depth_ > 2) return entry("an object", ec);
    if (depth_ == 2 && in_map() && std::exchange(has_map_, true))
      refuse(ec, "key 'weight_map' is given twice");
    return !ec;
  }
  bool on_object_end(std::size_t, json::error_code&) {
    if (depth_-- == 2) section_.clear();
    return true;
  }
  bool on_array_begin(json::error_code& ec) {
    ++depth_;
    return entry("a list", ec);
  }
  bool on_array_end(std::size_t, json::error_code&) {
    --depth_;
    return true;
  }
  void key(std::string& text, json::error_code&) { key_.swap(text); }
  void string(std::string& text, json::error_code& ec) {
    if (!in_map() || depth_ != 2) return;
    if (text.empty() || text.find('/') != text.npos || text == ".." || text == ".")
      refuse(ec, fmt::format("weight_map['{}'] = '{}' is not the name of a file in this folder", key_, text));
    else if (!index_.shard_of.emplace(key_, shard_number(text)).second)
      refuse(ec, fmt::format("key '{}' is given twice", key_));
  }
  bool on_int64(std::int64_t value, json::string_view, json::error_code& ec) {
    if (section_ == "metadata" && key_ == "total_size" && value >= 0)
      index_.total_size = static_cast<std::uint64_t>(value);
    return entry("a number", ec);
  }
  bool on_uint64(std::uint64_t, json::string_view, json::error_code& ec) { return entry("a number", ec); }
  bool on_double(double, json::string_view, json::error_code& ec) { return entry("a number", ec); }
  bool on_bool(bool, json::error_code& ec) { return entry("true or false", ec); }
  bool on_null(json::error_code& ec) { return entry("null", ec); }

 private:
  bool in_map() const { return section_ == "weight_map"; }
  /// Anything but a string: only the map cares.
  bool entry(std::string_view kind, json::error_code& ec) {
    if (!in_map()) return true;
    return refuse(ec, fmt::format("weight_map['{}'] is {}, expected the name of a shard", key_, kind));
  }
  int shard_number(const std::string& name) {
    if (!index_.shards.empty() && index_.shards[last_] == name) return static_cast<int>(last_);
    const auto [at, added] = numbers_.emplace(name, index_.shards.size());
    if (added) index_.shards.push_back(name);
    last_ = at->second;
    return static_cast<int>(last_);
  }

  CheckpointIndex& index_;
  NameMap<std::size_t> numbers_;
  std::size_t last_ = 0;
  std::string key_, section_;
  int depth_ = 0;
  bool has_map_ = false;
};

/// Sorts the shards by name, and renumbers the tensors' shards.
void sort_shards(CheckpointIndex& index) {
  std::vector<int> order(index.shards.size()), number(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int i) { return index.shards[static_cast<std::size_t>(i)]; });
  for (std::size_t i = 0; i < order.size(); ++i)
    number[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  for (auto& [tensor, shard] : index.shard_of) shard = number[static_cast<std::size_t>(shard)];
  std::ranges::sort(index.shards);
}

}  // namespace

std::optional<NumberedName> numbered(std::string_view name) {
  constexpr std::string_view suffix = ".safetensors", of = "-of-";
  if (!name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  const std::size_t middle = name.rfind(of), dash = name.rfind('-', middle == 0 ? 0 : middle - 1);
  if (middle == name.npos || dash == name.npos || dash >= middle) return std::nullopt;
  NumberedName parts{std::string(name.substr(0, dash)), 0, 0, middle - dash - 1};
  const auto parse = [](std::string_view text, int& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  };
  constexpr int kMostShards = 10'000;  // a count in a name is not to be believed beyond this
  const bool good = parse(name.substr(dash + 1, parts.digits), parts.number) &&
                    parse(name.substr(middle + of.size()), parts.count) && parts.count <= kMostShards;
  return good ? std::optional(parts) : std::nullopt;
}

std::vector<std::string> series_of(std::span<const std::string> names) {
  std::set<std::string> expected;
  std::set<std::pair<std::string, int>> series;
  for (const std::string& file : names) {
    const auto name = numbered(file);
    if (!name || !series.emplace(name->stem, name->count).second) continue;
    for (int i = 1; i <= name->count; ++i)
      expected.insert(fmt::format("{}-{:0{}}-of-{:0{}}.safetensors", name->stem, i, name->digits, name->count,
                                  name->digits));
  }
  return {expected.begin(), expected.end()};
}

Result<CheckpointIndex> load_checkpoint_index(const std::filesystem::path& file) {
  constexpr std::uint64_t kMaxBytes = 256u << 20;
  FLOW_ASSIGN(const std::string text, read_file(file, kMaxBytes));
  CheckpointIndex index;
  json::basic_parser<IndexHandler> parser(strict_options(), index);
  if (const Status parsed = parse_events(parser, text); !parsed.ok())
    return errorf("{}:{}", file.string(), parsed.message());
  if (!parser.handler().has_map()) return errorf("{}: holds no object 'weight_map'", file.string());
  sort_shards(index);
  return index;
}

}  // namespace dsv
