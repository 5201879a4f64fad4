#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"

namespace dsv {

/// Exit of a sub-block of a hyper-connected layer: every copy of the residual stream becomes a mix of all
/// copies plus the sub-block's output. The stream goes on with the tokens that y holds.
///
/// Ports: stream h [tokens, hc_mult, dim], mix, y [tokens, dim] -> stream, collapsed next with mix.pre.
/// Source: reference `Block.hc_post`; MODEL "The stack".
///
///     - {name: attn_out, stage: HyperExpand, in: {stream: $stream, mix: attn_in.mix, y: attention.y}}
class HyperExpand final : public flow::Stage {
 public:
  static constexpr flow::In<ResidualStream> kStream{"stream", "the stream that entered the sub-block"};
  static constexpr flow::In<HyperMix> kMix{"mix", "mixing weights from HyperCollapse"};
  static constexpr flow::In<Activations> kY{"y", "output of the sub-block, [tokens, dim]"};
  static constexpr flow::Out<ResidualStream> kOut{"stream", "the stream after the sub-block"};
  struct Options {};

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Mixes a sub-block's output into every copy of the residual stream.");
    spec.input(kStream).input(kMix).input(kY).output(kOut).uses(kModel);
  }
  explicit HyperExpand(Options) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    return {};
  }

  flow::Status process(flow::Context& context) override {
    const ResidualStream& in = context.in(kStream);
    const HyperMix& mix = context.in(kMix);
    const Activations& y = context.in(kY);
    const ModelConfig& c = model_->config();
    const std::int64_t left = in.h.rows() - y.x.rows();  // tokens that the stream leaves behind
    ResidualStream out{in.step, Rows<bf16>(y.x.rows(), in.h.cols()), mix.pre.slice(left, in.h.rows())};
    flow::parallel_for(y.x.rows(), 8, [&](Range tokens) {
      for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
        model_->kernels().expand(y.x.row(t), in.h.row(left + t), mix.post.row(left + t),
                                 mix.comb.row(left + t), c.hc_mult, c.dim, out.h.row(t));
      }
    });
    count_pass(context, in.h.rows(), in.h, y.x, out.h);
    context.emit(kOut, std::move(out));
    return {};
  }

 private:
  std::shared_ptr<Model> model_;
};
FLOW_REGISTER_STAGE(HyperExpand);

}  // namespace dsv
