#include "stages/text/bpe.h"

#include <unicode/utf16.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <utility>

#include "stages/text/utf8.h"

namespace dsv {

using flow::Result;
using flow::Status;

namespace {

// Pieces whose tokens one call remembers, and the longest of them in code units.
constexpr std::size_t kRememberedPieces = 1 << 16;
constexpr std::size_t kRememberedLength = 64;

}  // namespace

// ---- tables

TokenIndex::TokenIndex(const std::vector<std::string_view>& tokens, std::size_t count)
    : slots_(std::bit_ceil(2 * count + 1)) {
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].data() == nullptr) continue;
    const auto hash = static_cast<std::uint32_t>(std::hash<std::string_view>()(tokens[id]));
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].id != -1) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {hash, static_cast<std::int32_t>(id)};
  }
}

std::optional<std::int32_t> TokenIndex::find(std::string_view token,
                                             const std::vector<std::string_view>& tokens) const {
  const auto hash = static_cast<std::uint32_t>(std::hash<std::string_view>()(token));
  for (std::size_t at = hash & (slots_.size() - 1); slots_[at].id != -1; at = (at + 1) & (slots_.size() - 1))
    if (slots_[at].hash == hash && tokens[slots_[at].id] == token) return slots_[at].id;
  return std::nullopt;
}

MergeTable::MergeTable(std::size_t count) : slots_(std::bit_ceil(2 * count + 1)) {}

std::size_t MergeTable::slot_of(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair =
      std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = (pair * 0x9E3779B97F4A7C15u >> 32) & mask;
  while (slots_[at].left != -1 && (slots_[at].left != left || slots_[at].right != right))
    at = (at + 1) & mask;
  return at;
}

void MergeTable::put(std::int32_t left, std::int32_t right, Merge merge) {
  slots_[slot_of(left, right)] = {left, right, merge};
}

Merge MergeTable::find(std::int32_t left, std::int32_t right) const {
  return slots_[slot_of(left, right)].merge;
}

/// Merges the tokens of one piece, lowest rank first and leftmost among equals. Keeps its memory for the next
/// piece.
class Bpe::Merger {
 public:
  explicit Merger(const MergeTable& table) : table_(table) {}

  std::vector<std::int32_t>& input() { return input_; }

  /// Merges input() and appends the result to `ids`.
  void run(std::vector<std::int32_t>& ids) {
    const auto size = static_cast<std::int32_t>(input_.size());
    symbols_.clear();
    for (std::int32_t i = 0; i < size; ++i)
      symbols_.push_back({input_[i], i - 1, i + 1 < size ? i + 1 : kNone});
    for (std::int32_t i = 0; i + 1 < size; ++i) propose(i);
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      if (holds(best)) merge(best);
    }
    for (std::int32_t i = size > 0 ? 0 : kNone; i != kNone; i = symbols_[i].next)
      ids.push_back(symbols_[i].id);
  }

 private:
  static constexpr std::int32_t kNone = -1;
  struct Symbol {
    std::int32_t id;  // kNone once merged into the symbol before
    std::int32_t previous, next;
  };
  struct Candidate {
    std::int32_t rank, at, left, right, id;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };

  void propose(std::int32_t at) {
    const std::int32_t left = symbols_[at].id, right = symbols_[symbols_[at].next].id;
    const Merge merge = table_.find(left, right);
    if (merge.rank >= 0) queue_.push({merge.rank, at, left, right, merge.id});
  }

  bool holds(const Candidate& candidate) const {
    const Symbol& symbol = symbols_[candidate.at];
    return symbol.id == candidate.left && symbol.next != kNone && symbols_[symbol.next].id == candidate.right;
  }

  void merge(const Candidate& candidate) {
    Symbol& symbol = symbols_[candidate.at];
    Symbol& absorbed = symbols_[symbol.next];
    symbol.id = candidate.id;
    symbol.next = absorbed.next;
    absorbed.id = kNone;
    if (symbol.next != kNone) {
      symbols_[symbol.next].previous = candidate.at;
      propose(candidate.at);
    }
    if (symbol.previous != kNone) propose(symbol.previous);
  }

  const MergeTable& table_;
  std::vector<std::int32_t> input_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue_;
};

// ---- reading

Result<Bpe> Bpe::read(const JsonNode& model) {
  if (const std::optional<JsonNode> type_node = model.find("type")) {
    FLOW_ASSIGN(const std::string type, type_node->string());
    if (type != "BPE") return type_node->error(fmt::format("model '{}' is not supported; BPE is", type));
  }
  Bpe bpe;
  FLOW_ASSIGN(const JsonNode vocab, model.at("vocab"));
  FLOW_TRY(bpe.read_vocab(vocab));
  FLOW_ASSIGN(const JsonNode merges, model.at("merges"));
  FLOW_TRY(bpe.read_merges(merges));
  FLOW_TRY(bpe.read_options(model));
  bpe.low_chars_.fill(-1);
  for (char32_t c = 0; c < bpe.low_chars_.size(); ++c)
    bpe.low_chars_[c] = bpe.id_of(to_utf8(std::u16string(1, static_cast<char16_t>(c)))).value_or(-1);
  return bpe;
}

Status Bpe::read_vocab(const JsonNode& vocab) {
  FLOW_ASSIGN(const boost::json::object* entries, vocab.object());
  std::size_t bytes = 0;
  std::int64_t end = 0;
  for (const auto& [token, value] : *entries) {
    const std::int64_t* id = value.if_int64();
    if (id == nullptr || *id < 0 || *id >= kMaxTokens)
      return vocab.error(
          fmt::format("the id of '{}' is not a whole number below {}", std::string_view(token), kMaxTokens));
    bytes += token.size();
    end = std::max(end, *id + 1);
  }
  spellings_.reserve(bytes + 1);  // never moves: the views stay valid
  tokens_.resize(static_cast<std::size_t>(end));
  for (const auto& [token, value] : *entries) {
    const auto id = static_cast<std::int32_t>(value.get_int64());
    const std::string_view spelling(spellings_.data() + spellings_.size(), token.size());
    spellings_.insert(spellings_.end(), token.begin(), token.end());
    if (tokens_[id].data() != nullptr)
      return vocab.error(fmt::format("id {} is given to '{}' and to '{}'", id, tokens_[id], spelling));
    tokens_[id] = spelling;
  }
  index_ = TokenIndex(tokens_, entries->size());
  return Status();
}

namespace {

/// The two tokens of an element of "merges"; an error text when it has another form.
Result<std::pair<std::string_view, std::string_view>> split_merge(const boost::json::value& value) {
  if (const auto* pair = value.if_array(); pair && pair->size() == 2) {
    const auto *left = (*pair)[0].if_string(), *right = (*pair)[1].if_string();
    if (left && right) return std::pair(std::string_view(*left), std::string_view(*right));
  } else if (const auto* line = value.if_string()) {
    const std::string_view text(*line);
    const std::size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos)
      return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  return Status::error("expected two tokens, as \"a b\" or [\"a\", \"b\"]");
}

bool is_version_line(const boost::json::value& value) {
  const auto* line = value.if_string();
  return line != nullptr && std::string_view(*line).starts_with("#version");
}

}  // namespace

Status Bpe::read_merges(const JsonNode& merges) {
  FLOW_ASSIGN(const boost::json::array* list, merges.array());
  merges_ = MergeTable(list->size());
  std::int32_t rank = 0;
  for (std::size_t i = 0; i < list->size(); ++i)
    if (!is_version_line((*list)[i]))
      if (Status read = read_merge((*list)[i], rank++); !read.ok())
        return read.in(fmt::format("{}[{}]", merges.path(), i));
  return Status();
}

Status Bpe::read_merge(const boost::json::value& value, std::int32_t rank) {
  FLOW_ASSIGN(const auto pair, split_merge(value));
  FLOW_ASSIGN(const std::int32_t left, known(pair.first));
  FLOW_ASSIGN(const std::int32_t right, known(pair.second));
  FLOW_ASSIGN(const std::int32_t joined, known(std::string(pair.first).append(pair.second)));
  merges_.put(left, right, {rank, joined});
  return Status();
}

Result<std::int32_t> Bpe::known(std::string_view token) const {
  if (const std::optional<std::int32_t> id = id_of(token)) return *id;
  return flow::errorf("'{}' is not in the vocabulary", token);
}

Status Bpe::read_options(const JsonNode& model) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::optional<JsonNode> affix = model.find(key);
    if (!affix) continue;
    FLOW_ASSIGN(const std::string text, affix->string());
    if (!text.empty()) return affix->error("not supported");
  }
  if (const std::optional<JsonNode> dropout = model.find("dropout");
      dropout && !(dropout->value().is_number() && dropout->value().to_number<double>() == 0))
    return dropout->error("not supported");
  if (const std::optional<JsonNode> node = model.find("unk_token")) {
    FLOW_ASSIGN(const std::string token, node->string());
    FLOW_ASSIGN(unknown_, known(token).in(node->path()));
  }
  FLOW_ASSIGN(fuse_unknown_, model.boolean_or("fuse_unk", false));
  FLOW_ASSIGN(byte_fallback_, model.boolean_or("byte_fallback", false));
  FLOW_ASSIGN(ignore_merges_, model.boolean_or("ignore_merges", false));
  return Status();
}

// ---- encoding

void Bpe::encode(std::u16string_view text, const std::vector<Span>& pieces,
                 std::vector<std::int32_t>& ids) const {
  std::unordered_map<std::u16string_view, std::pair<std::size_t, std::size_t>> seen;  // where in ids
  Merger merger(merges_);
  for (const Span& span : pieces) {
    const std::u16string_view piece = text.substr(span.begin, span.size());
    const std::size_t begin = ids.size();
    if (const auto known = seen.find(piece); known != seen.end()) {
      const auto [from, to] = known->second;
      ids.resize(begin + (to - from));
      std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(from), to - from,
                  ids.begin() + static_cast<std::ptrdiff_t>(begin));
      continue;
    }
    encode_piece(piece, merger, ids);
    if (piece.size() <= kRememberedLength && seen.size() < kRememberedPieces)
      seen.emplace(piece, std::pair(begin, ids.size()));
  }
}

void Bpe::encode_piece(std::u16string_view piece, Merger& merger, std::vector<std::int32_t>& ids) const {
  if (ignore_merges_) {
    if (const std::optional<std::int32_t> whole = id_of(to_utf8(piece))) {
      ids.push_back(*whole);
      return;
    }
  }
  merger.input().clear();
  append_characters(piece, merger.input());
  merger.run(ids);
}

void Bpe::append_characters(std::u16string_view piece, std::vector<std::int32_t>& ids) const {
  bool unknown_waits = false;  // an unknown token that the next unknown character may join
  for (std::size_t i = 0; i < piece.size();) {
    UChar32 c = 0;
    U16_NEXT(piece.data(), i, piece.size(), c);
    const std::optional<std::int32_t> id = id_of_char(static_cast<char32_t>(c));
    if (!id && byte_fallback_ && append_bytes(static_cast<char32_t>(c), ids)) continue;
    if (unknown_waits && (id || !fuse_unknown_)) ids.push_back(*unknown_);
    unknown_waits = !id && unknown_;
    if (id) ids.push_back(*id);
  }
  if (unknown_waits) ids.push_back(*unknown_);
}

std::optional<std::int32_t> Bpe::id_of_char(char32_t c) const {
  if (c >= low_chars_.size()) return id_of(to_utf8(c));
  return low_chars_[c] < 0 ? std::nullopt : std::optional(low_chars_[c]);
}

/// Appends the tokens <0xNN> of the UTF-8 bytes of `c`, if the vocabulary has all of them.
bool Bpe::append_bytes(char32_t c, std::vector<std::int32_t>& ids) const {
  std::vector<std::int32_t> tokens;
  for (const char byte : to_utf8(c)) {
    const std::optional<std::int32_t> id = id_of(fmt::format("<0x{:02X}>", static_cast<std::uint8_t>(byte)));
    if (!id) return false;
    tokens.push_back(*id);
  }
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  return true;
}

}  // namespace dsv
