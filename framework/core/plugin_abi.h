// The contract between the program and stages in shared libraries.
#pragma once

#include <cstddef>

#include "framework/core/registry.h"

namespace flow {

/// Stands for one layout of the types that the program and a plugin share. The framework defines `symbol`
/// for its own layout only, and a plugin refers to that of the headers it was compiled with: a plugin of
/// another layout is refused by the loader before any of its code runs.
template <std::size_t... Sizes>
struct PluginAbi {
  static const char symbol[];
};

/// The layout of these headers. The first number changes with what sizes do not show.
using CurrentPluginAbi =
    PluginAbi<2, sizeof(Packet), sizeof(Context), sizeof(Opening), sizeof(PlanLine), sizeof(OptionInfo),
              sizeof(PortInfo), sizeof(UseInfo), sizeof(StageInfo), sizeof(ServiceInfo), sizeof(ValueInfo),
              sizeof(TapFormat), sizeof(Telemetry), sizeof(Status), sizeof(RunReport)>;
template <>
const char CurrentPluginAbi::symbol[];

}  // namespace flow

/// Write once in a plugin, at global scope, beside its FLOW_REGISTER_STAGE lines.
#define FLOW_PLUGIN()                                                                      \
  extern "C" [[gnu::visibility("default"), gnu::used]] const char* const flow_plugin_abi = \
      ::flow::CurrentPluginAbi::symbol
