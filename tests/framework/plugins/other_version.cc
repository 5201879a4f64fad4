// What a plugin looks like that was built for another version of the framework, for tests. Its code would
// end the process if it ran.
#include <cstdlib>

#include "framework/core/plugin_abi.h"

extern "C" [[gnu::visibility("default"), gnu::used]] const char* const flow_plugin_abi =
    flow::PluginAbi<0>::symbol;

[[gnu::constructor]] static void run() {
  std::abort();
}
