// Byte pair encoding: a vocabulary and the ranked merges that build its entries from single characters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/core/status.h"
#include "stages/text/json_node.h"
#include "stages/text/regex.h"

namespace dsv {

/// Ids in a file must be below this: tables by id are made as large as the largest id asks.
inline constexpr std::int32_t kMaxTokens = 1 << 22;

/// A merge of two tokens: the smaller the rank, the earlier it is done.
struct Merge {
  std::int32_t rank = -1;  // -1: the two do not merge
  std::int32_t id = 0;     // the token made
};

/// Merges by pair of token ids: an open-addressing table.
class MergeTable {
 public:
  explicit MergeTable(std::size_t count);
  /// Adds the merge of a pair, or replaces it.
  void put(std::int32_t left, std::int32_t right, Merge merge);
  Merge find(std::int32_t left, std::int32_t right) const;

 private:
  struct Slot {
    std::int32_t left = -1, right = -1;
    Merge merge;
  };
  std::size_t slot_of(std::int32_t left, std::int32_t right) const;

  std::vector<Slot> slots_;  // power of two, at most half full
};

/// Token ids by spelling: an open-addressing table that leaves the spellings where they are.
class TokenIndex {
 public:
  /// `tokens` are the spellings by id, `count` of them not null.
  TokenIndex(const std::vector<std::string_view>& tokens, std::size_t count);
  std::optional<std::int32_t> find(std::string_view token, const std::vector<std::string_view>& tokens) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;
  };
  std::vector<Slot> slots_;  // power of two, at most half full
};

/// The `model` of a tokenizer file, of type BPE.
class Bpe {
 public:
  /// Reads "vocab", "merges" (as "a b" strings or [a, b] pairs) and the options. Dropout, subword prefixes
  /// and suffixes are refused.
  static flow::Result<Bpe> read(const JsonNode& model);

  Bpe(Bpe&&) = default;
  Bpe& operator=(Bpe&&) = default;

  std::optional<std::int32_t> id_of(std::string_view token) const { return index_.find(token, tokens_); }
  /// Entries by id; without data where the vocabulary has none.
  const std::vector<std::string_view>& tokens() const { return tokens_; }

  /// Appends the tokens of each piece of `text`. Takes time n log n in the length of a piece.
  void encode(std::u16string_view text, const std::vector<Span>& pieces,
              std::vector<std::int32_t>& ids) const;

 private:
  Bpe() : index_(tokens_, 0), merges_(0) {}
  flow::Status read_vocab(const JsonNode& vocab);
  flow::Status read_merges(const JsonNode& merges);
  flow::Status read_merge(const boost::json::value& value, std::int32_t rank);
  flow::Status read_options(const JsonNode& model);
  flow::Result<std::int32_t> known(std::string_view token) const;

  class Merger;
  void encode_piece(std::u16string_view piece, Merger& merger, std::vector<std::int32_t>& ids) const;
  void append_characters(std::u16string_view piece, std::vector<std::int32_t>& ids) const;
  std::optional<std::int32_t> id_of_char(char32_t c) const;
  bool append_bytes(char32_t c, std::vector<std::int32_t>& ids) const;

  std::vector<char> spellings_;  // what the views below look at
  std::vector<std::string_view> tokens_;
  TokenIndex index_;
  MergeTable merges_;
  // Ids of the characters below U+0200, the byte alphabet among them; -1: none.
  std::array<std::int32_t, 0x200> low_chars_{};
  std::optional<std::int32_t> unknown_;
  bool fuse_unknown_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;
};

}  // namespace dsv
