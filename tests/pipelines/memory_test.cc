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

using Arguments = std::vector<std::string>;

/// Runs the program, silent, in a process of its own; its peak resident bytes.
std::uint64_t run_program(Arguments arguments) {
  arguments.insert(arguments.begin(), {"dsv41-run", "pipelines/greedy.yaml", "--quiet"});
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    execv(DSV41_PROGRAM, words.data());
    _exit(127);
  }
  int status = 0;
  struct rusage usage {};
  wait4(child, &status, 0, &usage);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::uint64_t planned_memory(Arguments arguments, const std::string& file) {
  arguments.insert(arguments.end(), {"--dry-run", "--json", file});
  run_program(std::move(arguments));
  std::ifstream in(file);
  const auto plan = boost::json::parse(std::string((std::istreambuf_iterator<char>(in)), {}));
  return plan.at("total").at("resident_bytes").to_number<std::uint64_t>();
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
  std::vector<int> prompt(1000);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int>(3 + i % 400);
  const std::string ids = "prompt_ids=" + list(prompt);
  for (const Arguments& given : std::vector<Arguments>{{"prompt_ids=0,5,9,7,11,13", "expert_cache=2"},
                                                       {"prompt_ids=0,5,9,7,11,13", "expert_cache=1"},
                                                       {ids, "expert_cache=2"},
                                                       {ids, "expert_cache=2", "prefill_chunk=64"}}) {
    Arguments arguments{"--set", "checkpoint=" + checkpoint, "--set", "max_new_tokens=30"};
    for (const std::string& set : given) arguments.insert(arguments.end(), {"--set", set});
    const auto planned = static_cast<double>(planned_memory(arguments, folder / "plan.json")),
               taken = static_cast<double>(run_program(arguments));
    std::printf("planned %.1f MiB, taken %.1f MiB: %s\n", planned / (1 << 20), taken / (1 << 20),
                given.back().c_str());
    EXPECT_GT(planned, 100.0 * (1 << 20));
    EXPECT_NEAR(taken, planned, 0.1 * planned) << given.back();
  }
}

}  // namespace
}  // namespace dsv::testing
