// ${...} in texts, and YAML scalars as typed values; names and patterns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "framework/config/substitution.h"
#include "framework/core/names.h"

namespace flow::config {
namespace {

namespace json = boost::json;

Scope test_scope() {
  Scope scope;
  scope.set("n", json::value(7));
  scope.set("x", json::value(0.5));
  scope.set("word", json::value("ab"));
  scope.set("list", json::value{1, 2});
  scope.set("TOP", json::value(9));
  scope.set("broken", std::nullopt);
  return scope;
}

YamlNode scalar(const std::string& text, bool quoted = false) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = text;
  node.quoted = quoted;
  return node;
}

TEST(Substitution, KeepsTheTypeOfASingleExpression) {
  const Scope scope = test_scope();
  EXPECT_EQ(**substitute("${n}", scope), json::value(7));
  EXPECT_EQ(**substitute("${list}", scope), (json::value{1, 2}));
  EXPECT_EQ(**substitute("${n > 3}", scope), json::value(true));
  EXPECT_EQ(**substitute("${'}' + \"}\"}", scope), json::value("}}")) << "quotes protect braces";
}

TEST(Substitution, MakesTextOfEmbeddedValues) {
  const Scope scope = test_scope();
  EXPECT_EQ(**substitute("rows.${n}.rows?", scope), json::value("rows.7.rows?"));
  EXPECT_EQ(**substitute("${word}${x} ${n == 7}", scope), json::value("ab0.5 true"));
  EXPECT_EQ(**substitute("", scope), json::value(""));
}

TEST(Substitution, TreatsADollarAsItselfUnlessABraceFollows) {
  const Scope scope = test_scope();
  EXPECT_EQ(**substitute("$stream", scope), json::value("$stream"));
  EXPECT_EQ(**substitute("$${n} 5$ $$", scope), json::value("${n} 5$ $"));
}

TEST(Substitution, ReadsEnvironmentVariables) {
  const Scope scope = test_scope();
  setenv("FLOW_TEST_SET", "value", 1);
  setenv("FLOW_TEST_EMPTY", "", 1);
  unsetenv("FLOW_TEST_UNSET");
  EXPECT_EQ(**substitute("${FLOW_TEST_SET}", scope), json::value("value"));
  EXPECT_EQ(**substitute("a${FLOW_TEST_UNSET:-b 'c}d", scope), json::value("ab 'cd"));
  EXPECT_EQ(**substitute("${FLOW_TEST_EMPTY:-b}", scope), json::value("b"));
  EXPECT_EQ(**substitute("${FLOW_TEST_EMPTY}", scope), json::value(""));
  EXPECT_EQ(**substitute("${TOP}", scope), json::value(9)) << "names of the scope come first";
  EXPECT_EQ(
      substitute("${FLOW_TEST_UNSET}", scope).status().message(),
      "the environment variable FLOW_TEST_UNSET is not set; ${FLOW_TEST_UNSET:-default} gives a default");
}

TEST(Substitution, IsUnknownWithAnUnknownPart) {
  const Scope scope = test_scope();
  EXPECT_FALSE(*substitute("a${broken}", scope));
  EXPECT_FALSE(*substitute("${broken}", scope));
}

TEST(Substitution, SaysWhatIsWrong) {
  const Scope scope = test_scope();
  EXPECT_EQ(substitute("${n", scope).status().message(), "'${' without its '}'");
  EXPECT_EQ(substitute("x${m}", scope).status().message(),
            "in '${m}': no name 'm'; known: TOP, broken, list, n, word, x");
  EXPECT_EQ(substitute("x${list}", scope).status().message(), "[1,2] cannot be a part of a text");
  EXPECT_EQ(substitute("${}", scope).status().message(), "in '${}': expected a value, found the end");
}

TEST(TypedScalar, IsReadByTheTypeThatIsAskedFor) {
  struct Case {
    OptionType type;
    const char* text;
    json::value expected;
  };
  const Scope scope = test_scope();
  const std::vector<Case> cases = {
      {OptionType::text, "123", "123"},
      {OptionType::text, "true", "true"},
      {OptionType::text, "${word}", "ab"},
      {OptionType::integer, "123", 123},
      {OptionType::integer, "${n * 2}", 14},
      {OptionType::integer, "1${n}", 17},
      {OptionType::number, "2", 2.0},
      {OptionType::boolean, "true", true},
      {OptionType::bytes, "2KiB", 2048u},
      {OptionType::integers, "1, 2", {1, 2}},
      {OptionType::integers, "${list}", {1, 2}},
      {OptionType::texts, "a,b", {"a", "b"}},
  };
  for (const Case& c : cases) {
    const auto value = read_as(c.type, scalar(c.text), scope);
    ASSERT_TRUE(value.ok()) << c.text << ": " << value.status().message();
    EXPECT_EQ(**value, c.expected) << c.text;
  }
}

TEST(TypedScalar, ReadsListsItemByItem) {
  YamlNode list;
  list.kind = YamlNode::Kind::list;
  list.items = {scalar("3"), scalar("${n}")};
  EXPECT_EQ(**read_as(OptionType::integers, list, test_scope()), (json::value{3, 7}));
  EXPECT_EQ(read_as(OptionType::integer, list, test_scope()).status().message(),
            "expected int, found a list");
  list.items.push_back(scalar("${broken}"));
  EXPECT_FALSE(*read_as(OptionType::integers, list, test_scope()));
}

TEST(PlainScalar, LooksLikeItsType) {
  const Scope scope;
  EXPECT_EQ(**read_plain(scalar("3"), scope), json::value(3));
  EXPECT_EQ(**read_plain(scalar("3.5"), scope), json::value(3.5));
  EXPECT_EQ(**read_plain(scalar("false"), scope), json::value(false));
  EXPECT_EQ(**read_plain(scalar("3", true), scope), json::value("3")) << "quoted";
  EXPECT_EQ(**read_plain(scalar("3 x"), scope), json::value("3 x"));
}

TEST(Condition, IsAnExpressionWithOrWithoutBraces) {
  const Scope scope = test_scope();
  EXPECT_EQ(read_condition(scalar("true"), scope)->value(), true);
  EXPECT_EQ(read_condition(scalar("list contains 2"), scope)->value(), true);
  EXPECT_EQ(read_condition(scalar("${n < 7}"), scope)->value(), false);
  EXPECT_EQ(read_condition(scalar("${broken}"), scope)->has_value(), false);
  EXPECT_EQ(read_condition(scalar("n"), scope).status().message(), "expected a condition (bool), found 7");
}

TEST(Names, SuggestTheNearestWithinAFewEdits) {
  const std::vector<std::string> names = {"max_ngram", "layer", "path"};
  EXPECT_EQ(nearest("max_ngrm", names), "max_ngram");
  EXPECT_EQ(nearest("alyer", names), "layer") << "a swap is one edit";
  EXPECT_EQ(nearest("pth", names), "path");
  EXPECT_EQ(nearest("something", names), "");
  EXPECT_EQ(unknown_name("option", "q", {}), "no option 'q'; none is known");
  EXPECT_EQ(unknown_name("option", "zzz", names), "no option 'zzz'; known: max_ngram, layer, path");
}

TEST(Names, MatchPatternsWithinAndAcrossParts) {
  EXPECT_TRUE(matches("layers.*.attention", "layers.12.attention"));
  EXPECT_TRUE(matches("layers.1*.att*", "layers.12.attention"));
  EXPECT_TRUE(matches("**.attention", "backbone.layers.0.attention"));
  EXPECT_TRUE(matches("*", "tokenize"));
  EXPECT_TRUE(matches("a**d", "a.b.c.d"));
  EXPECT_TRUE(matches("**.*x.y", "a.xx.bx.y"));
  EXPECT_FALSE(matches("layers.*.attention", "layers.1.sub.attention"));
  EXPECT_FALSE(matches("*", "a.b"));
  EXPECT_FALSE(matches("layers", "layers.1"));
  EXPECT_FALSE(matches("", "a"));
}

}  // namespace
}  // namespace flow::config
