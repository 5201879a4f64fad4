#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"

namespace dsv {

/// Starts the residual stream of a pass: the embedding row of each token, copied to all hyper-connection
/// copies, and a collapse weight of one on the first copy.
///
/// Ports: tokens [tokens] -> stream h [tokens, hc_mult, dim] bf16, pre [tokens, hc_mult]; selection (empty).
/// Source: reference `Transformer.forward`, MODEL "The stack".
///
///     - {name: embed, stage: Embed, in: {tokens: tokens.step}}
class Embed final : public flow::Stage {
 public:
  static constexpr flow::In<TokenStep> kTokens{"tokens", "token ids of the pass"};
  static constexpr flow::Out<ResidualStream> kStream{"stream", "hc_mult equal copies of the embedding"};
  static constexpr flow::Out<Selection> kSelection{"selection", "no compressed positions chosen yet"};
  struct Options {};

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Embedding rows of the tokens, copied to every hyper-connection copy of the residual stream.");
    spec.input(kTokens).output(kStream).output(kSelection).uses(kModel);
  }
  explicit Embed(Options) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    const ModelConfig& c = model_->config();
    FLOW_ASSIGN(table_, model_->bf16_matrix("embed", c.vocab_size, c.dim));
    return {};
  }

  flow::Status process(flow::Context& context) override {
    const StepPtr step = context.in(kTokens).step;
    const std::int64_t copies = model_->config().hc_mult, dim = table_.cols;
    ResidualStream stream{step, Rows<bf16>(step->tokens(), copies * dim),
                          Rows<float>(step->tokens(), copies)};
    for (std::int64_t t = 0; t < step->tokens(); ++t) {
      const bf16* row = table_.data + step->ids[static_cast<std::size_t>(t)] * dim;
      for (std::int64_t c = 0; c < copies; ++c) std::copy_n(row, dim, stream.h.row(t) + c * dim);
      stream.pre.row(t)[0] = 1;
    }
    count_pass(context, step->tokens(), stream.h);
    context.emit(kStream, std::move(stream));
    context.emit(kSelection, Selection{});
    return {};
  }

 private:
  std::shared_ptr<Model> model_;
  Bf16Matrix table_;
};
FLOW_REGISTER_STAGE(Embed);

}  // namespace dsv
