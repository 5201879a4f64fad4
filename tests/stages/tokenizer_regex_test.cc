// Regular expressions in Oniguruma syntax. What matches is checked against the reference library in
// tokenizer_test; here is what must be refused, and what bounds the memory of a match.
#include <gmock/gmock.h>

#include "stages/text/regex.h"

namespace dsv {
namespace {

std::vector<Span> find(const std::string& pattern, std::u16string_view text) {
  const auto regex = Regex::compile(pattern);
  std::vector<Span> matches;
  if (!regex.ok()) {
    ADD_FAILURE() << regex.status().message();
    return matches;
  }
  const flow::Status status =
      RegexSearch(*regex, text).find_all({0, static_cast<std::int32_t>(text.size())}, matches);
  EXPECT_TRUE(status.ok()) << status.message();
  return matches;
}

using Spans = std::vector<Span>;

TEST(Regex, LooksOnlyInsideThePiece) {
  const auto regex = Regex::compile(R"((?<!a)b|\s+(?!\S)|^x)");
  ASSERT_TRUE(regex.ok());
  RegexSearch search(*regex, u"ab  cx");
  std::vector<Span> matches;
  ASSERT_TRUE(search.find_all({0, 6}, matches).ok());
  EXPECT_EQ(matches, (Spans{{2, 3}}));  // b follows a, one space of two may go, x is in mid-line
  matches.clear();
  ASSERT_TRUE(search.find_all({1, 4}, matches).ok());
  EXPECT_EQ(matches, (Spans{{1, 2}, {2, 4}}));
  matches.clear();
  ASSERT_TRUE(search.find_all({5, 6}, matches).ok());
  EXPECT_EQ(matches, (Spans{{5, 6}}));
}

TEST(Regex, LeavesOutAnEmptyMatchRightAfterAMatch) {
  EXPECT_EQ(find("a*", u"baac"), (Spans{{0, 0}, {1, 3}, {4, 4}}));
}

TEST(Regex, MatchesSurrogatePairsAsOneCharacter) {
  EXPECT_EQ(find(".", u"a🙂"), (Spans{{0, 1}, {1, 3}}));
}

TEST(Regex, MatchesALiteralAsItStands) {
  const auto regex = Regex::literal("a.[(\\ \U0001F642#");
  ASSERT_TRUE(regex.ok());
  std::vector<Span> matches;
  ASSERT_TRUE(RegexSearch(*regex, u"xa.[(\\ 🙂# a.").find_all({0, 13}, matches).ok());
  EXPECT_EQ(matches, (Spans{{1, 10}}));
}

TEST(Regex, RunsOverMillionsOfCharactersInOneMatch) {
  const std::u16string spaces(3'000'000, u' ');
  for (const char* pattern : {R"(\s+)", R"(\s++)", R"([^\S\n]*)", R"(.+)", R"(\s+(?!\S)|\s+)"})
    EXPECT_THAT(find(pattern, spaces), testing::Contains(Span{0, 3'000'000})) << pattern;
}

TEST(Regex, ReportsAMatchThatNeedsTooMuchMemory) {
  const auto regex = Regex::compile("(?:a|b)+c");
  ASSERT_TRUE(regex.ok());
  const std::u16string text(5'000'000, u'a');
  std::vector<Span> matches;
  EXPECT_EQ(RegexSearch(*regex, text).find_all({0, 5'000'000}, matches).message(),
            "regular expression failed on this text: a match takes more than 64 MiB of memory");
}

TEST(Regex, RefusesWhatIsWrongOrHasNoCounterpart) {
  const struct {
    std::string pattern, message;
  } cases[] = {
      {"(a", "'(' has no ')'"},
      {"a)", "')' without '('"},
      {"[a", "'[' has no ']'"},
      {"[z-a]", "range in a class runs backwards"},
      {"*a", "nothing to repeat before '*'"},
      {"(|+)", "nothing to repeat before '+'"},
      {"{2}", "nothing to repeat before '{'"},
      {"a\\", "backslash at the end"},
      {"\\p{Klingon}", "unknown character property 'klingon'"},
      {"\\p{L", "property name has no end"},
      {"\\pL", "\\p without a property in braces"},
      {"[[:alpha]", "property name has no end"},
      {"(a)\\1", "'\\1' is not supported"},
      {"\\K", "'\\K' is not supported"},
      {"(?~a)", "group '(?~' is not supported"},
      {"(?#x", "comment has no end"},
      {"(?i", "'(' has no ')'"},
      {"\\x{110000}", "malformed escape of a character by its number"},
      {"\\xE9", "\\xe9 is a byte, not a character"},
      {"a{2,1}", "not a regular expression: a repetition {m,n} has m greater than n"},
      {"(?<=a*)b", "not a regular expression: a look-behind has no limit to its length"},
  };
  const std::string deep(100'000, '[');
  EXPECT_EQ(Regex::compile(deep).status().message(), "classes are nested deeper than 16");
  EXPECT_EQ(Regex::compile(std::string(100'000, '(') + std::string(100'000, ')')).status().message(),
            "not a regular expression: it is nested too deep or too long");
  for (const auto& item : cases)
    EXPECT_EQ(Regex::compile(item.pattern).status().message(), item.message) << item.pattern;
}

}  // namespace
}  // namespace dsv
