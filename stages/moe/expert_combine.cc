#include <algorithm>
#include <tuple>

#include "framework/core/parallel.h"
#include "framework/core/registry.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"

namespace dsv {

/// Sums the outputs of a token's routed experts in fp32 in ascending expert order, whatever devices they came
/// from and in whatever order, adds the shared expert, and rounds to bf16.
///
/// Ports: shared [tokens, dim], experts (one edge for each device) -> y [tokens, dim] bf16.
/// Source: reference `MoE`; MODEL "Mixture of experts".
///
///     - {name: combine, stage: ExpertCombine, in: {shared: shared.y, experts: "experts[*].y"}}
class ExpertCombine final : public flow::Stage {
 public:
  static constexpr flow::In<Activations> kShared{"shared", "output of the shared expert, [tokens, dim]"};
  static constexpr flow::ManyIn<ExpertOutputs> kExperts{"experts",
                                                        "outputs of the routed experts, one edge a device"};
  static constexpr flow::Out<Activations> kY{"y", "output of the expert layer, [tokens, dim]"};
  struct Options {};

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Sums expert outputs in a fixed order.");
    spec.input(kShared).input(kExperts).output(kY);
  }
  explicit ExpertCombine(Options) {}

  flow::Status process(flow::Context& context) override {
    const Activations& shared = context.in(kShared);
    using Term = std::tuple<std::int32_t, std::int32_t, const bf16*>;  // token, expert, row
    flow::StepVector<Term> terms;
    for (const ExpertOutputs* device : context.in(kExperts)) {
      for (std::size_t i = 0; i < device->token.size(); ++i) {
        terms.emplace_back(device->token[i], device->expert[i], device->y.row(static_cast<std::int64_t>(i)));
      }
    }
    std::sort(terms.begin(), terms.end());
    Activations out{shared.step, Rows<bf16>(shared.x.rows(), shared.x.cols())};
    flow::parallel_for(shared.x.rows(), 8, [&](flow::Range tokens) {
      for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
        const auto first =
            std::lower_bound(terms.begin(), terms.end(), Term{static_cast<std::int32_t>(t), -1, nullptr});
        const auto last =
            std::lower_bound(first, terms.end(), Term{static_cast<std::int32_t>(t + 1), -1, nullptr});
        for (std::int64_t d = 0; d < shared.x.cols(); ++d) {
          float sum = 0;
          for (auto term = first; term != last; ++term) sum += static_cast<float>(std::get<2>(*term)[d]);
          out.x.row(t)[d] = bf16(sum + static_cast<float>(shared.x.row(t)[d]));
        }
      }
    });
    std::int64_t rows = 0;
    for (const ExpertOutputs* device : context.in(kExperts)) rows += bytes_of(device->y);
    count_pass(context, shared.x.rows(), shared.x, out.x, rows);
    context.emit(kY, std::move(out));
    return {};
  }
};
FLOW_REGISTER_STAGE(ExpertCombine);

}  // namespace dsv
