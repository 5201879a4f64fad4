#include "stages/text/tokenizer.h"

#include <map>
#include <utility>

#include "stages/model/json.h"
#include "stages/text/added_tokens.h"
#include "stages/text/bpe.h"
#include "stages/text/byte_alphabet.h"
#include "stages/text/json_node.h"
#include "stages/text/normalizer.h"
#include "stages/text/pre_tokenizer.h"

namespace dsv {

using flow::errorf;
using flow::Result;
using flow::Status;

namespace {

constexpr std::size_t kMaxTextBytes = 256u << 20;  // keeps every later form below 2^31 code units

Result<AddedToken> read_added_token(const JsonNode& node) {
  AddedToken token;
  FLOW_ASSIGN(const JsonNode id_node, node.at("id"));
  FLOW_ASSIGN(const std::int64_t id, id_node.integer());
  if (id < 0 || id >= kMaxTokens) return id_node.error(fmt::format("not below {}", kMaxTokens));
  token.id = static_cast<std::int32_t>(id);
  FLOW_ASSIGN(const JsonNode content_node, node.at("content"));
  FLOW_ASSIGN(token.content, content_node.string());
  FLOW_ASSIGN(token.single_word, node.boolean_or("single_word", false));
  FLOW_ASSIGN(token.lstrip, node.boolean_or("lstrip", false));
  FLOW_ASSIGN(token.rstrip, node.boolean_or("rstrip", false));
  FLOW_ASSIGN(token.special, node.boolean_or("special", false));
  FLOW_ASSIGN(token.normalized, node.boolean_or("normalized", !token.special));
  return token;
}

/// Byte-level decoding is the only kind here: alone, or alone in a sequence.
Status check_decoder(const JsonNode& node) {
  FLOW_ASSIGN(const JsonNode type_node, node.at("type"));
  FLOW_ASSIGN(const std::string type, type_node.string());
  if (type == "ByteLevel") return Status();
  if (type != "Sequence")
    return type_node.error(fmt::format("decoder '{}' is not supported; ByteLevel is", type));
  FLOW_ASSIGN(const JsonNode list, node.at("decoders"));
  FLOW_ASSIGN(const std::vector<JsonNode> members, list.elements());
  if (members.size() != 1) return list.error("expected one decoder, ByteLevel");
  return check_decoder(members.front());
}

}  // namespace

struct Tokenizer::Impl {
  /// A tokenizer made from the contents of its file.
  static Result<std::shared_ptr<const Tokenizer>> build(const boost::json::value& json);

  explicit Impl(Bpe model) : bpe(std::move(model)), tokens(bpe.tokens()), special(tokens.size()) {}

  Status read(const JsonNode& root);
  Status read_added_tokens(const JsonNode& list);
  Status add(const AddedToken& token);
  Status encode_text(std::u16string text, std::vector<std::int32_t>& ids) const;
  Status encode_normalized(std::u16string_view text, std::vector<std::int32_t>& ids) const;

  Bpe bpe;
  Normalizer normalize;             // may be empty
  PreTokenizer pre_tokenize;        // may be empty
  AddedTokenMatcher in_text;        // added tokens to find in the text as it is
  AddedTokenMatcher in_normalized;  // and in the normalized text
  std::map<std::string, std::int32_t, std::less<>> added;
  std::vector<std::string_view>
      tokens;                 // by id, of the vocabulary and added; without data where there is none
  std::vector<bool> special;  // by id
};

Status Tokenizer::Impl::read(const JsonNode& root) {
  if (const std::optional<JsonNode> node = root.find("normalizer")) {
    FLOW_ASSIGN(normalize, make_normalizer(*node));
  }
  if (const std::optional<JsonNode> node = root.find("pre_tokenizer")) {
    FLOW_ASSIGN(pre_tokenize, make_pre_tokenizer(*node));
  }
  FLOW_ASSIGN(const JsonNode decoder, root.at("decoder"));
  FLOW_TRY(check_decoder(decoder));
  const std::optional<JsonNode> list = root.find("added_tokens");
  return list ? read_added_tokens(*list) : Status();
}

Status Tokenizer::Impl::read_added_tokens(const JsonNode& list) {
  FLOW_ASSIGN(const std::vector<JsonNode> nodes, list.elements());
  for (const JsonNode& node : nodes) {
    FLOW_ASSIGN(const AddedToken token, read_added_token(node));
    if (!token.content.empty()) FLOW_TRY(add(token).in(node.path()));
  }
  return Status();
}

Status Tokenizer::Impl::add(const AddedToken& token) {
  if (const std::optional<std::int32_t> id = bpe.id_of(token.content); id && *id != token.id)
    return errorf("'{}' has id {} here and {} in the vocabulary", token.content, token.id, *id);
  const auto entry = added.insert_or_assign(token.content, token.id).first;
  const auto index = static_cast<std::size_t>(token.id);
  if (index >= tokens.size()) {
    tokens.resize(index + 1);
    special.resize(index + 1);
  }
  if (tokens[index].data() != nullptr && tokens[index] != token.content)
    return errorf("id {} is given to '{}' and to '{}'", token.id, tokens[index], token.content);
  tokens[index] = entry->first;
  special[index] = token.special;
  std::u16string spelling = to_utf16(token.content);
  if (token.normalized && normalize) FLOW_TRY(normalize(spelling));
  if (!spelling.empty()) (token.normalized ? in_normalized : in_text).add(spelling, token);
  return Status();
}

Status Tokenizer::Impl::encode_text(std::u16string text, std::vector<std::int32_t>& ids) const {
  if (normalize) FLOW_TRY(normalize(text));
  for (const AddedTokenMatcher::Part& part : in_normalized.split(text)) {
    if (part.id) {
      ids.push_back(*part.id);
    } else {
      FLOW_TRY(encode_normalized(std::u16string_view(text).substr(part.span.begin, part.span.size()), ids));
    }
  }
  return Status();
}

Status Tokenizer::Impl::encode_normalized(std::u16string_view text, std::vector<std::int32_t>& ids) const {
  Pieces pieces{std::u16string(text), {{0, static_cast<std::int32_t>(text.size())}}};
  if (pre_tokenize) FLOW_TRY(pre_tokenize(pieces));
  bpe.encode(pieces.text, pieces.spans, ids);
  return Status();
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Impl::build(const boost::json::value& json) {
  const JsonNode root(json);
  FLOW_ASSIGN(const JsonNode model, root.at("model"));
  FLOW_ASSIGN(Bpe bpe, Bpe::read(model));
  auto impl = std::make_unique<Impl>(std::move(bpe));
  FLOW_TRY(impl->read(root));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::filesystem::path& tokenizer_json) {
  FLOW_ASSIGN(const boost::json::value json, load_json(tokenizer_json));
  return Impl::build(json).in(tokenizer_json.string());
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse(std::string_view json_text) {
  FLOW_ASSIGN(const boost::json::value json, parse_json(json_text));
  return Impl::build(json);
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view utf8) const {
  if (utf8.size() > kMaxTextBytes)
    return errorf("the text has {} bytes; at most {} are encoded at once", utf8.size(), kMaxTextBytes);
  if (const std::optional<std::size_t> bad = find_malformed_utf8(utf8))
    return errorf("the text is not UTF-8: bad byte 0x{:02X} at offset {}",
                  static_cast<std::uint8_t>(utf8[*bad]), *bad);
  const std::u16string text = to_utf16(utf8);
  std::vector<std::int32_t> ids;
  for (const AddedTokenMatcher::Part& part : impl_->in_text.split(text)) {
    if (part.id) {
      ids.push_back(*part.id);
    } else {
      FLOW_TRY(impl_->encode_text(text.substr(part.span.begin, part.span.size()), ids));
    }
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string text;
  Utf8Repair repair;
  for (const std::int32_t id : ids)
    if (!skip_special || !is_special(id)) repair.push(bytes(id), text);
  repair.finish(text);
  return text;
}

std::int32_t Tokenizer::vocab_size() const {
  return static_cast<std::int32_t>(impl_->tokens.size());
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view text) const {
  const auto found = impl_->added.find(text);
  return found != impl_->added.end() ? std::optional(found->second) : impl_->bpe.id_of(text);
}

std::optional<std::string_view> Tokenizer::token(std::int32_t id) const {
  if (id < 0 || id >= vocab_size() || impl_->tokens[id].data() == nullptr) return std::nullopt;
  return impl_->tokens[id];
}

std::string Tokenizer::bytes(std::int32_t id) const {
  return bytes_of_spelling(token(id).value_or(""));
}

bool Tokenizer::is_special(std::int32_t id) const {
  return id >= 0 && id < vocab_size() && impl_->special[id];
}

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string StreamDecoder::push(std::int32_t id) {
  std::string text;
  if (!skip_special_ || !tokenizer_->is_special(id)) repair_.push(tokenizer_->bytes(id), text);
  return text;
}

std::string StreamDecoder::flush() {
  std::string text;
  repair_.finish(text);
  return text;
}

}  // namespace dsv
