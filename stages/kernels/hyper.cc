#include "stages/kernels/hyper.h"

#include <algorithm>
#include <cmath>

namespace dsv {
namespace {

float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

void softmax_rows(float* m, int n, float eps) {
  for (float* row = m; row != m + n * n; row += n) {
    const float top = *std::max_element(row, row + n);
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += row[i] = std::exp(row[i] - top);
    for (int i = 0; i < n; ++i) row[i] = row[i] / sum + eps;
  }
}

// Divides each line of n elements (stride apart; lines `next` apart) by its sum + eps.
void normalize_lines(float* m, int n, int stride, int next, float eps) {
  for (int line = 0; line < n; ++line, m += next) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += m[i * stride];
    for (int i = 0; i < n; ++i) m[i * stride] /= sum + eps;
  }
}

}  // namespace

void sinkhorn(const float* mixes, const float* scale, const float* base, int copies, int iters, float eps,
              float* pre, float* post, float* comb) {
  const int n = copies;
  for (int i = 0; i < n; ++i) {
    pre[i] = sigmoid(mixes[i] * scale[0] + base[i]) + eps;
    post[i] = 2.0f * sigmoid(mixes[n + i] * scale[1] + base[n + i]);
  }
  for (int i = 0; i < n * n; ++i) comb[i] = mixes[2 * n + i] * scale[2] + base[2 * n + i];
  softmax_rows(comb, n, eps);
  normalize_lines(comb, n, n, 1, eps);
  for (int iteration = 1; iteration < iters; ++iteration) {
    normalize_lines(comb, n, 1, n, eps);
    normalize_lines(comb, n, n, 1, eps);
  }
}

}  // namespace dsv
