#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"
#include "stages/moe/expert_mlp.h"

namespace dsv {

/// The expert that every token passes through, without a routing weight.
///
/// Ports: x [tokens, dim] -> y [tokens, dim] bf16. Several shared experts are stored as one wider expert.
/// Source: reference `MoE.shared_experts`; MODEL "Mixture of experts".
///
///     - {name: shared, stage: SharedExpert, in: {x: ffn_in.x}, options: {layer: 3}}
class SharedExpert final : public flow::Stage {
 public:
  static constexpr flow::In<Activations> kX{"x", "normalized input, [tokens, dim]"};
  static constexpr flow::Out<Activations> kY{"y", "output, [tokens, dim]"};
  struct Options {
    int layer = 0;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("The shared expert of one layer.");
    spec.input(kX).output(kY).uses(kModel);
    spec.option("layer", &Options::layer, "layer index").range(0).required();
  }
  explicit SharedExpert(Options options) : options_(options) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    const ModelConfig& c = model_->config();
    const std::int64_t inter = std::int64_t{c.moe_inter_dim} * c.n_shared_experts;
    const std::string name = fmt::format("layers.{}.ffn.shared_experts.", options_.layer);
    FLOW_ASSIGN(w1_, model_->fp8(name + "w1", inter, c.dim));
    FLOW_ASSIGN(w2_, model_->fp8(name + "w2", c.dim, inter));
    FLOW_ASSIGN(w3_, model_->fp8(name + "w3", inter, c.dim));
    return {};
  }

  flow::Status process(flow::Context& context) override {
    const Activations& in = context.in(kX);
    const Kernels& kernels = model_->kernels();
    count_pass(context, in.x.rows(), w1_, w2_, w3_, in.x);
    context.emit(kY, Activations{in.step, expert_mlp(kernels, w1_, w2_, w3_, quantize(kernels, in.x), nullptr,
                                                     model_->config().swiglu_limit)});
    return {};
  }

 private:
  Options options_;
  std::shared_ptr<Model> model_;
  Fp8Matrix w1_, w2_, w3_;
};
FLOW_REGISTER_STAGE(SharedExpert);

}  // namespace dsv
