// Routed experts on the host.
#pragma once

#include "framework/core/stage.h"
#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/moe/expert_cache.h"

namespace dsv {

/// The (token, expert) pairs of a pass by expert: indices into its routes, ascending.
using ExpertPairs = flow::StepMap<std::int32_t, flow::StepVector<std::int64_t>>;
ExpertPairs pairs_by_expert(const Routes& routes);

/// One row for each pair of the experts that `request` delivers, computed in the order of their arrival.
/// x [tokens, dim]. Incomplete when the run is cancelled. Source: reference `Expert`.
flow::Result<ExpertOutputs> compute_on_host(const Model& model, ExpertRequest& request, const Rows<bf16>& x,
                                            const Routes& routes, const flow::Context& context);

}  // namespace dsv
