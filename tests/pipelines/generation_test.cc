// `pipelines/greedy.yaml` from a prompt to its text, against the released reference.
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <fstream>

#include "tests/golden/golden_file.h"
#include "tests/pipelines/pipeline_run.h"

namespace dsv::testing {
namespace {

const std::string kGreedy = "pipelines/greedy.yaml";
const std::string kGoldenA = source("tests/golden/a/checkpoint");

TEST(Greedy, AnswersItsDefaultPrompt) {
  const Outcome run = run_pipeline(kGreedy, {});
  ASSERT_TRUE(run.status.ok()) << run.status.message();
  EXPECT_EQ(run.text, " Paris.");
  EXPECT_EQ(run.sequence().at("finish_reason"), "stop");
  EXPECT_EQ(run.sequence().at("text"), " Paris.");
}

TEST(Greedy, GivesTheReferencesTokensOnAllPromptsOfTheDemo) {
  std::ifstream file(source("tests/golden/demo/prompts.json"));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const boost::json::value prompts = boost::json::parse(text);
  for (const boost::json::value& entry : prompts.as_array()) {
    const boost::json::object& prompt = entry.as_object();
    const auto ids = boost::json::value_to<std::vector<std::int32_t>>(prompt.at("ids"));
    const auto expected = boost::json::value_to<std::vector<std::int32_t>>(prompt.at("generated"));
    const auto gaps = boost::json::value_to<std::vector<double>>(prompt.at("top2_gap"));
    const std::string shown(prompt.at("prompt").as_string());
    const Outcome run =
        run_pipeline(kGreedy, {{"prompt", shown}, {"max_new_tokens", std::to_string(expected.size())}});
    ASSERT_TRUE(run.status.ok()) << run.status.message();
    EXPECT_EQ(boost::json::value_to<std::vector<std::int32_t>>(run.sequence().at("prompt_ids")), ids)
        << shown;
    std::vector<std::int32_t> generated = run.generated();
    if (run.sequence().at("finish_reason") == "stop") generated.push_back(1);  // EOS is not handed on
    for (std::size_t i = 0; i < expected.size() && gaps[i] > 0.5; ++i) {
      ASSERT_LT(i, generated.size()) << shown;
      EXPECT_EQ(generated[i], expected[i]) << shown << ", token " << i;
    }
  }
}

/// Agreement of two rows of logits.
double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    ab += double{a[i]} * b[i], aa += double{a[i]} * a[i], bb += double{b[i]} * b[i];
  return ab / std::sqrt(aa * bb);
}

std::vector<std::vector<float>> rows_of(const GoldenTensor& tensor) {
  const std::vector<float> all = tensor.as<float>();
  std::vector<std::vector<float>> rows;
  const auto width = static_cast<std::size_t>(tensor.dim(1));
  for (std::size_t at = 0; at < all.size(); at += width)
    rows.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(at),
                      all.begin() + static_cast<std::ptrdiff_t>(at + width));
  return rows;
}

/// A golden run and how close a run of ours must be (tests/golden/README.md).
struct WholeRun {
  const char* name;
  std::string checkpoint, golden, index_keys;
  double prefill_cosine, prefill_share, prefill_floor, decode_cosine, clear_gap;
};

class WholeGoldenRun : public ::testing::TestWithParam<WholeRun> {};

void expect_same_choice(const std::vector<float>& ours, const std::vector<float>& theirs, double clear_gap,
                        const std::string& where) {
  std::vector<float> sorted = theirs;
  std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
  if (sorted[0] - sorted[1] <= clear_gap) return;
  EXPECT_EQ(std::max_element(ours.begin(), ours.end()) - ours.begin(),
            std::max_element(theirs.begin(), theirs.end()) - theirs.begin())
      << where;
}

TEST_P(WholeGoldenRun, FedTheReferencesTokensStaysWithinTheBoundsInPrefillAndDecode) {
  const WholeRun& want = GetParam();
  const GoldenFile golden(want.golden);
  const TemporaryFolder folder;
  const Outcome run = run_pipeline(kGreedy,
                                   {{"checkpoint", want.checkpoint},
                                    {"prompt_ids", list(golden["prompt_ids"].as<std::int32_t>())},
                                    {"continuation_ids", list(golden["decode.input_ids"].as<std::int32_t>())},
                                    {"index_keys", want.index_keys},
                                    {"logits", "all"}},
                                   {{"backbone.head.logits", folder / "logits.safetensors"}});
  ASSERT_TRUE(run.status.ok()) << run.status.message();
  const auto ours = tapped_logits(folder / "logits.safetensors");
  const auto prefill = rows_of(golden["prefill.logits"]), decode = rows_of(golden["decode.logits"]);
  ASSERT_EQ(ours.size(), prefill.size() + decode.size());
  std::size_t close = 0;
  double lowest = 1, lowest_decode = 1;
  for (std::size_t p = 0; p < prefill.size(); ++p) {
    const double c = cosine(ours[p], prefill[p]);
    close += c >= want.prefill_cosine;
    lowest = std::min(lowest, c);
    expect_same_choice(ours[p], prefill[p], want.clear_gap, "prefill " + std::to_string(p));
  }
  for (std::size_t k = 0; k < decode.size(); ++k) {
    const auto& row = ours[prefill.size() + k];
    lowest_decode = std::min(lowest_decode, cosine(row, decode[k]));
    expect_same_choice(row, decode[k], want.clear_gap, "decode " + std::to_string(k));
  }
  const double share = static_cast<double>(close) / static_cast<double>(prefill.size());
  RecordProperty("prefill_share", std::to_string(share));
  std::printf("%s: prefill cosine >= %g at %.1f %% of positions, lowest %.6f; decode lowest %.6f\n",
              want.name, want.prefill_cosine, 100 * share, lowest, lowest_decode);
  EXPECT_GE(share, want.prefill_share);
  EXPECT_GE(lowest, want.prefill_floor);
  EXPECT_GE(lowest_decode, want.decode_cosine);
}

/// Sorted positions of one row, without the unused ones.
std::vector<std::int32_t> used(const std::int32_t* row, std::int64_t n) {
  std::vector<std::int32_t> positions(row, row + n);
  std::erase(positions, -1);
  std::sort(positions.begin(), positions.end());
  return positions;
}

/// Rows of one tapped selection that are not the golden's.
int differing_rows(const GoldenTensor& ours, const GoldenTensor& golden) {
  EXPECT_EQ(ours.dim(0), golden.dim(0));
  const auto a = ours.as<std::int32_t>(), b = golden.as<std::int32_t>();
  int rows = 0;
  for (std::int64_t t = 0; t < golden.dim(0); ++t) {
    rows +=
        used(a.data() + t * ours.dim(1), ours.dim(1)) != used(b.data() + t * golden.dim(1), golden.dim(1));
  }
  return rows;
}

struct Selections {
  const char* name;
  std::string checkpoint, golden;
  int most;
};
class WholeGoldenSelection : public ::testing::TestWithParam<Selections> {};

TEST_P(WholeGoldenSelection, ChoosesOtherPositionsThanTheReferenceInFewRowsOnly) {
  const Selections& want = GetParam();
  const GoldenFile golden(want.golden);
  const TemporaryFolder folder;
  const std::vector<int> layers = {2, 4, 6};
  std::vector<flow::TapRequest> taps;
  for (const int layer : layers) {
    taps.push_back({fmt::format("backbone.layers.{}.attention.selection", layer),
                    folder / fmt::format("{}.safetensors", layer)});
  }
  const Outcome run = run_pipeline(kGreedy,
                                   {{"checkpoint", want.checkpoint},
                                    {"prompt_ids", list(golden["prompt_ids"].as<std::int32_t>())},
                                    {"continuation_ids", list(golden["decode.input_ids"].as<std::int32_t>())},
                                    {"prefill", "full"}},
                                   taps);
  ASSERT_TRUE(run.status.ok()) << run.status.message();
  int differing = 0;
  for (const int layer : layers) {
    const GoldenFile ours = GoldenFile::at(folder / fmt::format("{}.safetensors", layer));
    const std::string where = fmt::format("layers.{}.topk_positions", layer);
    differing += differing_rows(ours["0.1.positions"], golden["prefill." + where]);
    for (const int step : {0, 1}) {
      differing += differing_rows(ours[fmt::format("0.{}.positions", step + 2)],
                                  golden[fmt::format("decode{}.", step) + where]);
    }
  }
  std::printf("%s: %d rows select another position\n", want.name, differing);
  EXPECT_LE(differing, want.most);
}

INSTANTIATE_TEST_SUITE_P(All, WholeGoldenSelection,
                         ::testing::Values(Selections{"Text", kGoldenA, "a/text.safetensors", 12},
                                           Selections{"Demo", "demo", "demo/text.safetensors", 50}),
                         [](const auto& instance) { return std::string(instance.param.name); });

INSTANTIATE_TEST_SUITE_P(
    All, WholeGoldenRun,
    ::testing::Values(WholeRun{"Text", kGoldenA, "a/text.safetensors", "own", 0.999, 0.85, 0.98, 0.999, 0.2},
                      WholeRun{"Short", kGoldenA, "a/short.safetensors", "own", 0.999, 1.0, 0.999, 0.999,
                               0.2},
                      WholeRun{"ReferenceIndexSlot", kGoldenA, "a/text-reference-index-slot.safetensors",
                               "reference_slot", 0.999, 0.85, 0.98, 0.999, 0.2},
                      WholeRun{"Demo", "demo", "demo/text.safetensors", "own", 0.999, 0.90, 0.0, 0.999, 0.5}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(Continuation, ReportsLogProbabilitiesAndPerplexityOfTheGivenTokens) {
  const Outcome run =
      run_pipeline(kGreedy, {{"prompt_ids", "0,334,315,294,1894,287"}, {"continuation_ids", "1211,16"}});
  ASSERT_TRUE(run.status.ok()) << run.status.message();
  const auto& sequence = run.sequence();
  EXPECT_EQ(run.generated(), (std::vector<std::int32_t>{1211, 16}));
  EXPECT_EQ(sequence.at("finish_reason"), "continuation");
  const auto logs = boost::json::value_to<std::vector<double>>(sequence.at("log_probabilities"));
  ASSERT_EQ(logs.size(), 2u);
  EXPECT_NEAR(sequence.at("perplexity").as_double(), std::exp(-(logs[0] + logs[1]) / 2), 1e-12);
  EXPECT_GT(logs[0], -0.01);  // the demo is sure of Paris
}

}  // namespace
}  // namespace dsv::testing
