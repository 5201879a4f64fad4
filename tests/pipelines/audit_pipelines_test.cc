// pipelines/config.yaml, audit.yaml, engram.yaml and synth.yaml, run as the command line tool runs them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "stages/model/json.h"
#include "tests/pipelines/pipeline_run.h"

namespace dsv::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kReleased = source("tests/golden/released");

TEST(ConfigPipeline, PrintsTheFileItsLayoutItsShapeAndTheVerdict) {
  const Outcome nested = run_pipeline("pipelines/config.yaml", {{"checkpoint", kReleased}});
  EXPECT_TRUE(nested.status.ok()) << nested.status.message();
  EXPECT_EQ(nested.text,
            kReleased +
                "/config.json (nested)\n"
                "  40 layers + 3 draft, dim 5120, 64 heads of 512, 384 experts (6 active); Engram on "
                "layers [1, 14], vision 32 layers, DSpark blocks of 5 from layers [37, 38, 39]\n"
                "  [ok] the config is self-consistent\n");
  EXPECT_EQ(nested.report.at("config").at("layout"), "nested");
  const Outcome demo = run_pipeline("pipelines/config.yaml", {});
  EXPECT_TRUE(demo.status.ok()) << demo.status.message();
  EXPECT_THAT(demo.text, HasSubstr("[ok]"));
}

TEST(ConfigPipeline, ListsTheTwelveDifferencesOfTheReleasedPairAndSucceeds) {
  const Outcome outcome =
      run_pipeline("pipelines/config.yaml",
                   {{"checkpoint", kReleased}, {"against", kReleased + "/inference/config.json"}});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("12 fields differ from"), HasSubstr("  eos_token_id: 1 | absent\n")));
  EXPECT_EQ(outcome.report.at("config_differences").as_array().size(), 12u);
}

TEST(ConfigPipeline, WritesTheFlatLayoutBack) {
  TemporaryFolder folder;
  const Outcome outcome =
      run_pipeline("pipelines/config.yaml", {{"checkpoint", kReleased}, {"flat_out", folder / "flat.json"}});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_EQ(boost::json::serialize(*load_json(folder / "flat.json")),
            boost::json::serialize(*load_json(kReleased + "/inference/config.json")));
}

TEST(ConfigPipeline, WritesTheFlatLayoutThroughALinkAndIntoAPipeAndLeavesBothWhatTheyAre) {
  namespace fs = std::filesystem;
  TemporaryFolder folder;
  const auto write_to = [](const std::string& target) {
    return run_pipeline("pipelines/config.yaml", {{"flat_out", target}}).status;
  };
  ASSERT_TRUE(write_to(folder / "flat.json").ok());
  const auto size = static_cast<ssize_t>(fs::file_size(folder / "flat.json"));
  fs::create_symlink("target.json", folder / "link.json");
  EXPECT_TRUE(write_to(folder / "link.json").ok());
  EXPECT_TRUE(fs::is_symlink(folder / "link.json"));
  EXPECT_EQ(fs::file_size(folder / "target.json"), size);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int reader = ::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_TRUE(write_to(folder / "pipe").ok());
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
  std::string received(1 << 16, '\0');
  EXPECT_EQ(::read(reader, received.data(), received.size()), size);
  ::close(reader);
}

TEST(ConfigPipeline, RefusesAnEmptyPath) {
  const Outcome outcome = run_pipeline("pipelines/config.yaml", {{"checkpoint", ""}});
  EXPECT_THAT(outcome.status.message(), HasSubstr("the path of the checkpoint is empty"));
}

TEST(ConfigPipeline, LocatesEachProblemInTheFile) {
  TemporaryFolder folder;
  boost::json::value config = *load_json(kReleased + "/inference/config.json");
  config.as_object()["hc_sinkhorn_iters"] = 2147483647;
  std::ofstream(folder / "config.json") << boost::json::serialize(config);
  const Outcome outcome = run_pipeline("pipelines/config.yaml", {{"checkpoint", folder / "config.json"}});
  EXPECT_THAT(outcome.text,
              ::testing::ContainsRegex(
                  "\\[fail\\] 1:[0-9]+: hc_sinkhorn_iters is 2147483647, expected at most 1000"));
}

TEST(ConfigPipeline, FailsAfterNamingEveryProblem) {
  TemporaryFolder folder;
  boost::json::value config = *load_json(kReleased + "/inference/config.json");
  config.as_object()["candidate_source_layer"] = 21;
  config.as_object().erase("dim");
  std::ofstream(folder / "config.json") << boost::json::serialize(config);
  const Outcome outcome = run_pipeline("pipelines/config.yaml", {{"checkpoint", folder / "config.json"}});
  EXPECT_THAT(outcome.status.message(), HasSubstr("the config has 2 problems"));
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("[fail] key 'dim' is missing"),
                                  HasSubstr(": candidate_source_layer 21 is no index source")));
}

TEST(AuditPipeline, PassesOnTheDemoCheckpoint) {
  const Outcome outcome = run_pipeline("pipelines/audit.yaml", {{"require_complete", "true"}});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_THAT(outcome.text, HasSubstr("[ok] 39 of 39 checks passed, 0 undecided, 0 failed"));
  EXPECT_EQ(outcome.report.at("audit").at("tensors"), 1308);
}

TEST(AuditPipeline, ListsTensorsAfterTheReport) {
  const Outcome outcome = run_pipeline("pipelines/audit.yaml", {{"list_tensors", "head.*"}});
  EXPECT_THAT(
      outcome.text,
      ::testing::EndsWith("head.weight\tBF16\t[2048, 128]\t524288\tmodel-00004-of-00006.safetensors\n"));
}

TEST(AuditPipeline, ChecksWhatTheSynthPipelineWroteAndFailsOnWhatItBroke) {
  TemporaryFolder folder;
  const Outcome whole =
      run_pipeline("pipelines/synth.yaml", {{"out", folder / "whole"}, {"set", "n_routed_experts=4"}});
  EXPECT_TRUE(whole.status.ok()) << whole.status.message();
  EXPECT_THAT(whole.text, HasSubstr("tensors"));
  EXPECT_TRUE(run_pipeline("pipelines/audit.yaml", {{"checkpoint", folder / "whole"}}).status.ok());

  const Outcome broken = run_pipeline(
      "pipelines/synth.yaml",
      {{"out", folder / "broken"}, {"faults", list<std::string>({"drop norm.weight", "omit 12"})}});
  EXPECT_TRUE(broken.status.ok()) << broken.status.message();
  const Outcome audit = run_pipeline("pipelines/audit.yaml", {{"checkpoint", folder / "broken"}});
  EXPECT_THAT(audit.status.message(), HasSubstr("the audit has 1 failed and"));
  EXPECT_THAT(audit.text,
              HasSubstr("[fail] embedding, head and every layer have their full set, and nothing else "
                        "(norm.weight is missing)"));
}

TEST(AuditPipeline, FailsOnUndecidedChecksOnlyOnRequest) {
  TemporaryFolder folder;
  run_pipeline("pipelines/synth.yaml", {{"out", folder / "x"}, {"faults", "omit 15"}});
  const Sets sets = {{"checkpoint", folder / "x"}};
  const Outcome lenient = run_pipeline("pipelines/audit.yaml", sets);
  EXPECT_TRUE(lenient.status.ok()) << lenient.status.message();
  EXPECT_THAT(lenient.text, HasSubstr("waits for model-00015-of-00016.safetensors"));
  const Outcome strict =
      run_pipeline("pipelines/audit.yaml", {{"checkpoint", folder / "x"}, {"require_complete", "true"}});
  EXPECT_FALSE(strict.status.ok());
}

TEST(AuditPipeline, SamplesThePayloadOnRequest) {
  const Outcome sound = run_pipeline("pipelines/audit.yaml", {{"sample_payload", "5"}});
  EXPECT_TRUE(sound.status.ok()) << sound.status.message();
  EXPECT_THAT(sound.text, HasSubstr("payload sample: 25 tensors of 6 shards"));
  EXPECT_EQ(sound.report.at("payload").at("faults").as_array().size(), 0u);

  TemporaryFolder folder;
  run_pipeline("pipelines/synth.yaml", {{"out", folder / "holes"}});
  const Outcome holes =
      run_pipeline("pipelines/audit.yaml", {{"checkpoint", folder / "holes"}, {"sample_payload", "5"}});
  EXPECT_THAT(holes.status.message(), HasSubstr("the payload sample has "));
  EXPECT_THAT(holes.text, HasSubstr("nothing but zeros in it"));
}

TEST(AuditPipeline, PlansARunOnRequest) {
  const Outcome outcome = run_pipeline("pipelines/audit.yaml", {{"plan", "true"}, {"expert_cache", "4"}});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("plan for this machine"), HasSubstr("4 of 16 experts")));
  EXPECT_EQ(outcome.report.at("plan").at("experts_cached"), 4);
}

TEST(AuditPipeline, WatchesADownloadAndReportsEachTimeWhenSomethingArrived) {
  namespace fs = std::filesystem;
  TemporaryFolder folder;
  const fs::path whole = source("pipelines/demo"), target = folder / "download";
  fs::create_directory(target);
  for (const char* name : {"config.json", "model.safetensors.index.json"})
    fs::copy(whole / name, target / name);
  std::jthread download([&] {
    for (const auto& file : fs::directory_iterator(whole)) {
      if (file.path().extension() != ".safetensors") continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      fs::copy(file, target / file.path().filename());
    }
  });
  const Outcome outcome = run_pipeline("pipelines/audit.yaml", {{"checkpoint", target}, {"watch", "true"}});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_THAT(outcome.text, HasSubstr("0 shards, 0 of 1308 tensors readable"));
  EXPECT_THAT(outcome.text, ::testing::EndsWith("[ok] 39 of 39 checks passed, 0 undecided, 0 failed\n"));
  EXPECT_EQ(outcome.report.at("audit").at("readable"), 1308);
}

TEST(AuditPipeline, StopsWatchingWithinAFifthOfASecond) {
  using Clock = std::chrono::steady_clock;
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "empty");
  flow::LoadOutcome loaded = flow::load_graph({.files = {source("pipelines/audit.yaml")},
                                               .sets = {{"checkpoint", folder / "empty"}, {"watch", "true"}},
                                               .data_dirs = flow::data_dirs()});
  ASSERT_TRUE(loaded.plan);
  flow::Runner runner(std::move(*loaded.plan), {});
  Clock::time_point cancelled;
  std::jthread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    cancelled = Clock::now();
    runner.cancel();
  });
  EXPECT_FALSE(runner.run().ok());
  EXPECT_TRUE(runner.cancelled());
  EXPECT_LT(Clock::now() - cancelled, std::chrono::milliseconds(200));
}

TEST(EngramPipeline, NeedsOnlyAConfigAndSkipsTheClassesWithoutATokenizer) {
  const Outcome outcome = run_pipeline("pipelines/engram.yaml", {{"checkpoint", kReleased}});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("layer 1\n  24 buckets, primes 16000057 to 16000463\n"
                              "  rows: derived 384006168, declared 384006168, difference 0\n"
                              "  91.55 GiB of codes, 2.86 GiB of scales\n"),
                    HasSubstr("[SKIP] token classes"), HasSubstr("[ok] the Engram figures agree\n")));
}

TEST(EngramPipeline, TakesTheTokenizerBesideTheConfigOrAnother) {
  const Outcome beside = run_pipeline("pipelines/engram.yaml", {});
  EXPECT_TRUE(beside.status.ok()) << beside.status.message();
  EXPECT_EQ(beside.report.at("engram").at("classes"), 1931);
  const Outcome other = run_pipeline("pipelines/engram.yaml",
                                     {{"checkpoint", kReleased}, {"tokenizer", source("pipelines/demo")}});
  EXPECT_THAT(other.status.message(), HasSubstr("the Engram layout has 1 problem"));
  EXPECT_THAT(other.text, HasSubstr("[fail] the tokenizer makes 1931 classes"));
}

TEST(SynthPipeline, RefusesAnEmptyFolderNameAndLeavesNothing) {
  const Outcome outcome = run_pipeline("pipelines/synth.yaml", {{"out", ""}});
  EXPECT_THAT(outcome.status.message(), HasSubstr("the name of the folder to write to is empty"));
  EXPECT_FALSE(std::filesystem::exists("inference"));
}

TEST(SynthPipeline, ExplainsAFaultThatItCannotRead) {
  TemporaryFolder folder;
  const Outcome outcome =
      run_pipeline("pipelines/synth.yaml", {{"out", folder / "x"}, {"faults", "burn it"}});
  EXPECT_THAT(outcome.status.message(), HasSubstr("fault 'burn it' begins with none of drop, lose"));
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
}

constexpr const char* kAuditFirst = "pipelines/examples/audit_first.yaml";

TEST(AuditFirst, GeneratesWhenEveryCheckPasses) {
  const Outcome outcome = run_pipeline(kAuditFirst, {});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_EQ(outcome.text, " Paris.");
  EXPECT_THAT(outcome.notes, HasSubstr("39 of 39 checks passed"));
  EXPECT_EQ(outcome.report.at("audit").at("tensors"), 1308);
}

TEST(AuditFirst, GeneratesNothingWhenACheckFails) {
  TemporaryFolder folder;
  const Outcome synth = run_pipeline(
      "pipelines/synth.yaml",
      {{"out", folder / "broken"}, {"payload", "random"}, {"faults", "add surplus.weight BF16 4"}});
  ASSERT_TRUE(synth.status.ok()) << synth.status.message();
  const Sets sets = {{"checkpoint", folder / "broken"}};
  EXPECT_TRUE(run_pipeline("pipelines/greedy.yaml", sets).status.ok()) << "the weights are all there";
  const Outcome outcome = run_pipeline(kAuditFirst, sets);
  EXPECT_THAT(outcome.status.message(), HasSubstr("stage 'require' (RequirePass): the audit has 1 failed"));
  EXPECT_THAT(outcome.notes, HasSubstr("surplus.weight"));
  EXPECT_EQ(outcome.text, "");
  EXPECT_FALSE(outcome.report.contains("sequences"));
}

}  // namespace
}  // namespace dsv::testing
