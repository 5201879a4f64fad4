// Bad input of `pipelines/greedy.yaml`: one located message, and nothing half-written.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "stages/audit/synth.h"
#include "stages/model/file.h"
#include "tests/pipelines/pipeline_run.h"

namespace dsv::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kGreedy = "pipelines/greedy.yaml";

/// Runs greedy on a copy of the demo's geometry that is broken in one way.
std::string message_of(const std::string& fault) {
  const TemporaryFolder folder;
  auto config = load_config(source("pipelines/demo"));
  EXPECT_TRUE(config.ok()) << config.status().message();
  auto parsed = parse_synth_fault(fault);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  auto written = synthesize(*config, folder / "c", {.payload = SynthPayload::Sparse, .faults = {*parsed}});
  EXPECT_TRUE(written.ok()) << written.status().message();
  const std::string tap = folder / "logits.safetensors";
  const Outcome run = run_pipeline(kGreedy, {{"checkpoint", folder / "c"}}, {{"backbone.head.logits", tap}});
  EXPECT_FALSE(run.status.ok()) << fault;
  EXPECT_FALSE(std::filesystem::exists(tap)) << fault;
  EXPECT_EQ(run.text, "") << fault;
  EXPECT_EQ(run.status.message().find('\n'), std::string::npos) << run.status.message();
  return run.status.message();
}

TEST(BrokenCheckpoint, IsRefusedWithTheTensorAndWhatWasFoundAndExpected) {
  struct Case {
    const char* fault;
    std::vector<const char*> words;
  };
  const Case cases[] = {
      {"omit 3", {"greedy.yaml", "service 'model'", "incomplete download?"}},
      {"truncate 3", {"service 'model'", ".safetensors"}},
      {"lose layers.2.attn.wkv.weight", {"layers.2.attn.wkv.weight"}},
      {"drop layers.3.attn_norm.weight", {"layers.3.attn_norm.weight"}},
      {"reshape layers.0.attn.wq_a.weight 32,128", {"layers.0.attn.wq_a.weight", "[32, 128]", "[64, 128]"}},
      {"reshape layers.0.attn.wq_a.scale 1,1", {"layers.0.attn.wq_a.scale", "[1, 1]", "[2, 4]"}},
      {"retype norm.weight F32", {"norm.weight", "F32", "BF16"}},
      {"reshape layers.1.ffn.experts.3.w2.weight 128,16", {"layers.1.ffn.experts.3.w2.weight", "[128, 32]"}},
      {"short head.weight", {"head.weight"}},
      {"overlap layers.0.ffn_norm.weight", {"layers.0.ffn_norm.weight"}},
      {"duplicate norm.weight", {"norm.weight"}},
  };
  for (const Case& c : cases) {
    const std::string message = message_of(c.fault);
    for (const char* word : c.words) EXPECT_THAT(message, HasSubstr(word)) << c.fault;
  }
}

/// Overwrites the bytes of one tensor of a checkpoint.
void damage(const std::string& checkpoint, const std::string& tensor, std::uint8_t value) {
  const auto opened = Checkpoint::open(checkpoint);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const TensorInfo& info = *(*opened)->find(tensor);
  std::fstream file((*opened)->file_of(info).path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(info.begin + info.bytes() / 2));
  for (int i = 0; i < 4; ++i) file.put(static_cast<char>(value));
}

TEST(AWeightThatIsNoNumber, IsNamedWhateverItsTypeAndTheKernels) {
  for (const auto& [tensor, value] : {std::pair<const char*, std::uint8_t>{"layers.5.attn.wq_a.weight", 0x7f},
                                      {"layers.5.attn.wq_a.scale", 0xff},
                                      {"layers.3.ffn.gate.bias", 0xff},
                                      {"layers.4.attn_norm.weight", 0xff}}) {
    const TemporaryFolder folder;
    std::filesystem::copy(source("pipelines/demo"), folder / "c", std::filesystem::copy_options::recursive);
    damage(folder / "c", tensor, value);
    for (const char* kernels : {"", "portable"}) {
      const Outcome run = run_pipeline(kGreedy, {{"checkpoint", folder / "c"}, {"kernels", kernels}});
      EXPECT_THAT(run.status.message(),
                  AllOf(HasSubstr("service 'model'"), HasSubstr(std::string(tensor) + ": element "),
                        HasSubstr("is not a finite number; the file is damaged")));
      EXPECT_EQ(run.text, "");
    }
  }
}

TEST(BadPrompt, IsRefusedAtItsStage) {
  const auto message = [](const Sets& sets) { return run_pipeline(kGreedy, sets).status.message(); };
  EXPECT_THAT(message({{"prompt", ""}}),
              AllOf(HasSubstr("stage 'tokenize'"), HasSubstr("the prompt is empty")));
  EXPECT_THAT(message({{"prompt", "ab\xff"}}),
              AllOf(HasSubstr("prompt"), HasSubstr("UTF-8"), HasSubstr("2")));
  EXPECT_THAT(message({{"prompt_ids", "0,2048"}}),
              AllOf(HasSubstr("stage 'tokens'"), HasSubstr("id 2048 is outside the vocabulary of 2048")));
  EXPECT_THAT(message({{"prompt_ids", "-1"}}), HasSubstr("-1 is not a token id"));
  EXPECT_THAT(message({{"continuation_ids", "5,99999"}}), HasSubstr("id 99999 is outside the vocabulary"));
  EXPECT_THAT(message({{"prompt_file", "/nowhere/prompt.txt"}}), HasSubstr("/nowhere/prompt.txt"));
  EXPECT_THAT(message({{"prompt_file", "x"}, {"prompt_ids", "1"}}), HasSubstr("only one of"));
}

TEST(BadConfiguration, IsRefusedBeforeAnythingIsLoaded) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& key, const boost::json::value& value) {
    std::ifstream file(source("pipelines/demo/inference/config.json"));
    boost::json::object c =
        boost::json::parse(std::string((std::istreambuf_iterator<char>(file)), {})).as_object();
    if (value.is_null())
      c.erase(key);
    else
      c[key] = value;
    std::ofstream(folder / "config.json") << boost::json::serialize(c);
    return run_pipeline(kGreedy, {{"checkpoint", folder / "config.json"}}).status.message();
  };
  EXPECT_THAT(message("hc_mult", nullptr), HasSubstr("hc_mult"));
  EXPECT_THAT(message("engram_layer_ids", boost::json::array{}),
              HasSubstr("engram_num_embeddings has 2 entries, but engram_layer_ids has 0"));
  EXPECT_THAT(message("candidate_source_layer", 3), HasSubstr("candidate_source_layer"));
  EXPECT_THAT(message("kv_source_layers", boost::json::array{5}), HasSubstr("source"));
  EXPECT_THAT(message("dim", "wide"), AllOf(HasSubstr("dim"), HasSubstr("config.json")));
}

TEST(BadConfiguration, IsRefusedByAnEmptyPath) {
  EXPECT_THAT(run_pipeline(kGreedy, {{"checkpoint", ""}}).status.message(),
              HasSubstr("the path of the checkpoint is empty; 'demo' is the built-in one"));
}

TEST(StrayShard, IsNamedInTheLoadReport) {
  const TemporaryFolder folder;
  std::filesystem::copy(source("pipelines/demo"), folder / "c", std::filesystem::copy_options::recursive);
  const std::vector<TensorData> tensors = {{"x", DType::U8, {1}, std::vector<std::byte>(1)}};
  ASSERT_TRUE(write_safetensors(folder / "c/stray.safetensors", tensors).ok());
  const Outcome run = run_pipeline(kGreedy, {{"checkpoint", folder / "c"}});
  EXPECT_TRUE(run.status.ok()) << run.status.message();
  EXPECT_THAT(run.notes, HasSubstr("load: ignored, for the index does not name them: stray.safetensors"));
}

/// Exit code and all output of setup.sh.
std::pair<int, std::string> run_setup(const std::string& arguments) {
  FILE* output = popen((source("setup.sh") + " " + arguments + " 2>&1").c_str(), "r");
  std::string text(1 << 16, '\0');
  text.resize(fread(text.data(), 1, text.size(), output));
  const int status = pclose(output);
  return {WEXITSTATUS(status), text};
}

TEST(Setup, PrintsItsUsageOnRequestAndRefusesAnArgumentThatItDoesNotKnow) {
  const auto [helped, usage] = run_setup("--help");
  EXPECT_EQ(helped, 0);
  EXPECT_THAT(usage, ::testing::StartsWith("Usage: ./setup.sh [STEP]"));
  const auto [refused, error] = run_setup("foo");
  EXPECT_EQ(refused, 2);
  EXPECT_THAT(error, AllOf(HasSubstr("error: setup.sh: unknown argument: foo"), HasSubstr(usage)));
}

/// Writes of the child that reach beyond the limit fail, as on a full disk.
TEST(Tap, LeavesNothingBehindWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  const std::string tap = folder / "logits.safetensors";
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const int errors = open((folder / "errors").c_str(), O_CREAT | O_WRONLY, 0600);
    dup2(errors, STDERR_FILENO);
    execl(DSV41_PROGRAM, "dsv41-run", "pipelines/greedy.yaml", "--quiet", "--tap",
          ("backbone.head.logits=" + tap).c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::ifstream file(folder / "errors");
  const std::string errors((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(WEXITSTATUS(status), 1) << errors;
  EXPECT_THAT(errors, HasSubstr("logits.safetensors"));
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / "")) ++files;
  EXPECT_EQ(files, 1) << "only the errors";
}

}  // namespace
}  // namespace dsv::testing
