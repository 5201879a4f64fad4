// Packets between the stages that fetch and compute routed experts.
#pragma once

#include <memory>

#include "framework/core/packet.h"
#include "stages/moe/expert_cache.h"

namespace dsv {

/// The experts that one device computes in one pass and layer, loaded or on their way.
struct ExpertPages {
  std::shared_ptr<ExpertRequest> request;
};

}  // namespace dsv

FLOW_PACKET_TYPE(dsv::ExpertPages, "ExpertPages");
