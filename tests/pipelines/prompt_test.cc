// Prompts from files and pipes, and sampling at its limits.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "tests/pipelines/pipeline_run.h"

namespace dsv::testing {
namespace {

using ::testing::HasSubstr;

std::string text_of(const std::string& pipeline, const Sets& sets) {
  const Outcome run = run_pipeline("pipelines/" + pipeline, sets);
  EXPECT_TRUE(run.status.ok()) << run.status.message();
  return run.text;
}

TEST(Sampling, AtALowTemperatureGivesTheMostProbableTokens) {
  const std::pair<std::string, std::string> prompt{"prompt", "The city of"};
  const std::string greedy = text_of("greedy.yaml", {prompt});
  for (const char* temperature : {"0.002", "1e-4", "1e-9", "1e-300"}) {
    EXPECT_EQ(text_of("sample.yaml", {prompt, {"temperature", temperature}}), greedy) << temperature;
  }
}

TEST(APromptFile, LosesItsLastLineBreakAlone) {
  const TemporaryFolder folder;
  const std::string whole = text_of("greedy.yaml", {{"prompt", "Tokyo is the capital of"}});
  for (const char* end : {"", "\n", "\r\n"}) {
    std::ofstream(folder / "prompt.txt") << "Tokyo is the capital of" << end;
    EXPECT_EQ(text_of("greedy.yaml", {{"prompt_file", folder / "prompt.txt"}}), whole);
  }
  std::ofstream(folder / "prompt.txt") << "Tokyo is\n\n";
  EXPECT_EQ(text_of("greedy.yaml", {{"prompt_file", folder / "prompt.txt"}}),
            text_of("greedy.yaml", {{"prompt", "Tokyo is\n"}}));
}

TEST(APromptFile, ThatCannotBeReadOrNeverEndsIsNamed) {
  const TemporaryFolder folder;
  const auto error = [](const std::string& file) {
    return run_pipeline("pipelines/greedy.yaml", {{"prompt_file", file}}).status.message();
  };
  EXPECT_THAT(error(folder / ""), HasSubstr("': Is a directory"));
  EXPECT_THAT(error(folder / "none"), HasSubstr("none': No such file or directory"));
  EXPECT_THAT(error("/dev/zero"), HasSubstr("'/dev/zero': is longer than 16.0 MiB"));
}

/// The program, waiting for a prompt from a pipe that nobody writes to, ended by `signal` after `delay`.
int exit_code_of_wait(const std::string& pipe, const std::string& overlay, int signal,
                      std::chrono::milliseconds delay) {
  const pid_t child = fork();
  if (child == 0) {
    execl(DSV41_PROGRAM, "dsv41-run", "pipelines/greedy.yaml", overlay.c_str(), "--quiet", "--set",
          ("prompt_file=" + pipe).c_str(), nullptr);
    _exit(127);
  }
  std::this_thread::sleep_for(delay);
  kill(child, signal);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(APromptFromAPipe, IsWaitedForLongerThanTheWatchdogAndGivenUpAtASignal) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::ofstream(folder / "impatient.yaml") << "runtime: {watchdog: 1}\n";
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EQ(exit_code_of_wait(folder / "pipe", folder / "impatient.yaml", signal, std::chrono::seconds(3)),
              130);
  }
}

}  // namespace
}  // namespace dsv::testing
