#include <cmath>

#include "stages/model/linear.h"
#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"

namespace dsv {

/// Adds the memory that an Engram layer looked up to every copy of the residual stream, as far as a gate lets
/// it: the agreement of the copy with a key made of the rows.
///
/// Ports: stream h [tokens, hc_mult, dim], rows [tokens, columns * engram_head_dim] -> stream.
/// Source: reference `Engram.forward`; MODEL "Engram".
///
///     - {name: engram, stage: EngramGate, in: {stream: $stream, rows: $rows}, options: {layer: 14}}
class EngramGate final : public flow::Stage {
 public:
  static constexpr flow::In<ResidualStream> kStream{"stream", "residual stream"};
  static constexpr flow::In<EngramRows> kRows{"rows", "table rows of the pass"};
  static constexpr flow::Out<ResidualStream> kOut{"stream", "residual stream with the memory added"};
  struct Options {
    int layer = 0;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Adds gated Engram memory to the residual stream.");
    spec.input(kStream).input(kRows).output(kOut).uses(kModel);
    spec.option("layer", &Options::layer, "layer index").range(0).required();
  }
  explicit EngramGate(Options options) : options_(options) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    const ModelConfig& c = model_->config();
    const std::string name = fmt::format("layers.{}.engram.", options_.layer);
    const std::int64_t columns = std::int64_t{c.engram_max_ngram_size - 1} * c.engram_n_heads;
    FLOW_ASSIGN(wkv_,
                model_->fp8(name + "wkv", std::int64_t{c.hc_mult + 1} * c.dim, columns * c.engram_head_dim));
    FLOW_ASSIGN(const Bf16Matrix q, model_->bf16_table(name + "q_weight", c.hc_mult, c.dim));
    FLOW_ASSIGN(const Bf16Matrix k, model_->bf16_table(name + "k_weight", c.hc_mult, c.dim));
    weight_.resize(static_cast<std::size_t>(c.hc_mult * c.dim));
    for (std::size_t i = 0; i < weight_.size(); ++i) {
      weight_[i] = static_cast<float>(q.data[i]) * static_cast<float>(k.data[i]);
    }
    return {};
  }

  flow::Status process(flow::Context& context) override {
    const ResidualStream& in = context.in(kStream);
    const Rows<bf16>& rows = context.in(kRows).x;
    const Rows<bf16> kv = linear(model_->kernels(), wkv_, rows.slice(rows.rows() - in.h.rows(), rows.rows()));
    ResidualStream out = in;
    flow::parallel_for(in.h.rows(), 2, [&](Range tokens) {
      for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
        for (std::int64_t c = 0; c < model_->config().hc_mult; ++c) add(out.h.row(t), kv.row(t), c);
      }
    });
    count_pass(context, in.h.rows(), wkv_, context.in(kRows).x, in.h, out.h);
    context.emit(kOut, std::move(out));
    return {};
  }

 private:
  /// Copy c of one token: h_c = bf16(h_c + gate * value). kv holds a key for each copy, then the value.
  void add(bf16* h, const bf16* kv, std::int64_t c) const {
    const ModelConfig& config = model_->config();
    const std::int64_t dim = config.dim;
    const bf16 *key = kv + c * dim, *value = kv + config.hc_mult * dim;
    h += c * dim;
    float dot = 0;
    for (std::int64_t d = 0; d < dim; ++d) {
      dot += static_cast<float>(h[d]) * weight_[static_cast<std::size_t>(c * dim + d)] *
             static_cast<float>(key[d]);
    }
    const auto inverse_rms = [&](const bf16* x) {
      const float mean = model_->kernels().sum_of_squares(x, dim) / static_cast<float>(dim);
      return 1.0f / std::sqrt(mean + static_cast<float>(config.norm_eps));
    };
    dot = dot * inverse_rms(h) * inverse_rms(key) *
          static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
    const float root = std::copysign(std::sqrt(std::max(std::fabs(dot), 1e-6f)), dot);
    const float gate = 1.0f / (1.0f + std::exp(-root));
    for (std::int64_t d = 0; d < dim; ++d)
      h[d] = bf16(static_cast<float>(h[d]) + gate * static_cast<float>(value[d]));
  }

  Options options_;
  std::shared_ptr<Model> model_;
  Fp8Matrix wkv_;
  std::vector<float> weight_;  // [hc_mult, dim], q_weight * k_weight
};
FLOW_REGISTER_STAGE(EngramGate);

}  // namespace dsv
