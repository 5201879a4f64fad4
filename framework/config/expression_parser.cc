// Lexer and precedence-climbing parser of expressions.
#include <array>
#include <charconv>

#include "framework/config/expression_tree.h"

namespace flow::config {
namespace {

using Kind = Expression::Kind;

struct Token {
  enum class Kind { end, number, text, name, symbol };
  Kind kind = Kind::end;
  std::string text;

  bool is(std::string_view what) const {
    return (kind == Kind::symbol || kind == Kind::name) && text == what;
  }
};

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

class Lexer {
 public:
  explicit Lexer(std::string_view text) : rest_(text) {}

  Result<Token> next() {
    const auto begin = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(begin == std::string_view::npos ? rest_.size() : begin);
    if (rest_.empty()) return Token{};
    if (rest_[0] == '\'' || rest_[0] == '"') return quoted();
    if (kDigits.find(rest_[0]) != std::string_view::npos) return take(number_length(), Token::Kind::number);
    if (const std::size_t length = run(0, kNameCharacters)) return take(length, Token::Kind::name);
    for (const std::string_view two : {"==", "!=", "<=", ">="}) {
      if (rest_.starts_with(two)) return take(2, Token::Kind::symbol);
    }
    if (std::string_view("+-*/%<>()[].").find(rest_[0]) != std::string_view::npos) {
      return take(1, Token::Kind::symbol);
    }
    return errorf("unexpected character '{}'", rest_.substr(0, character_length()));
  }

 private:
  std::size_t run(std::size_t from, std::string_view characters) const {
    const auto end = rest_.find_first_not_of(characters, from);
    return (end == std::string_view::npos ? rest_.size() : end) - from;
  }
  // Digits, then a fraction and an exponent if they are complete: "1.x" is the number 1 and a member.
  std::size_t number_length() const {
    std::size_t n = run(0, kDigits);
    if (n < rest_.size() && rest_[n] == '.' && run(n + 1, kDigits) > 0) n += 1 + run(n + 1, kDigits);
    if (n < rest_.size() && (rest_[n] == 'e' || rest_[n] == 'E')) {
      const std::size_t sign = n + 1 < rest_.size() && (rest_[n + 1] == '+' || rest_[n + 1] == '-') ? 1 : 0;
      if (run(n + 1 + sign, kDigits) > 0) n += 1 + sign + run(n + 1 + sign, kDigits);
    }
    return n;
  }
  std::size_t character_length() const {
    std::size_t n = 1;
    while (n < rest_.size() && (static_cast<unsigned char>(rest_[n]) & 0xC0) == 0x80) ++n;
    return n;
  }
  Token take(std::size_t length, Token::Kind kind) {
    Token token{kind, std::string(rest_.substr(0, length))};
    rest_.remove_prefix(length);
    return token;
  }
  Result<Token> quoted() {
    const auto end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return errorf("a text without its closing {}", rest_[0]);
    Token token{Token::Kind::text, std::string(rest_.substr(1, end - 1))};
    rest_.remove_prefix(end + 1);
    return token;
  }

  std::string_view rest_;
};

// How tightly an operator binds; 0 for what is no binary operator.
int binding_power(const Token& token) {
  struct Level {
    int power;
    std::string_view symbols;
  };
  constexpr std::array<Level, 5> kLevels = {
      {{1, " or "}, {2, " and "}, {4, " == != < <= > >= contains "}, {5, " + - "}, {6, " * / % "}}};
  if (token.kind != Token::Kind::symbol && token.kind != Token::Kind::name) return 0;
  for (const Level& level : kLevels) {
    if (level.symbols.find(" " + token.text + " ") != std::string_view::npos) return level.power;
  }
  return 0;
}
constexpr int kNotPower = 3;
constexpr int kComparisonPower = 4;
constexpr int kUnaryPower = 7;

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  Result<Expression> all() {
    FLOW_TRY(advance());
    FLOW_ASSIGN(Expression e, expression(0));
    if (token_.kind != Token::Kind::end) return unexpected("the end");
    return e;
  }

 private:
  Status advance() {
    FLOW_ASSIGN(token_, lexer_.next());
    return {};
  }
  Status unexpected(std::string_view expected) const {
    if (token_.kind == Token::Kind::end) return errorf("expected {}, found the end", expected);
    return errorf("expected {}, found '{}'", expected, token_.text);
  }
  Status expect(std::string_view symbol) {
    if (!token_.is(symbol)) return unexpected(fmt::format("'{}'", symbol));
    return advance();
  }

  // Operators that bind tighter than `floor`.
  Result<Expression> expression(int floor) {
    if (++depth_ > kMaxExpressionDepth) return errorf("nested deeper than {} levels", kMaxExpressionDepth);
    FLOW_ASSIGN(Expression left, prefix());
    for (int power = binding_power(token_); power > floor; power = binding_power(token_)) {
      Expression binary{Kind::binary, {}, token_.text, {}};
      FLOW_TRY(advance());
      FLOW_ASSIGN(Expression right, expression(power));
      if (power == kComparisonPower && binding_power(token_) == kComparisonPower) {
        return errorf("comparisons do not chain: write 'a {} b and b {} c'", binary.text, token_.text);
      }
      binary.operands.push_back(std::move(left));
      binary.operands.push_back(std::move(right));
      left = std::move(binary);
    }
    --depth_;
    return left;
  }

  Result<Expression> prefix() {
    if (token_.is("not")) return unary(Kind::logical_not, kNotPower);
    if (token_.is("-")) return unary(Kind::negate, kUnaryPower);
    return postfix();
  }

  Result<Expression> unary(Kind kind, int power) {
    FLOW_TRY(advance());
    FLOW_ASSIGN(Expression operand, expression(power));
    Expression e{kind, {}, {}, {}};
    e.operands.push_back(std::move(operand));
    return e;
  }

  Result<Expression> postfix() {
    FLOW_ASSIGN(Expression e, primary());
    while (token_.is(".") || token_.is("[")) {
      const bool member = token_.is(".");
      FLOW_TRY(advance());
      Expression access{member ? Kind::member : Kind::index, {}, token_.text, {}};
      access.operands.push_back(std::move(e));
      if (member) {
        if (token_.kind != Token::Kind::name) return unexpected("the name of a member");
        FLOW_TRY(advance());
      } else {
        FLOW_ASSIGN(Expression index, expression(0));
        access.operands.push_back(std::move(index));
        FLOW_TRY(expect("]"));
      }
      e = std::move(access);
    }
    return e;
  }

  Result<Expression> primary() {
    if (token_.is("(")) {
      FLOW_TRY(advance());
      FLOW_ASSIGN(Expression inner, expression(0));
      FLOW_TRY(expect(")"));
      return inner;
    }
    FLOW_ASSIGN(Expression e, atom());
    FLOW_TRY(advance());
    return e;
  }

  Result<Expression> atom() const {
    const bool keyword = token_.is("and") || token_.is("or") || token_.is("contains");
    if (token_.kind == Token::Kind::number) return number();
    if (token_.kind == Token::Kind::text) {
      return Expression{Kind::literal, boost::json::value(token_.text), {}, {}};
    }
    if (token_.is("true") || token_.is("false")) {
      return Expression{Kind::literal, boost::json::value(token_.is("true")), {}, {}};
    }
    if (token_.kind == Token::Kind::name && !keyword) return Expression{Kind::name, {}, token_.text, {}};
    return unexpected("a value");
  }

  Result<Expression> number() const {
    const char* end = token_.text.data() + token_.text.size();
    if (token_.text.find_first_not_of(kDigits) == std::string::npos) {
      std::int64_t integer = 0;
      if (std::from_chars(token_.text.data(), end, integer).ec == std::errc()) {
        return Expression{Kind::literal, integer, {}, {}};
      }
      return errorf("{} does not fit into 64 bits", token_.text);
    }
    double value = 0;
    if (std::from_chars(token_.text.data(), end, value).ec == std::errc()) {
      return Expression{Kind::literal, value, {}, {}};
    }
    return errorf("{} is out of range", token_.text);
  }

  Lexer lexer_;
  Token token_;
  int depth_ = 0;
};

}  // namespace

Result<Expression> parse_expression(std::string_view text) {
  if (text.size() > kMaxExpressionLength) {
    return errorf("an expression of {} characters; the limit is {}", text.size(), kMaxExpressionLength);
  }
  return Parser(text).all();
}

}  // namespace flow::config
