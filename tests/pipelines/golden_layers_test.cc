// Every stage of every layer, fed with what the released reference fed it, against what it computed.
#include <algorithm>
#include <cmath>

#include "tests/golden/golden_file.h"
#include "tests/kernels/compare.h"
#include "tests/pipelines/layer_bench.h"

namespace dsv::testing {
namespace {

struct GoldenCase {
  const char* name;
  const char* checkpoint;
  const char* file;
};
constexpr GoldenCase kCases[] = {{"GoldenA", "tests/golden/a/checkpoint", "a/text.safetensors"},
                                 {"Demo", "pipelines/demo", "demo/text.safetensors"}};

template <class T>
Rows<T> rows_of(const GoldenTensor& tensor) {
  const std::vector<T> values = tensor.as<T>();
  Rows<T> rows(tensor.dim(0), static_cast<std::int64_t>(values.size()) / tensor.dim(0));
  std::copy(values.begin(), values.end(), rows.data());
  return rows;
}

/// Cosine of two rows, and the largest difference as a share of the row's largest element.
struct Closeness {
  double cosine = 1, worst = 0;
};
Closeness closeness(const bf16* a, const bf16* b, std::int64_t n) {
  double ab = 0, aa = 0, bb = 0, top = 0, diff = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
    ab += x * y, aa += x * x, bb += y * y;
    top = std::max(top, std::fabs(y)), diff = std::max(diff, std::fabs(x - y));
  }
  return {ab / std::sqrt(aa * bb), diff / top};
}

/// Stages that quantize inside may be a quantization step away where the reference's value was on an edge:
/// bounded by the row, as tests/golden/README.md demands of a layer.
void expect_close(const Rows<bf16>& actual, const Rows<bf16>& expected, const std::string& what,
                  double cosine = 0.9999, double worst = 0.02) {
  ASSERT_EQ(actual.rows(), expected.rows()) << what;
  for (std::int64_t t = 0; t < expected.rows(); ++t) {
    const Closeness close = closeness(actual.row(t), expected.row(t), expected.cols());
    EXPECT_GE(close.cosine, cosine) << what << ", token " << t;
    EXPECT_LE(close.worst, worst) << what << ", token " << t;
  }
}

/// A pass of the golden run: the prefill, or a decode step.
class GoldenLayers : public ::testing::TestWithParam<GoldenCase> {
 protected:
  GoldenLayers()
      : open_(std::string(DSV41_SOURCE_DIR) + "/" + GetParam().checkpoint), golden_(GetParam().file) {
    prompt_ = golden_["prompt_ids"].as<std::int32_t>();
    sequence_ = std::make_shared<Sequence>(config(), 0, 0);
  }
  const ModelConfig& config() const { return open_.model->config(); }

  StepPtr pass(const std::vector<std::int32_t>& ids) {
    auto step = std::make_shared<Step>();
    step->sequence = sequence_;
    step->position = sequence_->position;
    step->ids.assign(ids.begin(), ids.end());
    sequence_->position += step->tokens();
    return step;
  }
  void enter(const std::string& prefix, int layer, StepPtr step) {
    step_ = std::move(step);
    layer_ = layer;
    prefix_ = prefix + ".layers." + std::to_string(layer) + ".";
    step_prefix_ = prefix + ".layers.";
  }
  const GoldenTensor& golden(const std::string& name) const { return golden_[prefix_ + name]; }
  Activations activations(const std::string& name) const { return {step_, rows_of<bf16>(golden(name))}; }
  ResidualStream stream(const std::string& h, const std::string& pre) const {
    return {step_, rows_of<bf16>(golden(h)), rows_of<float>(golden(pre))};
  }
  boost::json::object at_layer() const { return {{"layer", layer_}}; }

  Selection selection_before() const;
  void check_engram();
  void check_selection(const Selection& selection);
  HyperMix check_attention_input(const ResidualStream& in);
  HyperMix check_ffn_input(const ResidualStream& in);
  void check_attention();
  void check_gate();
  void check_experts();
  void check_layer();

  OpenModel open_;
  GoldenFile golden_;
  std::vector<std::int32_t> prompt_;
  std::shared_ptr<Sequence> sequence_;
  StepPtr step_;
  int layer_ = 0;
  std::string prefix_, step_prefix_;
};

/// What earlier layers of the reference's pass selected.
Selection GoldenLayers::selection_before() const {
  Selection selection;
  const int source = config().index_source(layer_), candidates = config().candidate_source_layer;
  if (source >= 0 && source < layer_) {
    selection.source = source;
    selection.positions =
        rows_of<std::int32_t>(golden_[step_prefix_ + std::to_string(source) + ".topk_positions"]);
  }
  if (layer_ > candidates) {
    const Rows<std::uint8_t> mask =
        rows_of<std::uint8_t>(golden_[step_prefix_ + std::to_string(candidates) + ".candidates"]);
    for (std::int64_t t = 0; t < mask.rows(); ++t) {
      auto& blocks = selection.blocks.emplace_back();
      for (std::int64_t p = 0; p < mask.cols(); ++p) {
        const auto block = static_cast<std::int32_t>(p / config().candidate_block_size);
        if (mask.row(t)[p] && (blocks.empty() || blocks.back() != block)) blocks.push_back(block);
      }
    }
  }
  return selection;
}

void GoldenLayers::check_engram() {
  const int slot = config().engram_slot(layer_);
  if (slot < 0) return;
  const std::vector<std::int64_t> hashed = golden("engram_hash_ids").as<std::int64_t>();
  EngramIds ids{step_, flow::StepVector<EngramRowIds>(static_cast<std::size_t>(slot + 1))};
  ids.rows.back().assign(hashed.begin(), hashed.end());
  auto rows =
      run<EngramRows>(open_.stage("EngramPrefetch", at_layer()).put(input<EngramIds>("ids"), ids), "rows");
  ResidualStream in{step_, rows_of<bf16>(golden("engram_in")), {}};
  auto& gate = open_.stage("EngramGate", at_layer());
  gate.put(input<ResidualStream>("stream"), in).share(input<EngramRows>("rows"), rows);
  auto out = run<ResidualStream>(gate, "stream");
  expect_close(out->h, rows_of<bf16>(golden("engram_out")), prefix_ + "engram_out");
}

HyperMix GoldenLayers::check_attention_input(const ResidualStream& in) {
  auto& stage = open_.stage("HyperCollapse", {{"layer", layer_}, {"block", "attn"}});
  auto x = run<Activations>(stage.put(input<ResidualStream>("stream"), in), "x");
  EXPECT_TRUE(near_bf16(x->x.all(), golden("attn_in").as<bf16>(), 1, 0.01)) << prefix_ << "attn_in";
  return *stage.get(flow::Out<HyperMix>{"mix", ""});
}

/// The reference's stream between the sub-blocks is not among the goldens. Ours may be a bf16 step away from
/// it where it was rounded, which the sum over copies turns into a share of the row's size.
HyperMix GoldenLayers::check_ffn_input(const ResidualStream& in) {
  auto& stage = open_.stage("HyperCollapse", {{"layer", layer_}, {"block", "ffn"}});
  auto x = run<Activations>(stage.put(input<ResidualStream>("stream"), in), "x");
  expect_close(x->x, rows_of<bf16>(golden("ffn_in")), prefix_ + "ffn_in", 0.99999, 0x1p-7);
  return *stage.get(flow::Out<HyperMix>{"mix", ""});
}

/// The chosen positions are the reference's, except where the scores at the border are one bf16 step apart.
void GoldenLayers::check_selection(const Selection& selection) {
  if (selection.source != layer_) return;
  const Rows<std::int32_t> expected = rows_of<std::int32_t>(golden("topk_positions"));
  const Rows<bf16> scores = rows_of<bf16>(golden("index_scores"));
  for (std::int64_t t = 0; t < expected.rows(); ++t) {
    std::vector<std::int32_t> a(selection.positions.row(t),
                                selection.positions.row(t) + selection.positions.cols());
    std::vector<std::int32_t> b(expected.row(t), expected.row(t) + expected.cols());
    std::erase(a, -1), std::erase(b, -1);
    std::sort(b.begin(), b.end());
    EXPECT_EQ(a.size(), b.size()) << prefix_ << "topk_positions, token " << t;
    std::vector<std::int32_t> added, dropped;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(added));
    std::set_difference(b.begin(), b.end(), a.begin(), a.end(), std::back_inserter(dropped));
    for (std::size_t i = 0; i < std::min(added.size(), dropped.size()); ++i) {
      EXPECT_LE(bf16_steps(scores.row(t)[added[i]], scores.row(t)[dropped[i]]), 1)
          << prefix_ << "topk_positions, token " << t << ": " << added[i] << " instead of " << dropped[i];
    }
  }
}

void GoldenLayers::check_attention() {
  auto& stage = open_.stage("Csa2Attention", at_layer());
  stage.put(input<Activations>("x"), activations("attn_in"))
      .put(input<Selection>("selection"), selection_before());
  auto y = run<Activations>(stage, "y");
  check_selection(*stage.get(flow::Out<Selection>{"selection", ""}));
  expect_close(y->x, rows_of<bf16>(golden("attn_out")), prefix_ + "attn_out");
}

/// The chosen experts are the reference's, except where the scores at the border are within 1e-5.
void GoldenLayers::check_gate() {
  auto routes = run<Routes>(
      open_.stage("Gate", at_layer()).put(input<Activations>("x"), activations("ffn_in")), "routes");
  const Rows<std::int32_t> experts = rows_of<std::int32_t>(golden("gate_indices"));
  const Rows<float> weights = rows_of<float>(golden("gate_weights")),
                    scores = rows_of<float>(golden("gate_scores"));
  for (std::int64_t t = 0; t < experts.rows(); ++t) {
    for (std::int64_t i = 0; i < experts.cols(); ++i) {
      const std::int32_t expert = routes->experts.row(t)[i];
      const auto* place = std::find(experts.row(t), experts.row(t) + experts.cols(), expert);
      if (place == experts.row(t) + experts.cols()) {
        float border = INFINITY;
        for (std::int64_t j = 0; j < experts.cols(); ++j)
          border = std::min(border, scores.row(t)[experts.row(t)[j]]);
        EXPECT_NEAR(scores.row(t)[expert], border, 1e-5 * std::fabs(border))
            << prefix_ << "gate_indices, token " << t;
        continue;
      }
      const float expected = weights.row(t)[place - experts.row(t)];
      EXPECT_NEAR(routes->weights.row(t)[i], expected, 1e-5 * std::fabs(expected))
          << prefix_ << "gate_weights, token " << t;
    }
  }
}

void GoldenLayers::check_experts() {
  const Activations x = activations("ffn_in");
  auto shared =
      run<Activations>(open_.stage("SharedExpert", at_layer()).put(input<Activations>("x"), x), "y");
  expect_close(shared->x, rows_of<bf16>(golden("shared_expert_out")), prefix_ + "shared_expert_out");

  Routes routes{step_, rows_of<std::int32_t>(golden("gate_indices")), rows_of<float>(golden("gate_weights"))};
  auto& prefetch = open_.stage("ExpertPrefetch", {{"layer", layer_}, {"device", 0}});
  auto pages = run<ExpertPages>(prefetch.put(input<Routes>("routes"), routes), "pages");
  auto& dispatch = open_.stage("ExpertDispatch");
  dispatch.put(input<Activations>("x"), x)
      .put(input<Routes>("routes"), routes)
      .share(input<ExpertPages>("pages"), pages);
  auto outputs = run<ExpertOutputs>(dispatch, "y");
  auto& combine = open_.stage("ExpertCombine");
  combine.put(input<Activations>("shared"), activations("shared_expert_out"));
  combine.share(flow::ManyIn<ExpertOutputs>{"experts", ""}, outputs);
  auto y = run<Activations>(combine, "y");
  expect_close(y->x, rows_of<bf16>(golden("ffn_out")), prefix_ + "ffn_out");
}

void GoldenLayers::check_layer() {
  check_engram();
  const ResidualStream in = stream("x_in", "pre_in");
  const HyperMix attn = check_attention_input(in);
  check_attention();
  auto expand = [&](const ResidualStream& h, const HyperMix& mix, const std::string& y) {
    auto& stage = open_.stage("HyperExpand");
    stage.put(input<ResidualStream>("stream"), h)
        .put(input<HyperMix>("mix"), mix)
        .put(input<Activations>("y"), activations(y));
    return *run<ResidualStream>(stage, "stream");
  };
  const ResidualStream middle = expand(in, attn, "attn_out");
  const HyperMix ffn = check_ffn_input(middle);
  check_gate();
  check_experts();
  const ResidualStream out = expand(middle, ffn, "ffn_out");
  EXPECT_TRUE(near_relative(out.pre.all(), golden("pre_out").as<float>(), 1e-3)) << prefix_ << "pre_out";
  expect_close(out.h, rows_of<bf16>(golden("x_out")), prefix_ + "x_out");
}

TEST_P(GoldenLayers, EveryStageFedTheReferencesInputsGivesTheReferencesOutputsInPrefillAndDecode) {
  const StepPtr prefill = pass(prompt_);
  for (int layer = 0; layer < config().n_layers; ++layer) {
    enter("prefill", layer, prefill);
    check_layer();
  }
  const std::vector<std::int32_t> fed = golden_["decode.input_ids"].as<std::int32_t>();
  for (int k = 0; k < 2; ++k) {
    const StepPtr step = pass({fed[static_cast<std::size_t>(k)]});
    for (int layer = 0; layer < config().n_layers; ++layer) {
      enter("decode" + std::to_string(k), layer, step);
      check_layer();
    }
  }
}

TEST_P(GoldenLayers, EngramHashGivesTheReferencesRowsInPrefillAndDecode) {
  const auto check = [&](const std::string& prefix, const StepPtr& step) {
    auto ids =
        run<EngramIds>(open_.stage("EngramHash").put(input<TokenStep>("tokens"), TokenStep{step}), "ids");
    for (const int layer : config().engram_layer_ids) {
      enter(prefix, layer, step);
      EXPECT_THAT(ids->rows[static_cast<std::size_t>(config().engram_slot(layer))],
                  ::testing::ElementsAreArray(golden("engram_hash_ids").as<std::int64_t>()))
          << prefix_ << "engram_hash_ids";
    }
  };
  check("prefill", pass(prompt_));
  const std::vector<std::int32_t> fed = golden_["decode.input_ids"].as<std::int32_t>();
  for (int k = 0; k < 2; ++k) check("decode" + std::to_string(k), pass({fed[static_cast<std::size_t>(k)]}));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenLayers, ::testing::ValuesIn(kCases),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace dsv::testing
