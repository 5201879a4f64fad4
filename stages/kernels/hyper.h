// Hyper-connection mixing weights: how the residual copies are collapsed, fed and mixed.
#pragma once

namespace dsv {

/// Mixing weights of one sub-block from its projection. With n = copies, mixes and base hold n pre, n post
/// and n*n comb logits in this order, scale one factor for each of the three:
///   pre = sigmoid(m*scale[0] + base) + eps, post = 2*sigmoid(m*scale[1] + base),
///   comb = row softmax(m*scale[2] + base) + eps, columns normalized, then iters - 1 times rows and columns
///   (each by its sum + eps). comb is row-major [n, n].
void sinkhorn(const float* mixes, const float* scale, const float* base, int copies, int iters, float eps,
              float* pre, float* post, float* comb);

}  // namespace dsv
