#include "stages/audit/shard_set.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "stages/model/file.h"

namespace dsv {

namespace fs = std::filesystem;
using flow::errorf;
using flow::Result;
using flow::Status;

namespace {

/// Whether the first bytes can be a header length and the start of a JSON object.
bool looks_like_shard(const fs::path& path) {
  if (path.extension() == ".safetensors") return true;
  const auto file = InputFile::open(path);
  std::byte start[9];
  if (!file.ok() || (*file)->size() < sizeof start || !(*file)->read(0, start).ok()) return false;
  std::uint64_t length = 0;
  std::memcpy(&length, start, sizeof length);
  return length >= 2 && length <= kMaxHeaderBytes && start[8] == std::byte{'{'};
}

}  // namespace

/// The steps of ShardSet::scan.
class ShardScanner {
 public:
  ShardScanner(fs::path folder, const ShardSetOptions& options)
      : folder_(std::move(folder)), options_(options) {}

  Result<ShardSet> scan() {
    if (folder_.empty()) return errorf("the path of the checkpoint is empty; 'demo' is the built-in one");
    FLOW_TRY(read_index());
    FLOW_TRY(read_files());
    mark_duplicates();
    if (set_.index_) assign_shards();
    find_missing();
    collect_tensors();
    return std::move(set_);
  }

 private:
  using State = ShardFile::State;

  Status read_index() {
    std::error_code error;
    const fs::path file = options_.index.empty() ? folder_ / kIndexFile : options_.index;
    if (options_.index.empty() && !fs::exists(file, error)) return {};
    Result<CheckpointIndex> index = load_checkpoint_index(file);
    if (index.ok())
      set_.index_ = *std::move(index);
    else if (options_.index.empty())
      set_.index_error_ = index.status().message();
    else
      return index.status();
    return {};
  }

  Status read_files() {
    std::vector<fs::path> paths;
    std::error_code error;
    for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error))
      if (it->is_regular_file() && looks_like_shard(it->path())) paths.push_back(it->path());
    if (error) return errorf("{}: cannot list: {}", folder_.string(), error.message());
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      if (options_.cancelled && options_.cancelled()) return {};
      read_file(path);
      if (options_.progress) options_.progress(set_.files_.size(), paths.size());
    }
    return {};
  }

  void read_file(const fs::path& path) {
    ShardFile file;
    file.path = path;
    file.shard = path.filename();
    Result<SafetensorsHeader> header = read_safetensors_header(path, {options_.header_prefix});
    if (header.ok()) {
      file.header = *std::move(header);
    } else {
      file.state = State::Unreadable;
      file.error = header.status().message();
    }
    if (options_.arriving) set_aside(file);
    set_.files_.push_back(std::move(file));
  }

  /// Marks a file that has no whole header, or not the payload that it announces, as Arriving.
  static void set_aside(ShardFile& file) {
    const auto& problems = file.header.problems;
    const auto cut = std::ranges::find(problems, HeaderFault::BeyondFile, &HeaderProblem::fault);
    if (file.state == State::Used && cut == problems.end()) return;
    file.state = State::Arriving;
    if (cut != problems.end()) file.error = cut->text();
  }

  /// Of files with the same header the one with a number in its name counts, else the first.
  void mark_duplicates() {
    std::map<std::uint64_t, const ShardFile*> seen;
    for (const bool in_series : {true, false}) {
      for (ShardFile& file : set_.files_) {
        if (file.state != State::Used || numbered(file.shard).has_value() != in_series) continue;
        const auto [at, added] = seen.emplace(file.header.fingerprint, &file);
        if (added || !same_header(at->second->path, file.path)) continue;
        file.state = State::Duplicate;
        file.error = at->second->path.filename();
      }
    }
  }
  static bool same_header(const fs::path& a, const fs::path& b) {
    const auto left = read_header_text(a), right = read_header_text(b);
    return left.ok() && right.ok() && *left == *right;
  }

  /// Gives each file its name in the index: its own, or, for a file under another name, that of an absent
  /// shard to which the index assigns most of the file's tensors.
  void assign_shards() {
    const auto& shards = set_.index_->shards;
    std::set<std::string_view> taken;
    for (const ShardFile& file : set_.files_)
      if (std::ranges::binary_search(shards, file.shard)) taken.insert(file.shard);
    for (ShardFile& file : set_.files_) {
      if (taken.contains(file.shard) || file.state != State::Used) continue;
      const int shard = majority_shard(file.header);
      if (shard >= 0 && !taken.contains(shards[static_cast<std::size_t>(shard)])) {
        file.shard = shards[static_cast<std::size_t>(shard)];
        taken.insert(file.shard);
      } else {
        file.state = State::Stray;
      }
    }
  }

  /// Shard of the index that holds more than half of the header's tensors; -1 when there is none.
  int majority_shard(const SafetensorsHeader& header) const {
    std::map<int, std::size_t> votes;
    for (const TensorInfo& tensor : header.tensors) {
      const auto place = set_.index_->shard_of.find(tensor.name);
      if (place != set_.index_->shard_of.end() && ++votes[place->second] * 2 > header.tensors.size())
        return place->second;
    }
    return -1;
  }

  void find_missing() {
    std::vector<std::string> names;
    std::set<std::string> at_hand;
    for (const ShardFile& file : set_.files_) {
      names.push_back(file.shard);
      if (file.state == State::Used) at_hand.insert(file.shard);
    }
    const std::vector<std::string> expected = set_.index_ ? set_.index_->shards : series_of(names);
    std::ranges::set_difference(expected, at_hand, std::back_inserter(set_.missing_));
  }

  void collect_tensors() {
    std::size_t count = 0;
    for (const ShardFile& file : set_.files_) count += file.header.tensors.size();
    set_.at_hand_.reserve(count);
    for (std::size_t i = 0; i < set_.files_.size(); ++i) {
      ShardFile& file = set_.files_[i];
      if (file.state != State::Used) continue;
      for (TensorInfo& tensor : file.header.tensors) {
        tensor.shard = static_cast<int>(i);
        if (!assigned_here(tensor, file)) continue;
        const auto [at, added] = set_.at_hand_.emplace(tensor.name, &tensor);
        if (!added)
          set_.conflicts_.push_back(fmt::format("{} ({}, {})", tensor.name,
                                                set_.file_of(*at->second).path.filename().string(),
                                                file.path.filename().string()));
      }
    }
  }
  bool assigned_here(const TensorInfo& tensor, const ShardFile& file) const {
    if (!set_.index_) return true;
    const auto place = set_.index_->shard_of.find(tensor.name);
    return place != set_.index_->shard_of.end() &&
           set_.index_->shards[static_cast<std::size_t>(place->second)] == file.shard;
  }

  fs::path folder_;
  const ShardSetOptions& options_;
  ShardSet set_;
};

Result<ShardSet> ShardSet::scan(const fs::path& folder, const ShardSetOptions& options) {
  return ShardScanner(folder, options).scan();
}

bool ShardSet::complete() const {
  const auto is = [](ShardFile::State state) {
    return [state](const ShardFile& file) { return file.state == state; };
  };
  return missing_.empty() && std::ranges::any_of(files_, is(ShardFile::State::Used)) &&
         std::ranges::none_of(files_, is(ShardFile::State::Arriving));
}

const TensorInfo* ShardSet::find(std::string_view tensor) const {
  const auto at = at_hand_.find(tensor);
  return at == at_hand_.end() ? nullptr : at->second;
}

Presence ShardSet::presence(std::string_view tensor) const {
  if (find(tensor) != nullptr) return Presence::AtHand;
  if (waiting_for(tensor).empty()) return Presence::Absent;
  return index_ ? Presence::Pending : Presence::Unknown;
}

std::span<const std::string> ShardSet::waiting_for(std::string_view tensor) const {
  if (!index_) return missing_;
  const auto place = index_->shard_of.find(tensor);
  if (place == index_->shard_of.end()) return {};
  const std::string& shard = index_->shards[static_cast<std::size_t>(place->second)];
  const bool is_missing = std::ranges::binary_search(missing_, shard);
  return is_missing ? std::span(&shard, 1) : std::span<const std::string>();
}

std::vector<ShardSet::Named> ShardSet::tensors() const {
  std::vector<Named> tensors;
  tensors.reserve(at_hand_.size());
  for (const ShardFile& file : files_)
    for (const TensorInfo& tensor : file.header.tensors)
      if (find(tensor.name) == &tensor) tensors.push_back({tensor.name, &tensor});
  if (!index_) return tensors;
  const auto at_hand = std::ssize(tensors);
  for (const auto& [name, shard] : index_->shard_of)
    if (!at_hand_.contains(name)) tensors.push_back({name, nullptr});
  std::ranges::sort(tensors.begin() + at_hand, tensors.end(), {}, &Named::name);
  return tensors;
}

}  // namespace dsv
