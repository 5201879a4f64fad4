#include <algorithm>
#include <cmath>
#include <numeric>

#include "stages/model/linear.h"
#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"

namespace dsv {
namespace {

float sqrt_softplus(float x) {
  return std::sqrt(x > 20.0f ? x : std::log1p(std::exp(x)));
}
float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

void softmax(float* scores, std::int64_t n) {
  const float top = *std::max_element(scores, scores + n);
  float total = 0;
  for (std::int64_t i = 0; i < n; ++i) total += scores[i] = std::exp(scores[i] - top);
  for (std::int64_t i = 0; i < n; ++i) scores[i] /= total;
}

}  // namespace

/// Chooses the experts of each token.
///
/// Ports: x [tokens, dim] bf16 -> routes: n_activated_experts experts (ascending) and weights of each token.
/// Scores are sqrt(softplus), sigmoid or softmax of x . W^T in fp32; the choice ranks score + bias, the
/// weights are the scores, normalized and scaled by route_scale. Of equal scores the lowest expert wins.
/// Source: reference `Gate`; MODEL "Mixture of experts".
///
///     - {name: gate, stage: Gate, in: {x: ffn_in.x}, options: {layer: 3}}
class Gate final : public flow::Stage {
 public:
  static constexpr flow::In<Activations> kX{"x", "normalized input, [tokens, dim]"};
  static constexpr flow::Out<Routes> kRoutes{"routes", "experts and weights of each token"};
  struct Options {
    int layer = 0;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Chooses the routed experts of each token and their weights.");
    spec.input(kX).output(kRoutes).uses(kModel);
    spec.option("layer", &Options::layer, "layer index").range(0).required();
  }
  explicit Gate(Options options) : options_(options) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    const ModelConfig& c = model_->config();
    const std::string gate = fmt::format("layers.{}.ffn.gate", options_.layer);
    FLOW_ASSIGN(weight_, model_->bf16_matrix(gate, c.n_routed_experts, c.dim));
    FLOW_ASSIGN(bias_, model_->f32_vector(gate + ".bias", c.n_routed_experts));
    if (c.score_func == "sqrtsoftplus")
      pointwise_ = sqrt_softplus;
    else if (c.score_func == "sigmoid")
      pointwise_ = sigmoid;
    else if (c.score_func != "softmax") {
      return flow::errorf("score_func '{}' is none of: sqrtsoftplus, sigmoid, softmax", c.score_func);
    }
    return {};
  }

  flow::Status process(flow::Context& context) override {
    const Activations& in = context.in(kX);
    const ModelConfig& c = model_->config();
    Rows<float> scores = linear_f32(model_->kernels(), weight_, in.x.data(), in.x.rows());
    Routes routes{in.step, Rows<std::int32_t>(in.x.rows(), c.n_activated_experts),
                  Rows<float>(in.x.rows(), c.n_activated_experts)};
    flow::parallel_for(in.x.rows(), 16, [&](Range tokens) {
      for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
        choose(scores.row(t), routes.experts.row(t), routes.weights.row(t));
      }
    });
    count_pass(context, in.x.rows(), weight_, in.x);
    context.emit(kRoutes, std::move(routes));
    return {};
  }

 private:
  /// logits [n_routed_experts] become scores; the chosen experts ascending, with their weights.
  void choose(float* logits, std::int32_t* experts, float* weights) const {
    const ModelConfig& c = model_->config();
    const int n = c.n_routed_experts, k = c.n_activated_experts;
    if (pointwise_)
      std::transform(logits, logits + n, logits, pointwise_);
    else
      softmax(logits, n);
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    const auto better = [&](std::int32_t a, std::int32_t b) {
      const float sa = logits[a] + bias_[a], sb = logits[b] + bias_[b];
      return sa != sb ? sa > sb : a < b;
    };
    std::partial_sort(order.begin(), order.begin() + k, order.end(), better);
    std::sort(order.begin(), order.begin() + k);
    std::copy_n(order.begin(), k, experts);
    float total = 0;
    for (int i = 0; i < k; ++i) total += weights[i] = logits[experts[i]];
    const float divisor = k > 1 ? total + 1e-20f : 1.0f;
    for (int i = 0; i < k; ++i) weights[i] = weights[i] / divisor * static_cast<float>(c.route_scale);
  }

  Options options_;
  std::shared_ptr<Model> model_;
  Bf16Matrix weight_;
  const float* bias_ = nullptr;
  float (*pointwise_)(float) = nullptr;
};
FLOW_REGISTER_STAGE(Gate);

}  // namespace dsv
