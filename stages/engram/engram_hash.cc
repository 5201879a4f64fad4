#include "stages/engram/tables.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"

namespace dsv {

/// Row numbers of a pass in every Engram table. Needs token ids alone, so it runs ahead of the layers; the
/// look-back over earlier passes is kept in the sequence.
///
/// Ports: tokens -> ids: for each Engram layer, [tokens, columns] row numbers.
/// Source: reference `NgramHasher`; MODEL "Engram".
///
///     - {name: hash, stage: EngramHash, in: {tokens: tokens.step}}
class EngramHash final : public flow::Stage {
 public:
  static constexpr flow::In<TokenStep> kTokens{"tokens", "token ids of the pass"};
  static constexpr flow::Out<EngramIds> kIds{"ids", "table rows for every Engram layer"};
  struct Options {};

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Hashes the n-grams that end at each token to rows of the Engram tables.");
    spec.input(kTokens).output(kIds).uses(kEngram);
  }
  explicit EngramHash(Options) {}

  flow::Status open(const flow::Opening& opening) override {
    engram_ = opening.service(kEngram);
    return {};
  }

  flow::Status process(flow::Context& context) override {
    const StepPtr step = context.in(kTokens).step;
    count_pass(context, step->tokens());
    EngramIds ids{step, {}};
    if (engram_->hasher()) {
      FLOW_ASSIGN(ids.rows, engram_->hasher()->hash(step->ids, {}, step->sequence->engram));
    }
    context.emit(kIds, std::move(ids));
    return {};
  }

  std::function<void()> saved(const flow::Context& context) const override {
    return [sequence = context.in(kTokens).step->sequence,
            engram = context.in(kTokens).step->sequence->engram] { sequence->engram = engram; };
  }

 private:
  std::shared_ptr<EngramTables> engram_;
};
FLOW_REGISTER_STAGE(EngramHash);

}  // namespace dsv
