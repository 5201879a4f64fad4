// The values that travel between the model's stages.
//
// A Step is one pass through the stack: a chunk of the prompt, or one new token. Every packet of a pass
// shares its Step, and through it the sequence whose caches the stages read and extend. A packet of rows
// holds the last tokens of its pass: all of them, or, deep in the stack, those that can still matter (see
// prefill.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/packet.h"
#include "stages/model/rows.h"
#include "stages/model/sequence.h"

namespace dsv {

/// A prompt, ready for the loop.
struct Prompt {
  std::string text;               ///< as given; empty for raw ids
  std::vector<std::int32_t> ids;  ///< BOS included
};

/// One pass of one sequence: token ids at positions position, position + 1, ...
struct Step {
  std::shared_ptr<Sequence> sequence;
  flow::StepVector<std::int32_t> ids;
  std::int64_t position = 0;
  bool last_of_prompt = true;               ///< false for a prompt chunk that others follow
  std::optional<std::int32_t> forced_next;  ///< the next token is given, not sampled
  std::shared_ptr<const std::vector<std::int64_t>>
      begins;  ///< prefill_begins of the prompt; null: every position
  std::int64_t tokens() const { return static_cast<std::int64_t>(ids.size()); }
  std::int64_t end() const { return position + tokens(); }
  /// First position of this pass that the stream before `layer` holds; end() when it holds none.
  std::int64_t begin(int layer) const {
    return begins ? std::clamp((*begins)[static_cast<std::size_t>(layer)], position, end()) : position;
  }
};
using StepPtr = std::shared_ptr<const Step>;

/// Token ids of one pass.
struct TokenStep {
  StepPtr step;
};

/// The residual stream between two sub-blocks, and the weights that collapse it for the next one.
struct ResidualStream {
  StepPtr step;
  Rows<bf16> h;     ///< [tokens, hc_mult * dim]
  Rows<float> pre;  ///< [tokens, hc_mult]
};

/// bf16 rows [tokens, cols] inside a sub-block.
struct Activations {
  StepPtr step;
  Rows<bf16> x;
};

/// Mixing weights that a sub-block computes from the stream before it runs.
struct HyperMix {
  Rows<float> pre;   ///< [tokens, hc_mult]: collapses for the following sub-block
  Rows<float> post;  ///< [tokens, hc_mult]: weight of the sub-block's output in each copy
  Rows<float> comb;  ///< [tokens, hc_mult * hc_mult]: from copy (row) to copy (column)
};

/// Compressed positions that an index source chose; later layers of the pass reuse them.
struct Selection {
  int source = -1;                                ///< layer that ranked; -1 = none yet
  Rows<std::int32_t> positions;                   ///< [tokens, k] ascending, -1 = unused
  flow::StepVector<flow::StepVector<std::int32_t>> blocks;  ///< candidate blocks of each token, once there are any
};

/// Experts chosen for each token, in ascending expert order.
struct Routes {
  StepPtr step;
  Rows<std::int32_t> experts;  ///< [tokens, n_activated_experts]
  Rows<float> weights;         ///< [tokens, n_activated_experts]
};

/// Outputs of routed experts: row i belongs to token `token[i]` and expert `expert[i]`.
struct ExpertOutputs {
  flow::StepVector<std::int32_t> token, expert;
  Rows<bf16> y;
};

/// Engram table rows of one pass, for every Engram layer in layout order: [token][column].
struct EngramIds {
  StepPtr step;
  flow::StepVector<EngramRowIds> rows;
};

/// Dequantized rows of one Engram table, the columns of a token side by side.
struct EngramRows {
  Rows<bf16> x;  ///< [tokens, columns * engram_head_dim]
};

/// Logits of the positions that were asked for.
struct Logits {
  StepPtr step;
  std::int64_t first = 0;  ///< token index within the pass of row 0
  Rows<float> rows;        ///< [positions, vocab_size]
};

/// Outcome of a pass: the next token, or none after a prompt chunk that others follow.
struct SampledToken {
  StepPtr step;
  std::optional<std::int32_t> id;
  double log_probability = 0;  ///< natural logarithm, at temperature 1
};

/// A token that the loop accepted, or the end of its sequence.
struct GeneratedToken {
  std::shared_ptr<Sequence> sequence;
  std::optional<std::int32_t> id;
  std::optional<std::string> finish_reason;  ///< "stop", "length", "continuation" on the last packet
};

}  // namespace dsv

FLOW_PACKET_TYPE(dsv::Prompt, "Prompt");
FLOW_PACKET_TYPE(dsv::GeneratedToken, "GeneratedToken");

#define DSV_TAPPABLE_AS(Type, Name, Result)                         \
  template <>                                                       \
  struct flow::PacketTraits<Type> {                                 \
    static constexpr std::string_view name = Name;                  \
    static constexpr bool result = Result;                          \
    static std::vector<flow::TensorRef> tensors(const Type& value); \
  }
#define DSV_TAPPABLE(Type, Name) DSV_TAPPABLE_AS(Type, Name, false)
#define DSV_RESULT(Type, Name) DSV_TAPPABLE_AS(Type, Name, true)
DSV_TAPPABLE(dsv::TokenStep, "TokenStep");
DSV_TAPPABLE(dsv::ResidualStream, "ResidualStream");
DSV_TAPPABLE(dsv::Activations, "Activations");
DSV_TAPPABLE(dsv::HyperMix, "HyperMix");
DSV_TAPPABLE(dsv::Selection, "Selection");
DSV_TAPPABLE(dsv::Routes, "Routes");
DSV_TAPPABLE(dsv::ExpertOutputs, "ExpertOutputs");
DSV_TAPPABLE(dsv::EngramIds, "EngramIds");
DSV_TAPPABLE(dsv::EngramRows, "EngramRows");
DSV_RESULT(dsv::Logits, "Logits");
DSV_RESULT(dsv::SampledToken, "SampledToken");
#undef DSV_RESULT
#undef DSV_TAPPABLE
#undef DSV_TAPPABLE_AS
