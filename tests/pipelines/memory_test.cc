// What `--dry-run` predicts is what a run takes.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "stages/audit/synth.h"
#include "tests/pipelines/pipeline_run.h"

namespace dsv::testing {
namespace {

/// The plan counts a full cache; two active experts fill one of two slots.
constexpr const char* kCache = "expert_cache=2";

/// Peak resident bytes of a run of the program in a process of its own.
std::uint64_t peak_memory(const std::string& checkpoint) {
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    execl(DSV41_PROGRAM, "dsv41-run", "pipelines/greedy.yaml", "--quiet", "--set",
          ("checkpoint=" + checkpoint).c_str(), "--set", "prompt_ids=0,5,9,7,11,13", "--set",
          "max_new_tokens=30", "--set", kCache, nullptr);
    _exit(127);
  }
  int status = 0;
  struct rusage usage {};
  wait4(child, &status, 0, &usage);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::uint64_t planned_memory(const std::string& checkpoint) {
  flow::LoadOutcome loaded =
      flow::load_graph({.files = {source("pipelines/greedy.yaml")},
                        .sets = {{"checkpoint", checkpoint}, {"max_new_tokens", "30"}, {"expert_cache", "2"}},
                        .data_dirs = flow::data_dirs()});
  EXPECT_TRUE(loaded.plan.has_value()) << fmt::format("{}", fmt::join(loaded.errors, "\n"));
  flow::Runner runner(std::move(*loaded.plan), {});
  auto lines = runner.dry_run();
  EXPECT_TRUE(lines.ok()) << lines.status().message();
  std::uint64_t total = 0;
  for (const flow::PlanLine& line : *lines) total += line.resident_bytes;
  return total;
}

/// The demo's structure with wide layers: some hundred MiB of dense weights and experts.
std::string wide_checkpoint(const TemporaryFolder& folder) {
  std::ifstream file(source("pipelines/demo/inference/config.json"));
  boost::json::object c =
      boost::json::parse(std::string((std::istreambuf_iterator<char>(file)), {})).as_object();
  c["dim"] = 2048;
  c["moe_inter_dim"] = 1024;
  c["q_lora_rank"] = 512;
  c["n_heads"] = 32;
  c["o_groups"] = 8;
  c["o_lora_rank"] = 256;
  std::ofstream(folder / "config.json") << boost::json::serialize(c);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    std::filesystem::copy_file(source(std::string("pipelines/demo/") + name), folder / name);
  }
  auto config = load_config(folder / "config.json");
  EXPECT_TRUE(config.ok()) << config.status().message();
  auto written = synthesize(*config, folder / "checkpoint", {.payload = SynthPayload::Sparse});
  EXPECT_TRUE(written.ok()) << written.status().message();
  return folder / "checkpoint";
}

TEST(DryRun, PredictsThePeakMemoryOfARunWithinTenPercent) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers multiply memory";
#endif
  const TemporaryFolder folder;
  const std::string checkpoint = wide_checkpoint(folder);
  const std::uint64_t program = peak_memory("demo") - planned_memory("demo");  // code, libraries, tokenizer
  const auto planned = static_cast<double>(planned_memory(checkpoint)),
             taken = static_cast<double>(peak_memory(checkpoint) - program);
  std::printf("planned %.1f MiB, taken %.1f MiB, program %.1f MiB\n", planned / (1 << 20), taken / (1 << 20),
              static_cast<double>(program) / (1 << 20));
  EXPECT_GT(planned, 150.0 * (1 << 20));
  EXPECT_NEAR(taken, planned, 0.1 * planned);
}

}  // namespace
}  // namespace dsv::testing
