// The expressions inside ${...}.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/config/expression.h"

namespace flow::config {
namespace {

namespace json = boost::json;

Scope test_scope() {
  Scope scope;
  scope.set("n", json::value(7));
  scope.set("x", json::value(2.5));
  scope.set("yes", json::value(true));
  scope.set("name", json::value("layer"));
  scope.set("big", json::value(std::uint64_t{1} << 40));
  scope.set("list", json::value{1, 14, 30});
  scope.set("config", json::parse(R"({"layers": 4, "ids": [3, 5], "rope": {"kind": "yarn"}})"));
  scope.set("broken", std::nullopt);
  return scope;
}

struct Case {
  const char* expression;
  json::value expected;
};

void expect_values(const std::vector<Case>& cases) {
  const Scope scope = test_scope();
  for (const Case& c : cases) {
    const auto value = evaluate(c.expression, scope);
    ASSERT_TRUE(value.ok()) << c.expression << ": " << value.status().message();
    ASSERT_TRUE(*value) << c.expression;
    EXPECT_EQ(**value, c.expected) << c.expression;
    EXPECT_EQ((*value)->kind(), c.expected.kind()) << c.expression;
  }
}

TEST(Expression, ReadsLiterals) {
  expect_values({{"12", 12},
                 {"1.5", 1.5},
                 {"2e3", 2000.0},
                 {"'a b'", "a b"},
                 {"\"it's\"", "it's"},
                 {"true", true},
                 {"false", false},
                 {"  ( 3 ) ", 3}});
}

TEST(Expression, FollowsNamesMembersAndElements) {
  expect_values({{"n", 7},
                 {"config.layers", 4},
                 {"config.ids[1]", 5},
                 {"config.rope.kind", "yarn"},
                 {"list[n - 5]", 30},
                 {"list[config.ids[0] - 3]", 1},
                 {"big", std::int64_t{1} << 40}});
}

TEST(Expression, BindsTighterOperatorsFirst) {
  expect_values({{"1 + 2 * 3", 7},
                 {"(1 + 2) * 3", 9},
                 {"10 - 4 - 3", 3},
                 {"2 * 3 % 4", 2},
                 {"-n + 8", 1},
                 {"- 2 * -3", 6},
                 {"1 + 1 == 2", true},
                 {"not 1 == 2", true},
                 {"not yes or yes", true},
                 {"true or false and false", true},
                 {"(true or false) and false", false},
                 {"n > 3 and list contains 14", true},
                 {"list contains n * 2", true}});
}

TEST(Expression, DividesIntegersTowardZeroAndFloatsExactly) {
  expect_values({{"7 / 2", 3}, {"-7 / 2", -3}, {"-7 % 2", -1}, {"7 / 2.0", 3.5}, {"x * 2", 5.0}});
}

TEST(Expression, ComparesNumbersAndTexts) {
  expect_values({{"n == 7.0", true},
                 {"n != 7", false},
                 {"x < 3", true},
                 {"3 <= 3", true},
                 {"'a' < 'b'", true},
                 {"name == 'layer'", true},
                 {"yes == true", true},
                 {"n >= 8", false}});
}

TEST(Expression, FindsElementsPartsAndMembersWithContains) {
  expect_values({{"list contains 14", true},
                 {"list contains 14.0", true},
                 {"list contains 2", false},
                 {"name contains 'aye'", true},
                 {"config contains 'ids'", true},
                 {"config contains 'idz'", false}});
}

TEST(Expression, JoinsTexts) {
  expect_values({{"name + '.' + 'x'", "layer.x"}});
}

TEST(Expression, SkipsTheRightSideWhenTheLeftDecides) {
  expect_values({{"false and list[99] == 1", false}, {"true or list[99] == 1", true}});
}

TEST(Expression, IsUnknownWhereAnOperandIsUnknown) {
  const Scope scope = test_scope();
  for (const char* text : {"broken", "broken.x[3] + 1", "1 == broken", "not broken", "true and broken",
                           "list contains broken", "list[broken]", "-broken.y"}) {
    const auto value = evaluate(text, scope);
    ASSERT_TRUE(value.ok()) << text << ": " << value.status().message();
    EXPECT_FALSE(*value) << text;
  }
}

TEST(Expression, SaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "expected a value, found the end"},
      {"1 +", "expected a value, found the end"},
      {"1 2", "expected the end, found '2'"},
      {"(1", "expected ')', found the end"},
      {"list[1", "expected ']', found the end"},
      {"config.", "expected the name of a member, found the end"},
      {"and 1", "expected a value, found 'and'"},
      {"1 < 2 < 3", "comparisons do not chain: write 'a < b and b < c'"},
      {"a & b", "unexpected character '&'"},
      {"1 + \xC3\xA4", "unexpected character '\xC3\xA4'"},
      {"'open", "a text without its closing '"},
      {"nn", "no name 'nn'; did you mean 'n'?"},
      {"config.layer", "no member 'layer' in 'config'; did you mean 'layers'?"},
      {"config.rope.zzzzzz", "no member 'zzzzzz' in 'config.rope'; known: kind"},
      {"n.x", "'n' is int and has no members"},
      {"n[0]", "'n' is int and has no elements"},
      {"list[3]", "index 3 is outside 'list', which has 3 elements"},
      {"list[0 - 1]", "index -1 is outside 'list', which has 3 elements"},
      {"list['a']", "the index of 'list' is text, expected int"},
      {"(1)[0]", "'.' and '[' follow a name, a member or an element"},
      {"1 / 0", "division of 1 by zero"},
      {"1 % 0", "division of 1 by zero"},
      {"1.5 / 0", "division of 1.5 by zero"},
      {"1.5 % 2", "'%' does not take float and int"},
      {"'a' - 'b'", "'-' does not take text and text"},
      {"1 == 'a'", "'==' does not take int and text"},
      {"true < false", "'<' does not take bool and bool"},
      {"1 and true", "'and' takes bool, found int"},
      {"not 1", "'not' takes bool, found int"},
      {"-name", "'-' does not take text"},
      {"1 contains 2", "'contains' does not take int and int"},
      {"9223372036854775808", "9223372036854775808 does not fit into 64 bits"},
      {"1e999", "1e999 is out of range"},
      {"9223372036854775807 + 1", "9223372036854775807 + 1 does not fit into 64 bits"},
      {"(0 - 9223372036854775807 - 1) / -1", "-9223372036854775808 / -1 does not fit into 64 bits"},
      {"-(0 - 9223372036854775807 - 1)", "0 - -9223372036854775808 does not fit into 64 bits"},
  };
  const Scope scope = test_scope();
  for (const auto& [expression, message] : cases) {
    const auto value = evaluate(expression, scope);
    ASSERT_FALSE(value.ok()) << expression;
    EXPECT_EQ(value.status().message(), message) << expression;
  }
}

TEST(Expression, RefusesDepthAndLength) {
  const Scope scope;
  const auto deep = evaluate(std::string(500, '(') + "1" + std::string(500, ')'), scope);
  ASSERT_FALSE(deep.ok());
  EXPECT_EQ(deep.status().message(), "nested deeper than 50 levels");
  const auto minus = evaluate(std::string(1000, '-') + "1", scope);
  ASSERT_FALSE(minus.ok());
  const auto long_text = evaluate(std::string(2001, '1'), scope);
  ASSERT_FALSE(long_text.ok());
  EXPECT_EQ(long_text.status().message(), "an expression of 2001 characters; the limit is 2000");
}

TEST(Expression, TakesLongChainsWithoutDepth) {
  std::string sum = "1";
  for (int i = 0; i < 900; ++i) sum += "+1";
  const auto value = evaluate(sum, Scope());
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ(**value, json::value(901));
}

TEST(Scope, HidesOuterNames) {
  Scope outer;
  outer.set("a", json::value(1));
  outer.set("b", json::value(2));
  Scope inner(&outer);
  inner.set("a", json::value(3));
  EXPECT_EQ(**evaluate("a + b", inner), json::value(5));
  EXPECT_THAT(inner.names(), testing::UnorderedElementsAre("a", "a", "b"));
}

}  // namespace
}  // namespace flow::config
