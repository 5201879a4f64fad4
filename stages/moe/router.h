// The arithmetic that chooses experts: scores of a layer's gate and the best of them.
#pragma once

#include <memory>

#include "stages/model/model.h"
#include "stages/model/rows.h"

namespace dsv {

/// Experts of each token, ascending, and their weights; both [tokens, n_activated_experts].
struct Choice {
  Rows<std::int32_t> experts;
  Rows<float> weights;
};

/// Scores are sqrt(softplus), sigmoid or softmax of x . W^T in fp32; the choice ranks score + bias, the
/// weights are the scores, normalized and scaled by route_scale. Of equal scores the lowest expert wins.
/// Source: reference `Gate`; MODEL "Mixture of experts".
class Router {
 public:
  static flow::Result<Router> make(std::shared_ptr<Model> model, int layer);
  /// x [tokens, dim] bf16.
  Choice choose(const Rows<bf16>& x) const;
  const Bf16Matrix& weight() const { return weight_; }

 private:
  /// logits [n_routed_experts] become scores; the chosen experts ascending, with their weights.
  void choose(float* logits, std::int32_t* experts, float* weights) const;

  std::shared_ptr<Model> model_;
  Bf16Matrix weight_;
  const float* bias_ = nullptr;
  float (*pointwise_)(float) = nullptr;  // null: softmax
};

}  // namespace dsv
