#include <cmath>

#include "stages/kernels/hyper.h"
#include "stages/model/linear.h"
#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"

namespace dsv {

/// Entry of a sub-block (attention or experts) of a hyper-connected layer: collapses the copies of the
/// residual stream with the weights that the previous sub-block made, normalizes, and computes the mixing
/// weights of this sub-block from the stream.
///
/// Ports: stream h [tokens, hc_mult, dim], pre [tokens, hc_mult] -> x [tokens, dim] bf16, mix (pre, post,
/// comb). Source: reference `Block.hc_pre`, `hc_split_sinkhorn`; MODEL "The stack"; mHC (arXiv 2512.24880).
///
///     - {name: attn_in, stage: HyperCollapse, in: {stream: $stream}, options: {layer: 3, block: attn}}
class HyperCollapse final : public flow::Stage {
 public:
  static constexpr flow::In<ResidualStream> kStream{"stream", "residual stream and its collapse weights"};
  static constexpr flow::Out<Activations> kX{"x", "normalized input of the sub-block, [tokens, dim]"};
  static constexpr flow::Out<HyperMix> kMix{"mix", "mixing weights for HyperExpand"};
  struct Options {
    int layer = 0;
    std::string block = "attn";
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc(
        "Collapses the residual stream for a sub-block, normalizes it, and computes the sub-block's mixing "
        "weights.");
    spec.input(kStream).output(kX).output(kMix).uses(kModel);
    spec.option("layer", &Options::layer, "layer index").range(0).required();
    spec.option("block", &Options::block, "sub-block").choices({"attn", "ffn"}).required();
  }
  explicit HyperCollapse(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    const ModelConfig& c = model_->config();
    const std::int64_t copies = c.hc_mult, mixes = (2 + copies) * copies;
    const std::string layer = fmt::format("layers.{}.", options_.layer), hc = layer + "hc_" + options_.block;
    FLOW_ASSIGN(norm_, model_->bf16_vector(layer + options_.block + "_norm.weight", c.dim));
    FLOW_ASSIGN(fn_, model_->f32_matrix(hc + "_fn", mixes, copies * c.dim));
    FLOW_ASSIGN(base_, model_->f32_vector(hc + "_base", mixes));
    FLOW_ASSIGN(scale_, model_->f32_vector(hc + "_scale", 3));
    return {};
  }

  flow::Status process(flow::Context& context) override {
    const ResidualStream& stream = context.in(kStream);
    const ModelConfig& c = model_->config();
    Rows<bf16> collapsed(stream.h.rows(), c.dim);
    flow::parallel_for(stream.h.rows(), 8, [&](Range tokens) {
      for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
        model_->kernels().collapse(stream.h.row(t), stream.pre.row(t), c.hc_mult, c.dim, collapsed.row(t));
      }
    });
    count_pass(context, stream.h.rows(), stream.h, fn_, collapsed);
    context.emit(kX, Activations{stream.step, rms_norm(model_->kernels(), collapsed, norm_, c.norm_eps)});
    context.emit(kMix, mix(stream.h));
    return {};
  }

 private:
  HyperMix mix(const Rows<bf16>& h) const {
    const ModelConfig& c = model_->config();
    const std::int64_t copies = c.hc_mult;
    Rows<float> mixes = linear_f32(model_->kernels(), fn_, h.data(), h.rows());
    HyperMix mix{Rows<float>(h.rows(), copies), Rows<float>(h.rows(), copies),
                 Rows<float>(h.rows(), copies * copies)};
    flow::parallel_for(h.rows(), 16, [&](Range tokens) {
      for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
        const float mean =
            model_->kernels().sum_of_squares(h.row(t), h.cols()) / static_cast<float>(h.cols());
        const float rs = 1.0f / std::sqrt(mean + static_cast<float>(c.norm_eps));
        for (std::int64_t i = 0; i < mixes.cols(); ++i) mixes.row(t)[i] *= rs;
        sinkhorn(mixes.row(t), scale_, base_, static_cast<int>(copies), c.hc_sinkhorn_iters,
                 static_cast<float>(c.hc_eps), mix.pre.row(t), mix.post.row(t), mix.comb.row(t));
      }
    });
    return mix;
  }

  Options options_;
  std::shared_ptr<Model> model_;
  const bf16* norm_ = nullptr;
  F32Matrix fn_;
  const float* base_ = nullptr;
  const float* scale_ = nullptr;
};
FLOW_REGISTER_STAGE(HyperCollapse);

}  // namespace dsv
