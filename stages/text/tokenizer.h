// Byte-level BPE tokenizer read from a `tokenizer.json`: text to token ids and back.
//
// Gives the ids and the text that the `tokenizers` library gives for the same file without special
// tokens added around the text (a pipeline adds BOS itself; see tokenizer_config.h). The stages of
// encoding, in order: added tokens are cut out, the text between them is normalized, split into pieces by
// the pre-tokenizer, and each piece is merged into tokens. `truncation`, `padding` and `post_processor`
// of the file play no part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"
#include "stages/text/utf8.h"

namespace dsv {

/// An immutable tokenizer; all members may be called from several threads at once.
class Tokenizer {
 public:
  /// Reads a tokenizer.json. Errors name the file, and the line and column of malformed JSON or the path of
  /// the field that is missing, has another type or asks for something unsupported.
  static flow::Result<std::shared_ptr<const Tokenizer>> load(const std::filesystem::path& tokenizer_json);

  /// The same from the text of such a file.
  static flow::Result<std::shared_ptr<const Tokenizer>> parse(std::string_view json);

  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer();

  /// Ids of `utf8`; text that spells an added token becomes that token. Fails when `utf8` is not UTF-8,
  /// naming the offset of the first bad byte.
  flow::Result<std::vector<std::int32_t>> encode(std::string_view utf8) const;

  /// Text of `ids`. Ids without a token are skipped, special tokens too when `skip_special`; bytes that are
  /// not UTF-8 become U+FFFD.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  /// One more than the largest id of the file.
  std::int32_t vocab_size() const;

  /// Id of the token spelled `text` in the file: an added token's content, or a vocabulary entry in its
  /// byte-level alphabet ("Ġthe").
  std::optional<std::int32_t> id_of(std::string_view text) const;

  /// Spelling of `id` in the file; nothing when no token has that id.
  std::optional<std::string_view> token(std::int32_t id) const;

  /// Bytes that `id` adds to the decoded text, which may end in the middle of a character; empty when no
  /// token has that id.
  std::string bytes(std::int32_t id) const;

  /// True for added tokens marked special, the ones that decode() can skip.
  bool is_special(std::int32_t id) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

/// Decodes token by token: the texts returned, concatenated, are decode() of all ids.
class StreamDecoder {
 public:
  StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special);

  /// Adds a token and returns the text that is complete now. The bytes of a character that later tokens
  /// may still complete wait; bytes that nothing can complete become U+FFFD.
  std::string push(std::int32_t id);

  /// Ends the text: bytes still waiting become U+FFFD. The decoder can then start another text.
  std::string flush();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  Utf8Repair repair_;
};

}  // namespace dsv
