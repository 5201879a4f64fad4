// Golden JSON files of the tokenizer tests.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stages/model/json.h"
#include "stages/text/tokenizer.h"

namespace dsv {

/// A file of the source tree, which must be there.
inline boost::json::value golden_json(const std::string& path) {
  flow::Result<boost::json::value> value = load_json(std::string(DSV41_SOURCE_DIR) + "/" + path);
  if (!value.ok()) {
    ADD_FAILURE() << value.status().message();
    return nullptr;
  }
  return *std::move(value);
}

/// A tokenizer of the source tree, which must be there and right.
inline std::shared_ptr<const Tokenizer> golden_tokenizer(const std::string& path) {
  auto tokenizer = Tokenizer::load(std::string(DSV41_SOURCE_DIR) + "/" + path);
  if (!tokenizer.ok()) {
    ADD_FAILURE() << tokenizer.status().message();
    return nullptr;
  }
  return *tokenizer;
}

inline std::vector<std::int32_t> ids_of(const boost::json::value& list) {
  return boost::json::value_to<std::vector<std::int32_t>>(list);
}

inline std::string text_of(const boost::json::value& string) {
  return boost::json::value_to<std::string>(string);
}

/// The ids of `text`; a failure of the test when it cannot be encoded.
inline std::vector<std::int32_t> encoded(const Tokenizer& tokenizer, const std::string& text) {
  auto ids = tokenizer.encode(text);
  if (!ids.ok()) ADD_FAILURE() << ids.status().message();
  return ids.ok() ? *ids : std::vector<std::int32_t>();
}

inline constexpr const char* kReleasedTokenizer = "tests/golden/tokenizer/tokenizer.json";
inline constexpr const char* kSmallTokenizer = "tests/golden/a/checkpoint/tokenizer.json";

}  // namespace dsv
