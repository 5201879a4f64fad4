#include "stages/moe/host_experts.h"

#include <algorithm>

#include "stages/model/touched.h"
#include "stages/moe/expert_mlp.h"

namespace dsv {
namespace {

Rows<bf16> compute_expert(const Model& model, const ExpertPage& page, const Rows<bf16>& x,
                          const Routes& routes, std::span<const std::int64_t> pairs) {
  const Kernels& kernels = model.kernels();
  const std::int64_t k = routes.experts.cols();
  Rows<bf16> rows(static_cast<std::int64_t>(pairs.size()), x.cols());
  flow::StepVector<float> weights;
  weights.reserve(pairs.size());
  for (const std::int64_t pair : pairs) {
    std::copy_n(x.row(pair / k), x.cols(), rows.row(static_cast<std::int64_t>(weights.size())));
    weights.push_back(routes.weights.data()[pair]);
  }
  return expert_mlp(kernels, page.w1, page.w2, page.w3, quantize(kernels, rows), weights.data(),
                    model.config().swiglu_limit);
}

ExpertOutputs collect(const flow::StepVector<std::pair<std::int32_t, Rows<bf16>>>& results, ExpertPairs& pairs,
                      std::int64_t k, std::int64_t dim) {
  std::int64_t total = 0;
  for (const auto& [expert, y] : results) total += y.rows();
  ExpertOutputs out{{}, {}, Rows<bf16>(total, dim)};
  out.token.reserve(static_cast<std::size_t>(total));
  out.expert.reserve(static_cast<std::size_t>(total));
  for (const auto& [expert, y] : results) {
    std::copy_n(y.data(), y.rows() * dim, out.y.row(static_cast<std::int64_t>(out.token.size())));
    for (const std::int64_t pair : pairs[expert]) {
      out.token.push_back(static_cast<std::int32_t>(pair / k));
      out.expert.push_back(expert);
    }
  }
  return out;
}

}  // namespace

ExpertPairs pairs_by_expert(const Routes& routes) {
  ExpertPairs pairs;
  for (std::int64_t i = 0; i < routes.experts.rows() * routes.experts.cols(); ++i) {
    pairs[routes.experts.data()[i]].push_back(i);
  }
  return pairs;
}

flow::Result<ExpertOutputs> compute_on_host(const Model& model, ExpertRequest& request, const Rows<bf16>& x,
                                            const Routes& routes, const flow::Context& context) {
  ExpertPairs pairs = pairs_by_expert(routes);
  flow::StepVector<std::pair<std::int32_t, Rows<bf16>>> results;
  results.reserve(pairs.size());
  std::int64_t bytes = 0;
  const auto next = [&] {
    const auto waiting = context.telemetry().span("wait for a page");
    return request.next();
  };
  while (!context.cancelled()) {
    FLOW_ASSIGN(const auto ready, next());
    if (!ready) break;
    bytes += bytes_of(ready->page->w1) + bytes_of(ready->page->w2) + bytes_of(ready->page->w3);
    results.emplace_back(ready->expert, compute_expert(model, *ready->page, x, routes, pairs[ready->expert]));
  }
  count_pass(context, x.rows(), bytes, x);
  return collect(results, pairs, routes.experts.cols(), x.cols());
}

}  // namespace dsv
