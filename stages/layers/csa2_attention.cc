#include <algorithm>
#include <cmath>

#include "stages/kernels/rope.h"
#include "stages/layers/compressor.h"
#include "stages/layers/indexer.h"
#include "stages/layers/window_rows.h"
#include "stages/model/linear.h"
#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"

namespace dsv {
namespace {

/// The part of a selection that belongs to the last `tokens` tokens.
std::shared_ptr<const Selection> last_tokens(std::shared_ptr<const Selection> selection,
                                             std::int64_t tokens) {
  const std::int64_t rows = selection->positions.rows();
  if (selection->source < 0 || rows == tokens) return selection;
  Selection last{selection->source, selection->positions.slice(rows - tokens, rows), {}};
  if (!selection->blocks.empty())
    last.blocks.assign(selection->blocks.end() - tokens, selection->blocks.end());
  return flow::make_recycled<const Selection>(std::move(last));
}

}  // namespace

/// Compressed sparse attention (CSA2) of one layer. Every query reads the last window_size positions, and in
/// layers with a ratio also the compressed positions that an indexer chose. The layer's role in the
/// configuration decides what it owns: Full (compressor, index keys and queries), Reindex (index queries),
/// Reuse (takes source and positions of earlier layers) or Window.
///
/// Ports: x [tokens, dim] bf16, selection (of earlier layers) -> y, selection: of the tokens that the
/// following layers need (Step::begin). Memory: reads and extends the sequence's LayerCache; scratch is
/// (window + tokens) rows of KV, the queries and outputs of kBlock tokens, and index_topk rows for each
/// worker. Source: reference `Attention`, `sparse_attn`; MODEL "Attention".
///
///     - {name: attention, stage: Csa2Attention, in: {x: attn_in.x, selection: $selection}, options: {layer:
///     3}}
class Csa2Attention final : public flow::Stage {
 public:
  static constexpr flow::In<Activations> kX{"x", "normalized input, [tokens, dim]"};
  static constexpr flow::In<Selection> kBefore{"selection", "compressed positions chosen by earlier layers"};
  static constexpr flow::Out<Activations> kY{"y", "attention output, [tokens, dim]"};
  static constexpr flow::Out<Selection> kAfter{"selection", "positions for the layers that follow"};
  struct Options {
    int layer = 0;
    std::string index_keys = "own";
    std::string positions = "selected";
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc(
        "Compressed sparse attention (CSA2) of one layer: sliding window plus indexed compressed positions.");
    spec.input(kX).input(kBefore).output(kY).output(kAfter).uses(kModel);
    spec.option("layer", &Options::layer, "layer index").range(0).required();
    spec.option(
            "index_keys", &Options::index_keys,
            "keys an indexer ranks: its own source's, or whatever the shared slot of the released reference "
            "holds (its known defect, for comparison)")
        .choices({"own", "reference_slot"});
    spec.option(
            "positions", &Options::positions,
            "compressed positions that a query reads: those that the indexer selected, or all that it may "
            "see (for comparison; what later layers reuse changes with it)")
        .choices({"selected", "all"});
  }
  explicit Csa2Attention(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    const ModelConfig& c = model_->config();
    if (options_.layer >= c.n_layers) {
      return flow::errorf("layer {} does not exist; the model has {} layers", options_.layer, c.n_layers);
    }
    role_ = c.role(options_.layer);
    ratio_ = c.compress_ratios[static_cast<std::size_t>(options_.layer)];
    rope_.emplace(ratio_ == 0 ? RopeParams{.dim = c.rope_head_dim, .theta = c.rope_theta}
                              : RopeParams{.dim = c.rope_head_dim,
                                           .theta = c.compress_rope_theta,
                                           .factor = c.rope_factor,
                                           .original_seq_len = c.original_seq_len,
                                           .beta_fast = c.beta_fast,
                                           .beta_slow = c.beta_slow});
    return bind_weights();
  }

  flow::Status process(flow::Context& context) override {
    Pass pass = open_pass(context.in(kX), context.share(kBefore));
    for (std::int64_t p = pass.window.next(); p < pass.step.end(); p = pass.window.next()) {
      run_block(pass, {p, p < pass.begin ? pass.begin : std::min(pass.step.end(), p + kBlock)});
    }
    const Selection& selection = pass.ranked ? *pass.ranked : *pass.before;
    count_pass(context, pass.x.rows(), pass.x, weight_bytes_, cache_bytes(pass.step, selection));
    context.emit(kY, Activations{context.in(kX).step, std::move(pass.y)});
    context.emit(kAfter, pass.ranked ? std::move(pass.ranked) : std::move(pass.before));
    return {};
  }

  std::function<void()> saved(const flow::Context& context) const override {
    const std::shared_ptr<Sequence> sequence = context.in(kX).step->sequence;
    const auto layer = static_cast<std::size_t>(options_.layer);
    return [sequence, layer, cache = sequence->kv.layers[layer], slot = sequence->kv.index_slot] {
      sequence->kv.layers[layer] = cache;
      sequence->kv.index_slot = slot;
    };
  }

 private:
  static constexpr std::int64_t kBlock = 512;  ///< tokens whose queries and outputs exist at one time

  /// One invocation.
  struct Pass {
    const Step& step;
    const Rows<bf16>& x;
    std::int64_t begin;                       ///< position of the first query
    const QuantizedRows* keys;                ///< null in layers that do not rank
    std::shared_ptr<const Selection> before;  ///< of the queries' tokens
    std::shared_ptr<Selection> ranked;        ///< null in layers that do not rank
    WindowRows window;
    Rows<bf16> y;
  };

  flow::Status bind_weights();
  /// Bytes of the caches that a pass reads, each once.
  std::int64_t cache_bytes(const Step& step, const Selection& selection) const;
  bool ranks() const { return role_ == LayerRole::Full || role_ == LayerRole::Reindex; }
  Pass open_pass(const Activations& in, std::shared_ptr<const Selection> before) const;
  void run_block(Pass& pass, Range positions) const;
  /// Extends the compressor's cache where the layer owns one, and returns the keys to rank.
  const QuantizedRows& index_keys(const Rows<bf16>& x, KvCache& kv) const;
  Rows<bf16> window_kv(const QuantizedActivations& xq, std::int64_t position) const;
  Rows<bf16> queries(const QuantizedActivations& qr, std::int64_t position) const;
  Rows<bf16> attend(const Rows<bf16>& q, std::int64_t position, const Pass& pass) const;
  Rows<bf16> project(const Rows<bf16>& o) const;

  struct Task;
  void attend_token(const Task& task, std::int64_t token, Range heads) const;

  Options options_;
  std::shared_ptr<Model> model_;
  LayerRole role_ = LayerRole::Window;
  std::int64_t ratio_ = 0;
  std::optional<RopeTable> rope_;
  Fp8Matrix wq_a_, wq_b_, wkv_, wo_a_, wo_b_;
  const bf16* q_norm_ = nullptr;
  const bf16* kv_norm_ = nullptr;
  const float* sink_ = nullptr;
  std::int64_t weight_bytes_ = 0;
  Compressor compressor_;
  Indexer indexer_;
};

flow::Status Csa2Attention::bind_weights() {
  const ModelConfig& c = model_->config();
  const std::int64_t width = std::int64_t{c.n_heads} * c.head_dim,
                     low = std::int64_t{c.o_groups} * c.o_lora_rank;
  const std::string attn = fmt::format("layers.{}.attn.", options_.layer);
  FLOW_ASSIGN(wq_a_, model_->fp8(attn + "wq_a", c.q_lora_rank, c.dim));
  FLOW_ASSIGN(q_norm_, model_->bf16_vector(attn + "q_norm.weight", c.q_lora_rank));
  FLOW_ASSIGN(wq_b_, model_->fp8(attn + "wq_b", width, c.q_lora_rank));
  FLOW_ASSIGN(wkv_, model_->fp8(attn + "wkv", c.head_dim, c.dim));
  FLOW_ASSIGN(kv_norm_, model_->bf16_vector(attn + "kv_norm.weight", c.head_dim));
  FLOW_ASSIGN(wo_a_, model_->fp8(attn + "wo_a", low, width / c.o_groups));
  FLOW_ASSIGN(wo_b_, model_->fp8(attn + "wo_b", c.dim, low));
  FLOW_ASSIGN(sink_, model_->f32_vector(attn + "attn_sink", c.n_heads));
  if (role_ == LayerRole::Full) FLOW_TRY(compressor_.open(*model_, options_.layer, *rope_));
  if (role_ == LayerRole::Full || role_ == LayerRole::Reindex)
    FLOW_TRY(indexer_.open(*model_, options_.layer, *rope_));
  weight_bytes_ = bytes_of(wq_a_) + bytes_of(wq_b_) + bytes_of(wkv_) + bytes_of(wo_a_) + bytes_of(wo_b_) +
                  compressor_.weight_bytes() + indexer_.weight_bytes();
  return {};
}

std::int64_t Csa2Attention::cache_bytes(const Step& step, const Selection& selection) const {
  const ModelConfig& c = model_->config();
  const std::vector<LayerCache>& layers = step.sequence->kv.layers;
  const LayerCache& own = layers[static_cast<std::size_t>(options_.layer)];
  std::int64_t bytes =
      std::min<std::int64_t>(step.position + step.tokens(), c.window_size) * own.window.row_bytes();
  if (role_ == LayerRole::Window) return bytes;
  const LayerCache& source = layers[static_cast<std::size_t>(c.kv_source(options_.layer))];
  if (role_ != LayerRole::Reuse) bytes += source.index_keys.size() * source.index_keys.row_bytes();
  return bytes + std::min(step.tokens() * selection.positions.cols(), source.compressed.size()) *
                     source.compressed.row_bytes();
}

Csa2Attention::Pass Csa2Attention::open_pass(const Activations& in,
                                             std::shared_ptr<const Selection> before) const {
  const ModelConfig& c = model_->config();
  const Step& step = *in.step;
  KvCache& kv = step.sequence->kv;
  const std::int64_t begin = step.begin(options_.layer + 1), tokens = step.end() - begin;
  Pass pass{step,
            in.x,
            begin,
            ranks() ? &index_keys(in.x, kv) : nullptr,
            last_tokens(std::move(before), tokens),
            nullptr,
            {model_->kernels(),
             kv.layers[static_cast<std::size_t>(options_.layer)],
             c.window_size,
             c.head_dim,
             {step.end() - in.x.rows(), step.end()},
             begin},
            {tokens, in.x.cols()}};
  if (ranks()) {
    pass.ranked = flow::make_recycled<Selection>(
        options_.positions == "all" ? all_positions(options_.layer, begin, tokens, ratio_, pass.keys->size())
                                    : indexer_.begin(tokens, step.end(), *pass.keys, *pass.before));
  }
  return pass;
}

/// Positions of one block: before the first query only the window is extended.
void Csa2Attention::run_block(Pass& pass, Range positions) const {
  const Kernels& kernels = model_->kernels();
  const std::int64_t first = pass.x.rows() - pass.step.end();  // row of position 0
  const Rows<bf16> x = pass.x.slice(first + positions.begin, first + positions.end);
  const QuantizedActivations xq = quantize(kernels, x);
  pass.window.append(window_kv(xq, positions.begin));
  if (positions.begin < pass.begin) return;
  const QuantizedActivations qr =
      quantize(kernels, rms_norm(kernels, linear(kernels, wq_a_, xq), q_norm_, model_->config().norm_eps));
  const std::int64_t token = positions.begin - pass.begin;
  if (pass.ranked && options_.positions == "selected") {
    indexer_.select(x, qr, positions.begin, *pass.keys, *pass.before, token, *pass.ranked);
  }
  const Rows<bf16> y = project(attend(queries(qr, positions.begin), positions.begin, pass));
  std::copy_n(y.data(), y.rows() * y.cols(), pass.y.row(token));
}

const QuantizedRows& Csa2Attention::index_keys(const Rows<bf16>& x, KvCache& kv) const {
  if (role_ == LayerRole::Full) {
    const std::int64_t groups = compressor_.append(x, kv.layers[static_cast<std::size_t>(options_.layer)]);
    if (groups > 0) kv.index_slot = options_.layer;
  }
  const bool own = options_.index_keys == "own" || kv.index_slot < 0;
  const int source = own ? model_->config().kv_source(options_.layer) : kv.index_slot;
  return kv.layers[static_cast<std::size_t>(source)].index_keys;
}

Rows<bf16> Csa2Attention::queries(const QuantizedActivations& qr, std::int64_t position) const {
  const ModelConfig& c = model_->config();
  Rows<bf16> q = linear(model_->kernels(), wq_b_, qr);
  flow::parallel_for(q.rows(), 4, [&](Range tokens) {
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
      rope_->apply(q.row(t) + c.head_dim - c.rope_head_dim, c.n_heads, c.head_dim, position + t, false);
    }
  });
  return q;
}

Rows<bf16> Csa2Attention::window_kv(const QuantizedActivations& xq, std::int64_t position) const {
  const ModelConfig& c = model_->config();
  Rows<bf16> kv = rms_norm(model_->kernels(), linear(model_->kernels(), wkv_, xq), kv_norm_, c.norm_eps);
  for (std::int64_t t = 0; t < kv.rows(); ++t) {
    rope_->apply(kv.row(t) + c.head_dim - c.rope_head_dim, position + t, false);
  }
  return kv;
}

/// What the workers of one block share.
struct Csa2Attention::Task {
  const Rows<bf16>& q;
  std::int64_t position;  // of the first query
  const WindowRows& window;
  const Selection* selection;       // null: window only
  std::int64_t selected;            // row of the selection that belongs to the first query
  const QuantizedRows* compressed;  // the source's KV
  Rows<bf16>& o;
};

void Csa2Attention::attend_token(const Task& task, std::int64_t token, Range heads) const {
  const Kernels& kernels = model_->kernels();
  const ModelConfig& c = model_->config();
  flow::StepVector<const bf16*> list;
  list.reserve(static_cast<std::size_t>(c.window_size + (task.selection ? task.selection->positions.cols() : 0)));
  for (std::int64_t p = task.position + token - c.window_size + 1; p <= task.position + token; ++p) {
    list.push_back(task.window.row(p));
  }
  const std::int64_t chosen = task.selection ? task.selection->positions.cols() : 0;
  Rows<bf16> decoded(chosen, c.head_dim);
  for (std::int64_t i = 0; i < chosen; ++i) {
    const std::int32_t position = task.selection->positions.row(task.selected + token)[i];
    if (position < 0) break;
    kernels.dequantize_fp4_e4m3(task.compressed->codes(position), task.compressed->scales(position),
                                c.head_dim, decoded.row(i));
    list.push_back(decoded.row(i));
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
  flow::StepVector<float> scratch(static_cast<std::size_t>(kernels.attention_scratch(c.head_dim)));
  kernels.attend({task.q.row(token), c.n_heads, c.head_dim, list, sink_, scale, task.o.row(token)}, heads,
                 scratch.data());
  bf16* tails = task.o.row(token) + (heads.begin + 1) * c.head_dim - c.rope_head_dim;
  rope_->apply(tails, heads.size(), c.head_dim, task.position + token, true);
}

Rows<bf16> Csa2Attention::attend(const Rows<bf16>& q, std::int64_t position, const Pass& pass) const {
  const ModelConfig& c = model_->config();
  Rows<bf16> o(q.rows(), q.cols());
  Task task{q, position, pass.window, nullptr, position - pass.begin, nullptr, o};
  if (role_ != LayerRole::Window) {
    const auto source = static_cast<std::size_t>(c.kv_source(options_.layer));
    task.selection = pass.ranked ? pass.ranked.get() : pass.before.get();
    task.compressed = &pass.step.sequence->kv.layers[source].compressed;
  }
  // One token is split by heads, many by tokens.
  const std::int64_t slices =
      q.rows() >= flow::parallelism() ? 1 : std::min<std::int64_t>(c.n_heads, flow::parallelism());
  const std::int64_t reads =
      (c.window_size + (task.selection ? task.selection->positions.cols() : 0)) * q.cols();
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 * slices / reads);
  flow::parallel_for(q.rows() * slices, grain, [&](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const std::int64_t slice = i % slices;
      attend_token(task, i / slices, {c.n_heads * slice / slices, c.n_heads * (slice + 1) / slices});
    }
  });
  return o;
}

Rows<bf16> Csa2Attention::project(const Rows<bf16>& o) const {
  const ModelConfig& c = model_->config();
  Rows<bf16> low(o.rows(), wo_a_.rows);
  flow::parallel_for(wo_a_.rows, row_grain(wo_a_.cols, o.rows()), [&](Range rows) {
    for (std::int64_t first = rows.begin; first < rows.end;) {
      const std::int64_t group = first / c.o_lora_rank, end = std::min(rows.end, (group + 1) * c.o_lora_rank);
      model_->kernels().fp8_bf16_product(wo_a_, o.data() + group * wo_a_.cols, o.rows(), o.cols(),
                                         {first, end}, low.data(), low.cols());
      first = end;
    }
  });
  return linear(model_->kernels(), wo_b_, low);
}

FLOW_REGISTER_STAGE(Csa2Attention);

}  // namespace dsv
