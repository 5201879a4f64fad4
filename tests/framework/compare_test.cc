// The tool that compares two pipelines, run as a process with the stages of cli_stages.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "tests/framework/cli_process.h"
#include "tests/framework/config_fixture.h"

namespace cli_test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Compare : public flow_test::GraphTest {
 protected:
  Compare() {
    write("x.yaml", R"(
params:
  words:   {type: texts, default: [a, b, c]}
  seconds: {type: float, default: 0}
  fail_at: {type: text, default: ""}
services: {box: {type: Box}}
stages:
  - {name: emit, stage: Emit, options: {words: "${words}"}}
  - {name: print, stage: Print, in: {word: emit.word}, options: {seconds: "${seconds}", fail_at: "${fail_at}"}}
)");
    write("other.yaml", "params: {words: [a, x, c]}\n");
    unsetenv("DSV41_HOME");
  }
  static Finished compare(const std::vector<std::string>& arguments, const std::string& input = {}) {
    return run(arguments, input, DSV41_COMPARE_PROGRAM);
  }
};

TEST_F(Compare, ShowsTheTimeOfEachStageSideBySide) {
  const Finished f = compare({"x.yaml", "x.yaml", "--set-b", "seconds=0.005", "--rounds", "2", "--quiet"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.err, "");
  EXPECT_THAT(f.out, HasSubstr("A: x.yaml\nB: x.yaml\n"));
  EXPECT_THAT(f.out, AllOf(ContainsRegex("\nprint +3 +[0-9.]+ +[0-9.]+ +[0-9.]+\n"),
                           ContainsRegex("\nrun +[0-9.]+ +[0-9.]+ +[0-9.]+\n")));
  EXPECT_THAT(f.out, Not(HasSubstr("tap "))) << "what looks on is no stage of the pipeline";
  EXPECT_THAT(f.out, HasSubstr("emit.word: text: the same in 3 packets\n"));
}

TEST_F(Compare, TellsTheFirstResultThatDiffers) {
  const Finished f = compare({"x.yaml", "+other.yaml", "--rounds", "1"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("B: x.yaml+other.yaml\n"));
  EXPECT_THAT(f.out, HasSubstr("emit.word: text: 1 of 3 packets differ; first packet 0 (stamp 1.0), "
                               "element 0: 98 and 120\n"));
  EXPECT_EQ(f.err, "round 1 of 1: x.yaml\nround 1 of 1: x.yaml+other.yaml\n");
}

TEST_F(Compare, WritesJson) {
  const Finished f = compare({"x.yaml", "x.yaml+other.yaml", "--json", "-", "--quiet"});
  EXPECT_EQ(f.code, 0) << f.err;
  const auto json = boost::json::parse(f.out);
  EXPECT_EQ(json.at("b"), "x.yaml+other.yaml");
  EXPECT_EQ(json.at("equal"), false);
  EXPECT_EQ(json.at("results").at(0).at("first").at("b"), 120.0);
  EXPECT_EQ(json.at("stages").as_array().size(), 2u);
  EXPECT_EQ(json.at("runs").at(0).at("name"), "run");
}

TEST_F(Compare, GivesBothPipelinesWhatOneSettingReadsFromStandardInput) {
  const Finished f = compare({"x.yaml", "x.yaml", "--set", "words=-", "--rounds", "1"}, "p,q\n");
  EXPECT_THAT(f.out, HasSubstr("the same in 2 packets"));
}

TEST_F(Compare, TellsWrongUseWithCodeTwo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"x.yaml"}, "two pipelines are needed, found 1; --help shows the usage"},
      {{"x.yaml", "y.yaml"}, "no file 'y.yaml'; did you mean 'x.yaml'?"},
      {{"x.yaml", "x.yaml", "--rounds", "0"}, "--rounds: 0 is outside 1 to 1000"},
      {{"x.yaml", "x.yaml", "--rounds", "many"}, "--rounds: expected int, found 'many'"},
      {{"x.yaml", "x.yaml", "--port", "emit.wrd"}, "--port: no output 'emit.wrd'; did you mean 'emit.word'?"},
      {{"x.yaml", "x.yaml", "--port", "print.note"}, "--port: packets of type Note have no arrays"},
      {{"+other.yaml", "x.yaml"}, "'+other.yaml': expected PIPELINE or PIPELINE+OVERLAY+..."},
      {{"x.yaml", "+"}, "'x.yaml+': expected PIPELINE or PIPELINE+OVERLAY+..."},
      {{"x.yaml", "x.yaml", "--set", "wrds=b"}, "--set wrds: no param 'wrds'; did you mean 'words'?"},
      {{"x.yaml", "x.yaml", "--set-a", "wrds=b"}, "--set-a wrds: no param 'wrds'; did you mean 'words'?"},
      {{"x.yaml", "x.yaml", "--set-b", "wrds=b"}, "--set-b wrds: no param 'wrds'; did you mean 'words'?"},
      {{"x.yaml", "x.yaml", "--set-c", "a=b"}, "no option '--set-c'; did you mean '--set-a'?"},
  };
  for (const auto& [arguments, message] : cases) {
    const Finished f = compare(arguments);
    EXPECT_EQ(f.code, 2) << message;
    EXPECT_EQ(f.err, "error: " + message + "\n");
    EXPECT_EQ(f.out, "") << message;
  }
}

TEST_F(Compare, NamesThePipelineThatFails) {
  const Finished f = compare({"x.yaml", "x.yaml+other.yaml", "--set", "fail_at=x", "--quiet"});
  EXPECT_EQ(f.code, 1);
  EXPECT_THAT(f.err,
              HasSubstr("error: x.yaml+other.yaml: x.yaml:9:5: stage 'print' (Print): cannot say 'x'"));
  EXPECT_EQ(f.out, "");
}

}  // namespace
}  // namespace cli_test
