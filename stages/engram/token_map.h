// Engram's compressed vocabulary: tokens whose text differs only in case, accents, width or kind of
// white space share one class, so that n-grams of them share table rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "stages/text/tokenizer.h"

namespace dsv {

/// Class of every token id. Classes are numbered 0, 1, ... in order of first appearance.
struct TokenMap {
  std::vector<std::int32_t> class_of;  ///< [vocab_size]
  std::int32_t classes = 0;            ///< number of distinct classes
};

/// Key under which a token is classed. The text of the token, alone and with special tokens kept, is put
/// through NFKC, NFD, removal of marks, lower case, runs of blanks to one space, and trimming, where a
/// lone space survives. A token that is not whole characters, or that becomes empty, keeps its own spelling
/// or text.
flow::Result<std::string> token_key(const Tokenizer& tokenizer, std::int32_t id);

/// Classes of all ids below tokenizer.vocab_size().
flow::Result<TokenMap> build_token_map(const Tokenizer& tokenizer);

}  // namespace dsv
