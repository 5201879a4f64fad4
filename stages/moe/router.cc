#include "stages/moe/router.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stages/model/linear.h"

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

flow::Result<Router> Router::make(std::shared_ptr<Model> model, int layer) {
  const ModelConfig& c = model->config();
  const std::string gate = fmt::format("layers.{}.ffn.gate", layer);
  Router router;
  FLOW_ASSIGN(router.weight_, model->bf16_matrix(gate, c.n_routed_experts, c.dim));
  FLOW_ASSIGN(router.bias_, model->f32_vector(gate + ".bias", c.n_routed_experts));
  if (c.score_func == "sqrtsoftplus")
    router.pointwise_ = sqrt_softplus;
  else if (c.score_func == "sigmoid")
    router.pointwise_ = sigmoid;
  else if (c.score_func != "softmax") {
    return flow::errorf("score_func '{}' is none of: sqrtsoftplus, sigmoid, softmax", c.score_func);
  }
  router.model_ = std::move(model);
  return router;
}

Choice Router::choose(const Rows<bf16>& x) const {
  const std::int64_t k = model_->config().n_activated_experts;
  Rows<float> scores = linear_f32(model_->kernels(), weight_, x.data(), x.rows());
  Choice choice{Rows<std::int32_t>(x.rows(), k), Rows<float>(x.rows(), k)};
  flow::parallel_for(x.rows(), 16, [&](Range tokens) {
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
      choose(scores.row(t), choice.experts.row(t), choice.weights.row(t));
    }
  });
  return choice;
}

void Router::choose(float* logits, std::int32_t* experts, float* weights) const {
  const ModelConfig& c = model_->config();
  const int n = c.n_routed_experts, k = c.n_activated_experts;
  if (pointwise_)
    std::transform(logits, logits + n, logits, pointwise_);
  else
    softmax(logits, n);
  flow::StepVector<std::int32_t> order(static_cast<std::size_t>(n));
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

}  // namespace dsv
