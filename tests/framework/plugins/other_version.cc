// What a plugin looks like that was built for another version of the framework, for tests. Its code would
// end the process if it ran.
#include <cstdlib>

extern "C" const char flow_abi_0[];
extern "C" [[gnu::visibility("default"), gnu::used]] const char* const flow_plugin_abi = flow_abi_0;

[[gnu::constructor]] static void run() {
  std::abort();
}
