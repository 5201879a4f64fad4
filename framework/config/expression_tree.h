// Syntax tree of an expression; private to framework/config.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "framework/core/status.h"

namespace flow::config {

/// Limits against hostile files; nesting bounds the recursion of parser and evaluation.
inline constexpr std::size_t kMaxExpressionLength = 2000;
inline constexpr int kMaxExpressionDepth = 50;

struct Expression {
  enum class Kind { literal, name, member, index, negate, logical_not, binary };

  Kind kind = Kind::literal;
  boost::json::value literal;
  std::string text;  ///< name, member name, or operator of a binary expression
  std::vector<Expression> operands;
};

Result<Expression> parse_expression(std::string_view text);

}  // namespace flow::config
