#include <algorithm>
#include <map>

#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"
#include "stages/moe/expert_mlp.h"
#include "stages/moe/expert_packets.h"

namespace dsv {

/// Computes one device's routed experts on the host. Experts are computed as their pages arrive; each output
/// row is kept apart, so that the order of arrival cannot change the sum that ExpertCombine makes.
///
/// Ports: x [tokens, dim], routes, pages -> y: one row for each (token, expert) of this device.
/// Memory: the rows of y, and one page at a time.
/// Source: reference `MoE`, `Expert`; MODEL "Mixture of experts".
///
///     - {name: experts, stage: ExpertDispatch, in: {x: ffn_in.x, routes: gate.routes, pages:
///     prefetch.pages}}
class ExpertDispatch final : public flow::Stage {
 public:
  static constexpr flow::In<Activations> kX{"x", "normalized input, [tokens, dim]"};
  static constexpr flow::In<Routes> kRoutes{"routes", "experts and weights of each token"};
  static constexpr flow::In<ExpertPages> kPages{"pages", "this device's experts"};
  static constexpr flow::Out<ExpertOutputs> kY{"y", "outputs of this device's experts"};
  struct Options {};

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Computes routed experts on the host as their pages arrive.");
    spec.input(kX).input(kRoutes).input(kPages).output(kY).uses(kModel);
  }
  explicit ExpertDispatch(Options) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    return {};
  }

  flow::Status process(flow::Context& context) override {
    const Activations& in = context.in(kX);
    const Routes& routes = context.in(kRoutes);
    std::map<std::int32_t, std::vector<std::int64_t>> pairs;  // expert -> index into routes
    for (std::int64_t i = 0; i < routes.experts.rows() * routes.experts.cols(); ++i) {
      pairs[routes.experts.data()[i]].push_back(i);
    }
    std::vector<std::pair<std::int32_t, Rows<bf16>>> results;
    const auto request = context.in(kPages).request;
    std::int64_t bytes = 0;
    const auto next = [&] {
      const auto waiting = context.telemetry().span("wait for a page");
      return request->next();
    };
    while (true) {
      FLOW_ASSIGN(const auto ready, next());
      if (!ready || context.cancelled()) break;
      bytes += bytes_of(ready->page->w1) + bytes_of(ready->page->w2) + bytes_of(ready->page->w3);
      results.emplace_back(ready->expert, compute(*ready->page, in.x, routes, pairs[ready->expert]));
    }
    count_pass(context, in.x.rows(), bytes, in.x);
    context.emit(kY, collect(results, pairs, routes.experts.cols(), in.x.cols()));
    return {};
  }

 private:
  Rows<bf16> compute(const ExpertPage& page, const Rows<bf16>& x, const Routes& routes,
                     const std::vector<std::int64_t>& pairs) const {
    const Kernels& kernels = model_->kernels();
    const std::int64_t k = routes.experts.cols();
    Rows<bf16> rows(static_cast<std::int64_t>(pairs.size()), x.cols());
    std::vector<float> weights;
    for (const std::int64_t pair : pairs) {
      std::copy_n(x.row(pair / k), x.cols(), rows.row(static_cast<std::int64_t>(weights.size())));
      weights.push_back(routes.weights.data()[pair]);
    }
    return expert_mlp(kernels, page.w1, page.w2, page.w3, quantize(kernels, rows), weights.data(),
                      model_->config().swiglu_limit);
  }

  static ExpertOutputs collect(const std::vector<std::pair<std::int32_t, Rows<bf16>>>& results,
                               std::map<std::int32_t, std::vector<std::int64_t>>& pairs, std::int64_t k,
                               std::int64_t dim) {
    std::int64_t total = 0;
    for (const auto& [expert, y] : results) total += y.rows();
    ExpertOutputs out{{}, {}, Rows<bf16>(total, dim)};
    for (const auto& [expert, y] : results) {
      std::copy_n(y.data(), y.rows() * dim, out.y.row(static_cast<std::int64_t>(out.token.size())));
      for (const std::int64_t pair : pairs[expert]) {
        out.token.push_back(static_cast<std::int32_t>(pair / k));
        out.expert.push_back(expert);
      }
    }
    return out;
  }

  std::shared_ptr<Model> model_;
};
FLOW_REGISTER_STAGE(ExpertDispatch);

}  // namespace dsv
