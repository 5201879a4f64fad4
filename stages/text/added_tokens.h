// Added tokens: spellings that are found in the text itself, before it is split and merged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stages/text/regex.h"

namespace dsv {

/// One entry of `added_tokens`.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  ///< not found next to a word character
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space after it
  bool normalized = false;   ///< looked for in the normalized text
  bool special = false;      ///< may be left out of decoded text
};

/// Finds added tokens in a text; of those that start at one place the longest wins.
class AddedTokenMatcher {
 public:
  /// Looks for `spelling` (not empty) and reports `token`, whose flags apply. A spelling given twice finds
  /// the later.
  void add(std::u16string_view spelling, const AddedToken& token);

  /// A stretch of the text: an added token, or text between them.
  struct Part {
    Span span;
    std::optional<std::int32_t> id;
  };
  /// Cuts `text` into parts, in order.
  std::vector<Part> split(std::u16string_view text) const;

 private:
  struct Rule {
    std::int32_t id;
    bool single_word, lstrip, rstrip;
  };
  struct Match {
    Span span;
    const Rule* rule = nullptr;
  };
  Match longest_at(std::u16string_view text, std::size_t at) const;
  std::vector<Match> find_all(std::u16string_view text) const;

  // Trie over code units; node 0 is the root, children are found by (node, unit).
  std::unordered_map<std::uint64_t, std::uint32_t> children_;
  std::vector<std::optional<Rule>> nodes_{std::nullopt};
  std::vector<bool> starts_ = std::vector<bool>(0x10000);  // units that begin a spelling
};

}  // namespace dsv
