// The command line tool, run as a process with the stages of cli_stages.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <boost/json.hpp>

#include "tests/framework/cli_process.h"
#include "tests/framework/config_fixture.h"

namespace cli_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

constexpr const char* kGraph = R"(doc: Prints words.
params:
  words:   {type: texts, default: [a, b, c], doc: what to print}
  end:     {type: text, default: " ", doc: after each word}
  fail_at: {type: text, default: "", doc: a word that fails}
  seconds: {type: float, default: 0, min: 0, max: 60, doc: how long a word takes}
  forever: {type: bool, default: false, doc: never end}
  size:    {type: bytes, default: 2KiB, doc: memory of the box}
  mode:    {type: text, default: fast, choices: [fast, slow], doc: unused}
  file:    {type: path, default: "", doc: unused}
services:
  box: {type: Box, size: "${size}"}
stages:
  - {name: emit, stage: Emit, options: {words: "${words}", forever: "${forever}"}}
  - {name: print, stage: Print, in: {word: emit.word},
     options: {end: "${end}", fail_at: "${fail_at}", seconds: "${seconds}"}}
)";

class Cli : public flow_test::GraphTest {
 protected:
  Cli() {
    write("x.yaml", kGraph);
    unsetenv("DSV41_HOME");
  }
};

TEST_F(Cli, PrintsResultsOnStandardOutputAndRemarksOnStandardError) {
  const Finished f = run({"x.yaml"});
  EXPECT_EQ(f.code, 0);
  EXPECT_EQ(f.out, "a b c ");
  EXPECT_EQ(f.err, "printed a\nprinted b\nprinted c\n");
}

TEST_F(Cli, SilencesRemarksButNotErrors) {
  const Finished quiet = run({"x.yaml", "--quiet"});
  EXPECT_EQ(quiet.code, 0);
  EXPECT_EQ(quiet.err, "");
  const Finished failing = run({"x.yaml", "--quiet", "--set", "fail_at=b"});
  EXPECT_EQ(failing.code, 1);
  EXPECT_EQ(failing.out, "a ");
  EXPECT_EQ(failing.err, "error: x.yaml:15:5: stage 'print' (Print): cannot say 'b'\n");
}

TEST_F(Cli, TellsEveryWrongUseWithCodeTwo) {
  std::filesystem::create_directory("folder");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "no pipeline is given; --help shows the usage"},
      {{"x.yaml", "--chek"}, "no option '--chek'; did you mean '--check'?"},
      {{"x.yaml", "--set", "words"}, "--set words: expected NAME=VALUE"},
      {{"x.yaml", "--set", "=3"}, "--set =3: expected NAME=VALUE"},
      {{"x.yaml", "--set", "wrds=3"}, "--set wrds: no param 'wrds'; did you mean 'words'?"},
      {{"x.yaml", "--set", "seconds=61"}, "--set seconds: 61 is outside 0 to 60"},
      {{"x.yaml", "--set", "words=@none.txt"},
       "--set words: cannot read 'none.txt': No such file or directory"},
      {{"x.yaml", "--set", "words=@folder"}, "--set words: cannot read 'folder': Is a directory"},
      {{"x.yaml", "--set", "words=-", "--set", "end=-"},
       "--set end: standard input is read by another --set"},
      {{"x.yaml", "--set", "end=\xFF"}, "--set end: not UTF-8: byte 0xff at offset 0"},
      {{"x.yaml", "--swap", "emti=Print"}, "--swap emti=Print: no stage 'emti'; did you mean 'emit'?"},
      {{"x.yaml", "--tap", "emit.wrd=y.txt"},
       "tap emit.wrd=y.txt: no output 'emit.wrd'; did you mean 'emit.word'?"},
      {{"x.yaml", "--tap", "emit.word=y.png"}, "tap emit.word=y.png: no tap format '.png'; known: .txt"},
      {{"y.yaml"}, "no file 'y.yaml'; did you mean 'x.yaml'?"},
      {{"folder"}, "'folder' is a folder, expected a YAML file"},
      {{"--describe", "Emitt"}, "no stage, service or value 'Emitt'; did you mean 'Emit'?"},
      {{"x.yaml", "--dot", "-", "--json", "-", "--trace", "t"},
       "--json and --dot both write to standard output"},
      {{"x.yaml", "--trace", "same", "--json", "./same"}, "--json and --trace both write the file 'same'"},
      {{"x.yaml", "--json", "j.txt", "--tap", "emit.word=j.txt"},
       "--json and --tap emit.word both write the file 'j.txt'"},
      {{"x.yaml", "--tap", "emit.word=a.txt", "--tap", "emit.word=none/../a.txt"},
       "--tap emit.word and --tap emit.word both write the file 'none/../a.txt'"},
      {{"x.yaml", "--trace", ""}, "--trace: the name of the file is empty"},
      {{"x.yaml", "--tap", "emit.word="}, "--tap emit.word: the name of the file is empty"},
      {{"x.yaml", "--check", "--dry-run"}, "--check and --dry-run exclude each other"},
      {{"x.yaml", "--check", "--json", "-"}, "--check and --json exclude each other"},
      {{"x.yaml", "--check", "--trace", "t"}, "--check and --trace exclude each other"},
      {{"x.yaml", "--dry-run", "--dot", "d"}, "--dry-run and --dot exclude each other"},
      {{"x.yaml", "--dry-run", "--trace", "t"}, "--dry-run and --trace exclude each other"},
      {{"x.yaml", "--dry-run", "--tap", "emit.word=y.txt"}, "--dry-run and --tap exclude each other"},
      {{"x.yaml", "--dot", "d", "--json", "-"},
       "--dot without --trace runs nothing that --json could record"},
      {{"x.yaml", "--version"}, "--version takes no FILE"},
  };
  for (const auto& [arguments, message] : cases) {
    const Finished f = run(arguments);
    EXPECT_EQ(f.code, 2) << message;
    EXPECT_EQ(f.err, "error: " + message + "\n");
    EXPECT_EQ(f.out, "") << message;
  }
}

TEST_F(Cli, ReportsEveryErrorOfAGraph) {
  write("bad.yaml", "stages:\n  - {name: a, stage: Emmit}\n  - {name: b, stage: Emit, in: {x: a.x}}\n");
  const Finished f = run({"bad.yaml"});
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(f.err,
            "error: bad.yaml:2:22: stage 'a': no stage type 'Emmit'; did you mean 'Emit'?\n"
            "error: bad.yaml:3:33: stage 'b' (Emit): no input 'x'; none is known\n");
}

TEST_F(Cli, ReadsParametersFromFilesAndStandardInput) {
  write("word.txt", "from,file\n");
  EXPECT_EQ(run({"x.yaml", "--set", "words=@word.txt"}).out, "from file ");
  EXPECT_EQ(run({"x.yaml", "--set", "words=-"}, "x,y\n").out, "x y ");
  EXPECT_EQ(run({"x.yaml", "--set", "words=@@w", "--set", "end=@@"}).out, "@w@");
  EXPECT_EQ(run({"x.yaml", "--set", R"(words=["a, b", "c"])"}).out, "a, b c ")
      << "a list in JSON may hold commas";
  EXPECT_EQ(run({"x.yaml", "--set", "end=-"}, "\n\n").out, "a\nb\nc\n") << "only one newline is dropped";
  EXPECT_EQ(run({"x.yaml", "--set", "file=-", "--json", "r.json"}, "content").code, 0);
  EXPECT_EQ(boost::json::parse(read_text("r.json")).at("params").at("file"), "-") << "a path stays as it is";
}

TEST_F(Cli, ChecksAGraphWithoutRunningIt) {
  const Finished f = run({"x.yaml", "--check"});
  EXPECT_EQ(f.code, 0);
  EXPECT_EQ(f.out, "");
  EXPECT_EQ(f.err, "x.yaml: ok, 2 stages, 1 service\n");
}

TEST_F(Cli, PrintsThePlanOfMemoryAndReads) {
  const Finished f = run({"x.yaml", "--dry-run"});
  EXPECT_EQ(f.code, 0);
  EXPECT_THAT(f.out, MatchesRegex("              in memory  read once  read per step\n"
                                  "  box: pages  2.0 KiB    512 B      0 B\n"
                                  "  program     [0-9.]+ MiB +0 B        0 B\n"
                                  "  total       [0-9.]+ MiB +512 B      0 B\n"));
  EXPECT_EQ(run({"x.yaml", "--dry-run", "--json", "plan.json"}).code, 0);
  const auto json = boost::json::parse(read_text("plan.json"));
  EXPECT_EQ(json.at("plan").at(0).at("what"), "box: pages");
  const auto program = json.at("plan").at(1).at("resident_bytes").to_number<std::int64_t>();
  EXPECT_EQ(json.at("total").at("resident_bytes"), 2048 + program);
}

TEST_F(Cli, DrawsTheGraph) {
  const Finished f = run({"x.yaml", "--dot", "-"});
  EXPECT_EQ(f.code, 0);
  EXPECT_THAT(f.out, StartsWith("digraph"));
  EXPECT_EQ(run({"x.yaml", "--dot", "x.dot"}).out, "") << "a drawing does not run the graph";
  EXPECT_EQ(read_text("x.dot"), f.out);
  EXPECT_EQ(run({"x.yaml", "--check", "--dot", "checked.dot"}).code, 0);
  EXPECT_EQ(read_text("checked.dot"), f.out);
}

TEST_F(Cli, DrawsSvgWithGraphviz) {
  if (std::system("dot -V 2> /dev/null") != 0) GTEST_SKIP() << "Graphviz is not installed";
  const Finished plain = run({"x.yaml", "--dot", "x.svg"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(read_text("x.svg"), AllOf(HasSubstr("<svg"), HasSubstr(">emit<")));
  EXPECT_EQ(run({"x.yaml", "--dot", "t.svg", "--trace", "t.json"}).code, 0);
  EXPECT_THAT(read_text("t.svg"), AllOf(HasSubstr("3 x "), HasSubstr("fill=\"#ff"))) << "coloured by time";
}

TEST_F(Cli, SaysBeforeTheRunThatGraphvizIsMissing) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nonexistent", 1);
  const Finished f = run({"x.yaml", "--dot", "x.svg", "--trace", "t.json"});
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(f.code, 1);
  EXPECT_EQ(f.out, "") << "nothing has run";
  EXPECT_EQ(f.err,
            "error: cannot draw 'x.svg': SVG drawings need Graphviz, whose program 'dot' is not installed\n");
  EXPECT_FALSE(std::filesystem::exists("x.svg"));
}

TEST_F(Cli, WritesTheReportOfARun) {
  EXPECT_EQ(run({"x.yaml", "--json", "r.json", "--set", "end=;"}).code, 0);
  const auto json = boost::json::parse(read_text("r.json"));
  EXPECT_EQ(json.at("pipeline"), "x.yaml");
  EXPECT_EQ(json.at("status"), "done");
  EXPECT_EQ(json.at("params").at("end"), ";");
  EXPECT_EQ(json.at("words"), (boost::json::value{"a", "b", "c"}));
  EXPECT_GE(json.at("seconds").as_double(), 0);
  EXPECT_FALSE(json.as_object().contains("error"));
}

TEST_F(Cli, WritesTheReportOfARunThatFails) {
  EXPECT_EQ(run({"x.yaml", "--json", "r.json", "--set", "fail_at=c"}).code, 1);
  const auto json = boost::json::parse(read_text("r.json"));
  EXPECT_EQ(json.at("status"), "failed");
  EXPECT_EQ(json.at("error"), "x.yaml:15:5: stage 'print' (Print): cannot say 'c'");
}

TEST_F(Cli, GivesStandardOutputToTheReportAlone) {
  const Finished f = run({"x.yaml", "--json", "-", "--quiet"});
  EXPECT_EQ(boost::json::parse(f.out).at("status"), "done");
  EXPECT_EQ(f.err, "a b c ");
}

TEST_F(Cli, GivesStandardOutputToTheTraceAlone) {
  const Finished f = run({"x.yaml", "--trace", "-", "--quiet"});
  EXPECT_TRUE(boost::json::parse(f.out).as_object().contains("traceEvents"));
  EXPECT_EQ(f.err, "a b c ");
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST_F(Cli, RefusesFilesThatCannotBeWrittenBeforeItRuns) {
  const std::string reason = "cannot write 'none/r.txt': No such file or directory\n";
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"x.yaml", "--json", "none/r.txt"}, "error: " + reason},
      {{"x.yaml", "--trace", "none/r.txt"}, "error: " + reason},
      {{"x.yaml", "--trace", "t.json", "--dot", "none/r.txt"}, "error: " + reason},
      {{"x.yaml", "--tap", "emit.word=none/r.txt"}, "error: tap emit.word: " + reason},
  };
  for (const auto& [arguments, message] : cases) {
    const Finished f = run(arguments);
    EXPECT_EQ(f.code, 1);
    EXPECT_EQ(f.out, "") << "nothing has run";
    EXPECT_EQ(f.err, message);
  }
}

TEST_F(Cli, FailsWithoutARemainderWhenAFileMayNotGrow) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Process process({"x.yaml", "--quiet", "--set", "words=a", "--trace", "t.json"},
                  {.out = "out.txt", .err = "err.txt"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(process.wait(), 1);
  EXPECT_EQ(read_text("err.txt"), "error: cannot write 't.json': File too large\n");
  for (const auto& file : std::filesystem::directory_iterator(".")) {
    EXPECT_THAT(file.path().string(), Not(HasSubstr("t.json")));
  }
}

TEST_F(Cli, LeavesNoFileBesidesTheReport) {
  EXPECT_EQ(run({"x.yaml", "--json", "r.json"}).code, 0);
  for (const auto& file : std::filesystem::directory_iterator(".")) {
    EXPECT_THAT(file.path().string(), Not(HasSubstr(".part")));
  }
  EXPECT_EQ(run({"x.yaml", "--json", "/dev/null"}).code, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null")) << "a device is written, not replaced";
}

TEST_F(Cli, RecordsTaps) {
  EXPECT_EQ(run({"x.yaml", "--tap", "emit.word=y.txt"}).code, 0);
  const std::string text = read_text("y.txt");
  EXPECT_THAT(text, HasSubstr("0.0.text a\n"));
  EXPECT_THAT(text, HasSubstr("2.0.text c\n"));
}

TEST_F(Cli, WritesATraceAndItsSummary) {
  const Finished f = run({"x.yaml", "--trace", "t.json", "--dot", "t.dot"});
  EXPECT_EQ(f.code, 0);
  EXPECT_EQ(f.out, "a b c ");
  EXPECT_THAT(f.err, HasSubstr("print"));
  EXPECT_NO_THROW((void)boost::json::parse(read_text("t.json")));
  EXPECT_THAT(read_text("t.dot"), StartsWith("digraph"));
}

TEST_F(Cli, ListsStagesServicesAndValues) {
  EXPECT_EQ(run({"--list-stages"}).out,
            "stages:\n  Emit   Sends words\n  Print  Prints words.\n"
            "\nservices:\n  Box  Holds memory.\n"
            "\nvalues:\n  Pair  Two numbers.\n");
}

TEST_F(Cli, DescribesATypeWithPortsOptionsAndServices) {
  EXPECT_EQ(run({"--describe", "Print"}).out,
            "Print (stage)\nPrints words.\n"
            "\ninputs:\n  word  Word  what to print\n"
            "\noutputs:\n  note  Note  never sent\n"
            "\noptions:\n"
            "  end       text            \" \"    after each word\n"
            "  fail_at   text            \"\"     the word that makes it fail\n"
            "  seconds   float, 0 to 60  0      how long a word takes\n"
            "  stubborn  bool            false  do not ask whether the run goes on\n"
            "\nservices:\n  box  Box  where words rest\n"
            "\nruns on the io executor\n");
  EXPECT_THAT(run({"--describe", "Emit"}).out, HasSubstr("\noutputs:\n  word  Word  one word\n"));
  EXPECT_EQ(run({"--describe", "Box"}).out,
            "Box (service)\nHolds memory.\n\noptions:\n  size  bytes  2.0 KiB  how much\n");
  EXPECT_EQ(run({"--describe", "Pair"}).out, "Pair (value)\nTwo numbers.\n");
}

TEST_F(Cli, ShowsTheParametersOfAPipeline) {
  const Finished f = run({"--help", "x.yaml"});
  EXPECT_EQ(f.code, 0);
  EXPECT_EQ(f.out,
            "x.yaml\nPrints words.\n"
            "\nparameters (--set NAME=VALUE):\n"
            "  words    texts           [\"a\",\"b\",\"c\"]  what to print\n"
            "  end      text            \" \"            after each word\n"
            "  fail_at  text            \"\"             a word that fails\n"
            "  seconds  float, 0 to 60  0              how long a word takes\n"
            "  forever  bool            false          never end\n"
            "  size     bytes           2.0 KiB        memory of the box\n"
            "  mode     text            \"fast\"         unused; one of: fast, slow\n"
            "  file     path            \"\"             unused\n");
}

TEST_F(Cli, KeepsTablesNarrow) {
  std::string words;
  for (int i = 0; i < 40; ++i) words += (i == 0 ? "" : " ") + std::string("word");
  write("wide.yaml", "params: {p: {type: text, default: \"" + words + "\", doc: \"" + words + "\"}}\n" +
                         "stages: [{name: a, stage: Emit}]\n");
  const Finished f = run({"--help", "wide.yaml"});
  EXPECT_THAT(f.out, HasSubstr("  p  text  \"word word word word ...  word word"));
  std::istringstream lines(f.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST_F(Cli, ShowsUsageAndVersion) {
  EXPECT_THAT(run({"--help"}).out, StartsWith("usage: dsv41-run FILE"));
  EXPECT_EQ(run({"-h"}).out, run({"--help"}).out);
  EXPECT_THAT(run({"--version"}).out, MatchesRegex("dsv41-run [0-9.]+\n"));
}

TEST_F(Cli, FindsPipelinesByNameInTheDataFolder) {
  std::filesystem::create_directories("home/graphs");
  write("home/pipelines/words.yaml", kGraph);
  setenv("DSV41_HOME", "home", 1);
  for (const char* name : {"words", "words.yaml", "pipelines/words.yaml"}) {
    EXPECT_EQ(run({name}).out, "a b c ") << name;
  }
}

TEST_F(Cli, EndsCleanlyOnTheFirstSignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Process process({"x.yaml", "--set", "forever=true", "--set", "seconds=0.05", "--json", "r.json"}, {});
    ASSERT_TRUE(process.printed("a b "));
    process.signal(signal);
    EXPECT_EQ(process.wait(), 130);
    EXPECT_THAT(read_text("stdout.txt"), StartsWith("a b "));
    EXPECT_THAT(read_text("stderr.txt"), HasSubstr("interrupted\n"));
    EXPECT_THAT(read_text("stderr.txt"), Not(HasSubstr("error:")));
    const auto json = boost::json::parse(read_text("r.json"));
    EXPECT_EQ(json.at("status"), "interrupted");
    EXPECT_EQ(json.at("words").at(0), "a") << "what was done is kept";
  }
}

TEST_F(Cli, EndsAtOnceOnTheSecondSignal) {
  write("stubborn.yaml",
        "services: {box: {type: Box}}\n"
        "stages: [{name: e, stage: Emit}, {name: p, stage: Print, in: {word: e.word}, "
        "options: {stubborn: true, seconds: 60}}]\n");
  Process process({"stubborn.yaml"}, {});
  ASSERT_TRUE(process.printed("a "));
  for (int i = 0; i < 3; ++i) {  // signals that come close together count as one
    process.signal(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(process.wait(), 130);
}

TEST_F(Cli, EndsCleanlyWhenNobodyReads) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
  Process process({"x.yaml", "--set", "forever=true"}, {.out_fd = pipe_ends[1]});
  ::close(pipe_ends[1]);
  char buffer[5];
  ASSERT_GT(::read(pipe_ends[0], buffer, sizeof buffer), 0);
  ::close(pipe_ends[0]);
  EXPECT_EQ(process.wait(), 0);
  EXPECT_THAT(read_text("stderr.txt"), Not(HasSubstr("error:")));
}

TEST_F(Cli, EndsCleanlyWhenNobodyReadsAReportOrADrawing) {
  for (const char* option : {"--json", "--dot", "--trace"}) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
    ::close(pipe_ends[0]);
    Process process({"x.yaml", option, "-", "--quiet"}, {.out_fd = pipe_ends[1]});
    ::close(pipe_ends[1]);
    EXPECT_EQ(process.wait(), 0) << option;
    EXPECT_THAT(read_text("stderr.txt"), Not(HasSubstr("error:"))) << option;
  }
}

TEST_F(Cli, FailsWhenStandardOutputIsFull) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  Process process({"x.yaml", "--quiet"}, {.out_fd = full});
  EXPECT_EQ(process.wait(), 1);
  EXPECT_EQ(read_text("stderr.txt"), "error: cannot write to standard output: No space left on device\n");
  ::close(full);
}

}  // namespace
}  // namespace cli_test
