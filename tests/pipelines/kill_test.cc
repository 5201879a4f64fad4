// What ends a run in its middle: a bad disk, the user, a stage that throws or hangs.
#include <gmock/gmock.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/framework/cli_process.h"
#include "tests/pipelines/pipeline_run.h"
#include "tests/pipelines/saboteur.h"

namespace dsv::testing {
namespace {

using namespace std::chrono_literals;
using cli_test::read_text;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr auto kSoon = 10s;
#else
constexpr auto kSoon = 1s;
#endif

/// Every kind of stage of greedy.yaml.
const Sets kAllStages = {{"predictor", "gate"}, {"dense", "streamed"}, {"expert_cache", "2"}};

std::string overlay(const TemporaryFolder& folder, const std::string& io) {
  std::ofstream(folder / "io.yaml") << "services: {io: {" << io << "}}\n";
  return folder / "io.yaml";
}

TEST(DiskError, InTheMiddleOfAStepEndsTheRunWithFileAndOffset) {
  const TemporaryFolder folder;
  for (const char* backend : {"io_uring", "pread", "mmap"}) {
    for (const auto& [fault, words] :
         {std::pair{"eio", ": cannot read at offset "}, {"short", ", in the middle of a read"}}) {
      for (const int at : {1, 5, 60, 110}) {
        const std::string what = fmt::format("backend: {}, fault: {}@{}", backend, fault, at);
        const std::string tap = folder / "logits.safetensors";
        flow::LoadOutcome loaded =
            flow::load_graph({.files = {source("pipelines/greedy.yaml"), overlay(folder, what)},
                              .sets = {},
                              .data_dirs = flow::data_dirs()});
        ASSERT_TRUE(loaded.plan);
        flow::Runner runner(std::move(*loaded.plan), {.taps = {{"backbone.head.logits", tap}}});
        const std::string message = runner.run().message();
        EXPECT_THAT(message, AllOf(HasSubstr("yaml:"), HasSubstr(": stage 'backbone."), HasSubstr("layers."),
                                   HasSubstr(".safetensors: "), HasSubstr(words)))
            << what;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        EXPECT_FALSE(runner.left_behind()) << what;
        EXPECT_FALSE(std::filesystem::exists(tap)) << what;
      }
    }
  }
}

TEST(Interrupt, EndsAColdPrefillFromASlowDiskInUnderASecond) {
  const TemporaryFolder folder;
  for (const char* io : {"backend: io_uring, delay: 0.5, depth: 1", "backend: pread, delay: 0.5, depth: 2",
                         "backend: mmap, delay: 0.5, depth: 1", "backend: auto, delay: 60"}) {
    const std::string err = folder / "err.txt";
    cli_test::Process process({source("pipelines/greedy.yaml"), overlay(folder, io)},
                              {.out = folder / "out.txt", .err = err});
    for (int i = 0; i < 1000 && read_text(err).find("left in the shards") == std::string::npos; ++i)
      std::this_thread::sleep_for(10ms);
    std::this_thread::sleep_for(300ms);  // into the prefill
    const auto begin = Clock::now();
    process.signal(SIGINT);
    EXPECT_EQ(process.wait(), 130) << io << "\n" << read_text(err);
    EXPECT_LT(Clock::now() - begin, kSoon) << io;
    EXPECT_EQ(read_text(folder / "out.txt"), "");
  }
}

/// Runs the program where the kernel refuses io_uring, as containers do.
cli_test::Finished run_without_uring(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), DSV41_CLI_PROGRAM);
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  const std::string out = folder / "out.txt", err = folder / "err.txt";
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{4, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
      _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000, read_text(out), read_text(err)};
}

TEST(IoUring, ThatTheKernelRefusesIsReportedAndReplacedUnlessItWasAskedFor) {
  const TemporaryFolder folder;
  const auto fallen = run_without_uring(folder, {source("pipelines/greedy.yaml")});
  if (fallen.code == 126) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(fallen.code, 0) << fallen.err;
  EXPECT_EQ(fallen.out, " Paris.");
  EXPECT_THAT(fallen.err,
              AllOf(HasSubstr("io: the kernel refuses io_uring (Operation not permitted); pread instead\n"),
                    HasSubstr("io: pread, 8 threads\n")));
  const auto refused = run_without_uring(folder, {source("pipelines/greedy.yaml"), "--set", "io=io_uring"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err,
              HasSubstr("service 'io' (Storage): the kernel refuses io_uring (Operation not permitted)"));
}

flow::GraphPlan whole_plan() {
  flow::LoadOutcome loaded = load_pipeline({"pipelines/greedy.yaml"}, kAllStages);
  EXPECT_TRUE(loaded.plan) << fmt::format("{}", fmt::join(loaded.errors, "\n"));
  return std::move(*loaded.plan);
}

/// One node for each place in the graph: of repeated layers the last one.
std::vector<std::string> positions() {
  const flow::GraphPlan plan = whole_plan();
  std::map<std::string, std::string> last;
  for (const flow::NodePlan& node : plan.nodes) {
    std::string pattern = node.name;
    std::erase_if(pattern, [](char c) { return c >= '0' && c <= '9'; });
    last[pattern] = node.name;
  }
  std::vector<std::string> names;
  for (const auto& [pattern, name] : last) names.push_back(name);
  return names;
}

/// Runs the graph with `before` in front of one stage.
flow::Status run_with(const std::string& name, double watchdog, const Before& before,
                      bool* left_behind = nullptr) {
  flow::GraphPlan plan = whole_plan();
  wrap(plan.nodes[static_cast<std::size_t>(plan.node(name))], before);
  plan.runtime.watchdog = watchdog;
  flow::Runner runner(std::move(plan), {});
  flow::Status status = runner.run();
  if (left_behind) *left_behind = runner.left_behind();
  return status;
}

TEST(AStage, ThatThrowsInAnyPositionEndsTheRunWithItsName) {
  const auto names = positions();
  EXPECT_GE(names.size(), 20u);
  for (const std::string& name : names) {
    bool left_behind = false;
    const flow::Status status = run_with(
        name, 120, [](flow::Context&) -> flow::Status { throw std::runtime_error("sabotage"); },
        &left_behind);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("yaml:"), HasSubstr(": stage '" + name + "' ("),
                                        HasSubstr("): exception: sabotage")));
    EXPECT_FALSE(left_behind) << name;
  }
  EXPECT_EQ(run_pipeline("pipelines/greedy.yaml", kAllStages).text, " Paris.") << "the process goes on";
}

/// Runs all positions side by side.
void hang_everywhere(const std::function<void(flow::Context&)>& hang, bool expect_left_behind) {
  std::vector<std::thread> threads;
  for (const std::string& name : positions()) {
    threads.emplace_back([&, name] {
      bool left_behind = false;
      const flow::Status status = run_with(
          name, 3,
          [hang](flow::Context& context) -> flow::Status {
            hang(context);
            return {};
          },
          &left_behind);
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr(": stage '" + name + "' ("), HasSubstr("): no progress for 3 s"),
                        HasSubstr("in its body: '" + name + "'")));
      EXPECT_EQ(left_behind, expect_left_behind) << name;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(AStage, ThatHangsInAnyPositionIsNamedByTheWatchdog) {
  hang_everywhere(
      [](flow::Context& context) {
        while (!context.cancelled()) std::this_thread::sleep_for(1ms);
      },
      false);
  EXPECT_EQ(run_pipeline("pipelines/greedy.yaml", kAllStages).text, " Paris.") << "the process goes on";
}

TEST(AStage, ThatNeverReturnsInAnyPositionIsNamedAndLeftBehind) {
  struct Door {
    std::mutex mutex;
    std::condition_variable change;
    bool open = false;
    int behind = 0;
  };
  const auto door = std::make_shared<Door>();
  hang_everywhere(
      [door](flow::Context&) {
        std::unique_lock lock(door->mutex);
        ++door->behind;
        door->change.wait(lock, [&] { return door->open; });
        --door->behind;
        door->change.notify_all();
      },
      true);
  EXPECT_EQ(run_pipeline("pipelines/greedy.yaml", kAllStages).text, " Paris.") << "the process goes on";
  std::unique_lock lock(door->mutex);
  door->open = true;
  door->change.notify_all();
  door->change.wait(lock, [&] { return door->behind == 0; });
  lock.unlock();
  std::this_thread::sleep_for(300ms);  // for what is closed after them
}

}  // namespace
}  // namespace dsv::testing
