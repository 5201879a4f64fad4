#include "stages/model/linear.h"
#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"

namespace dsv {

/// Collapses the finished stream, normalizes it and multiplies by the vocabulary head.
///
/// Ports: stream -> logits [positions, vocab_size] fp32, final_hidden [positions, dim] (after the norm).
/// Positions are the last of the pass, or all of them; a prompt chunk that others follow gives none unless
/// all are asked for.
/// Source: reference `Transformer.forward`, `ParallelHead`; MODEL "The stack".
///
///     - {name: head, stage: Head, in: {stream: backbone.stream}}
class Head final : public flow::Stage {
 public:
  static constexpr flow::In<ResidualStream> kStream{"stream", "residual stream after the last layer"};
  static constexpr flow::Out<Logits> kLogits{"logits", "fp32 logits"};
  static constexpr flow::Out<Activations> kHidden{"final_hidden", "input of the head, after the norm"};
  struct Options {
    std::string positions = "last";
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Final norm and vocabulary head.");
    spec.input(kStream).output(kLogits).output(kHidden).uses(kModel);
    spec.option("positions", &Options::positions, "positions that get logits").choices({"last", "all"});
  }
  explicit Head(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    const ModelConfig& c = model_->config();
    FLOW_ASSIGN(norm_, model_->bf16_vector("norm.weight", c.dim));
    FLOW_ASSIGN(head_, model_->bf16_matrix("head", c.vocab_size, c.dim));
    return {};
  }

  flow::Status process(flow::Context& context) override {
    const ResidualStream& stream = context.in(kStream);
    const ModelConfig& c = model_->config();
    const std::int64_t tokens = stream.h.rows();
    const std::int64_t first = options_.positions == "all"   ? 0
                               : stream.step->last_of_prompt ? tokens - 1
                                                             : tokens;
    Rows<bf16> collapsed(tokens - first, c.dim);
    for (std::int64_t t = first; t < tokens; ++t) {
      model_->kernels().collapse(stream.h.row(t), stream.pre.row(t), c.hc_mult, c.dim,
                                 collapsed.row(t - first));
    }
    if (first < tokens) count_pass(context, tokens - first, head_, collapsed);
    Rows<bf16> hidden = rms_norm(model_->kernels(), collapsed, norm_, c.norm_eps);
    const std::int64_t left_out = stream.step->tokens() - tokens;
    context.emit(kLogits, Logits{stream.step, left_out + first,
                                 linear_f32(model_->kernels(), head_, hidden.data(), hidden.rows())});
    context.emit(kHidden, Activations{stream.step, std::move(hidden)});
    return {};
  }

 private:
  Options options_;
  std::shared_ptr<Model> model_;
  const bf16* norm_ = nullptr;
  Bf16Matrix head_;
};
FLOW_REGISTER_STAGE(Head);

}  // namespace dsv
