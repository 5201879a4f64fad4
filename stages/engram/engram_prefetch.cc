#include "stages/engram/tables.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"

namespace dsv {

/// Reads the rows of one Engram layer as soon as their numbers exist, beside the layers that come before it.
///
/// Ports: ids, after (optional: reads when this has come) -> rows [tokens, columns * engram_head_dim] bf16.
/// Runs on the I/O executor. Source: reference `Engram.embed`; MODEL "Engram".
///
///     - {name: rows, stage: EngramPrefetch, in: {ids: hash.ids}, options: {layer: 14}}
class EngramPrefetch final : public flow::Stage {
 public:
  static constexpr flow::In<EngramIds> kIds{"ids", "table rows for every Engram layer"};
  static constexpr flow::OptionalIn<ResidualStream> kAfter{"after", "read only when this has come; not used"};
  static constexpr flow::Out<EngramRows> kRows{"rows", "dequantized rows of this layer's table"};
  struct Options {
    int layer = 0;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Gathers the rows of one Engram table: each distinct row once, in file order.");
    spec.input(kIds).input(kAfter).output(kRows).uses(kEngram).uses(kModel).executor(flow::Executor::io);
    spec.option("layer", &Options::layer, "Engram layer whose table is read").range(0).required();
  }
  explicit EngramPrefetch(Options options) : options_(options) {}

  flow::Status open(const flow::Opening& opening) override {
    engram_ = opening.service(kEngram);
    slot_ = opening.service(kModel)->config().engram_slot(options_.layer);
    return slot_ >= 0 ? flow::Status() : flow::errorf("layer {} has no Engram table", options_.layer);
  }

  flow::Status process(flow::Context& context) override {
    const EngramRowIds& rows = context.in(kIds).rows[static_cast<std::size_t>(slot_)];
    FLOW_ASSIGN(const Rows<bf16> gathered, engram_->gather(slot_, rows));
    const std::int64_t tokens = context.in(kIds).step->tokens();
    Rows<bf16> x(tokens, gathered.rows() * gathered.cols() / tokens);
    std::copy(gathered.all().begin(), gathered.all().end(), x.data());
    const std::int64_t row_bytes = gathered.cols() + gathered.cols() / 32;  // E4M3 codes, E8M0 scales
    count_pass(context, tokens, gathered.rows() * row_bytes);
    context.emit(kRows, EngramRows{std::move(x)});
    return {};
  }

 private:
  Options options_;
  std::shared_ptr<EngramTables> engram_;
  int slot_ = -1;
};
FLOW_REGISTER_STAGE(EngramPrefetch);

}  // namespace dsv
