// ForbidTokens: never lets the given tokens be generated.
//
// A stage outside the program's tree: it is compiled into a shared library of its own, and a pipeline
// loads it with `plugins: [libforbid_tokens.so]`.
//
// Ports: in  logits  [positions, vocab_size]
//        out logits  the same, the lowest number for the forbidden tokens: probability 0
// Memory: one copy of the logits of a pass.
//
//     plugins: [libforbid_tokens.so]
//     stages:
//       - {name: forbid, stage: ForbidTokens, in: {logits: backbone.logits}, options: {ids: [260, 271]}}
//       - {name: sample, stage: Sample, in: {logits: forbid.logits}}
#include <limits>

#include "framework/core/plugin_abi.h"
#include "framework/core/registry.h"
#include "stages/model/packets.h"

namespace dsv_examples {
namespace {

using flow::Status;

class ForbidTokens final : public flow::Stage {
 public:
  static constexpr flow::In<dsv::Logits> kIn{"logits", "logits of a pass"};
  static constexpr flow::Out<dsv::Logits> kOut{"logits", "the same, without the forbidden tokens"};
  struct Options {
    std::vector<std::int64_t> ids;
  };
  static void describe(flow::StageSpec<Options>& s) {
    s.doc("Never lets the given tokens be generated.").input(kIn).output(kOut);
    s.option("ids", &Options::ids, "token ids that get no probability");
  }
  explicit ForbidTokens(const Options& options) : ids_(options.ids) {}

  Status process(flow::Context& context) override {
    dsv::Logits logits = context.in(kIn);
    const std::int64_t vocabulary = logits.rows.cols();
    for (const std::int64_t id : ids_) {
      if (id < 0 || id >= vocabulary) return flow::errorf("token {} is outside 0 to {}", id, vocabulary - 1);
      for (std::int64_t row = 0; row < logits.rows.rows(); ++row) {
        logits.rows.row(row)[id] = std::numeric_limits<float>::lowest();
      }
    }
    context.emit(kOut, std::move(logits));
    return {};
  }

 private:
  const std::vector<std::int64_t> ids_;
};
FLOW_REGISTER_STAGE(ForbidTokens);

}  // namespace
}  // namespace dsv_examples

FLOW_PLUGIN();
