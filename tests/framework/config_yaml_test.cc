// YAML trees: places, duplicate keys, aliases, and files that mean harm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/config/yaml.h"

namespace flow::config {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Parsed {
  std::optional<YamlNode> root;
  std::vector<std::string> errors;
};

Parsed parse(const std::string& text) {
  Errors errors;
  errors.order("f");
  Parsed parsed{parse_yaml(text, "f", errors), {}};
  parsed.errors = errors.lines();
  return parsed;
}

TEST(Yaml, GivesEveryNodeItsPlace) {
  const Parsed p = parse("a: 1\nb:\n  - x\n  - {c: \"2\"}\nd:\n");
  ASSERT_TRUE(p.root);
  EXPECT_THAT(p.errors, IsEmpty());
  EXPECT_EQ(p.root->where.str(), "f:1:1");
  EXPECT_EQ(p.root->members[0].where.str(), "f:1:1");
  EXPECT_EQ(p.root->members[0].value.where.str(), "f:1:4");
  const YamlNode& list = *p.root->find("b");
  EXPECT_EQ(list.items[0].where.str(), "f:3:5");
  const YamlNode& quoted = *list.items[1].find("c");
  EXPECT_EQ(quoted.where.str(), "f:4:9");
  EXPECT_TRUE(quoted.quoted);
  EXPECT_EQ(p.root->members[2].value.where.str(), "f:5:1") << "a missing value is placed at its key";
  EXPECT_EQ(p.root->find("d"), nullptr);
}

TEST(Yaml, ReportsAQuoteThatIsNotClosedWhereItOpens) {
  for (const char* text : {"é: x\na: \"b\nc: d\n", "é: 'x'\na: 'it''s\n", "é: x\na: \"b\\\"\n"}) {
    EXPECT_THAT(parse(text).errors, ElementsAre("f:2:4: not valid YAML: this quote is not closed")) << text;
  }
  for (const char* text : {"a: \"b\\\"\" # c\"d\n", "a: 'it''s'\n", "\"a\": 1\n", "a: ''\n"}) {
    EXPECT_THAT(parse(text).errors, IsEmpty()) << text;
  }
}

TEST(Yaml, ReportsEveryDuplicateKey) {
  EXPECT_THAT(parse("a: 1\na: 2\nb: {c: 1, c: 2}\n").errors,
              ElementsAre("f:2:1: key 'a' occurs twice; the first is in line 1",
                          "f:3:11: key 'c' occurs twice; the first is in line 3"));
}

TEST(Yaml, ExpandsAliasesAndMergeKeys) {
  const Parsed p = parse("base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\nmany: {<<: [*b, {z: 4}]}\nsame: *b\n");
  EXPECT_THAT(p.errors, IsEmpty());
  EXPECT_EQ(p.root->find("one")->find("x")->text, "1");
  EXPECT_EQ(p.root->find("one")->find("y")->text, "3");
  EXPECT_EQ(p.root->find("many")->find("z")->text, "4");
  EXPECT_EQ(p.root->find("same")->find("y")->text, "2");
}

TEST(Yaml, RefusesWhatIsNoTree) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a: &a [*a]", "f:1:8: not valid YAML: an alias refers to the node it is in"},
      {"? [x]\n: 1", "f:1:3: a key must be text, found a list"},
      {"{<<: 3}", "f:1:6: '<<' merges a map, found '3'"},
      {"a: 1\n---\nb: 2", "f:3:1: a second document; a graph file holds one"},
      {"a: [1, 2", "f:1:1: not valid YAML: end of sequence flow not found"},
      {"a: b: c", "f:1:5: not valid YAML: illegal map value"},
      {"a: *nobody", "f:1:4: not valid YAML: the referenced anchor is not defined"},
      {"\ta: 1", "f:1:3: not valid YAML: illegal map value"},
  };
  for (const auto& [text, error] : cases) EXPECT_THAT(parse(text).errors, ElementsAre(error)) << text;
}

TEST(Yaml, TreatsAnEmptyDocumentAsNull) {
  for (const char* text : {"", "# nothing\n", "---\n"}) {
    const Parsed p = parse(text);
    EXPECT_THAT(p.errors, IsEmpty()) << text;
    ASSERT_TRUE(p.root) << text;
    EXPECT_TRUE(p.root->is_null()) << text;
  }
}

TEST(Yaml, BoundsTheDepthOfNesting) {
  for (const std::string level : {"[", "{a: ", "- ", "? ", "[a, "}) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += level;
    const Parsed p = parse(text);
    ASSERT_EQ(p.errors.size(), 1u) << level;
    EXPECT_THAT(p.errors[0], testing::HasSubstr("nested deeper than 64 levels")) << level;
  }
}

TEST(Yaml, BoundsWhatAliasesExpandTo) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    text += fmt::format("a{}: &a{} [", i, i);
    for (int k = 0; k < 10; ++k) text += fmt::format("*a{}, ", i - 1);
    text += "]\n";
  }
  const Parsed p = parse(text);
  ASSERT_EQ(p.errors.size(), 1u);
  EXPECT_THAT(p.errors[0], testing::HasSubstr("not valid YAML: more than 50000 nodes"));
}

TEST(Yaml, MergesMapsToTheGivenDepth) {
  YamlNode base = *parse("a: {x: 1, y: {p: 1, q: 2}}\nb: 2\nc: 3\n").root;
  merge_maps(base, *parse("a: {y: {q: 3}, z: 4}\nb: null\nc: 5\nd: 6\n").root, 1);
  EXPECT_EQ(base.find("a")->find("x")->text, "1");
  EXPECT_EQ(base.find("a")->find("z")->text, "4");
  EXPECT_EQ(base.find("a")->find("y")->find("p"), nullptr) << "deeper maps are replaced";
  EXPECT_EQ(base.find("b"), nullptr);
  EXPECT_EQ(base.find("c")->text, "5");
  EXPECT_EQ(base.find("d")->text, "6");
}

TEST(Errors, AreOneLineEachSortedByPlace) {
  Errors errors;
  errors.order("b");
  errors.order("a");
  errors.add({"a", 1, 1}, "", "third");
  errors.add({"b", 10, 1}, "", "second");
  errors.add({"b", 9, 7}, "stage 'x'", "first\nwith\ttwo lines");
  errors.add({"--set n"}, "", "from the command line");
  EXPECT_THAT(errors.lines(),
              ElementsAre("--set n: from the command line", "b:9:7: stage 'x': first\\nwith\\x09two lines",
                          "b:10:1: second", "a:1:1: third"));
}

TEST(Errors, KeepOnlyTheFirstInstanceOfAPlace) {
  Errors errors;
  errors.add({"a", 1, 1}, "stage 'l.0'", "no x");
  errors.add({"a", 1, 1}, "stage 'l.1'", "no x");
  errors.add({"a", 1, 1}, "stage 'l.0'", "no y");
  errors.add({"a", 1, 1}, "stage 'l.0'", "no x");
  EXPECT_THAT(errors.lines(), ElementsAre("a:1:1: stage 'l.0': no x", "a:1:1: stage 'l.0': no y"));
}

TEST(Errors, CutWhatIsTooLongAtACharacter) {
  Errors errors;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "\xC3\xA4";
  errors.add({"a", 1, 1}, "", text);
  const std::string line = errors.lines()[0];
  EXPECT_LE(line.size(), 1003u);
  EXPECT_TRUE(line.ends_with("\xC3\xA4..."));
}

}  // namespace
}  // namespace flow::config
