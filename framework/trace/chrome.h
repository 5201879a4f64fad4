// Traces for chrome://tracing and Perfetto.
#pragma once

#include <string>

#include "framework/trace/recorder.h"

namespace flow {

/// The trace in the Chrome trace event format: a lane for each thread, spans with the nodes' names, arrows
/// from the sender of a packet to its use, curves of the levels. Times start with the flow graph's run.
std::string to_chrome(const Trace& trace);

}  // namespace flow
