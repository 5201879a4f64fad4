// The contract between the program and stages in shared libraries.
#pragma once

/// Named after the version of the headers in framework/core; changes whenever their layout does. The
/// framework defines it, a plugin refers to it: a library of another version does not link at load time,
/// before any of its code runs.
extern "C" const char flow_abi_1[];

/// Write once in a plugin, at global scope, beside its FLOW_REGISTER_STAGE lines.
#define FLOW_PLUGIN() \
  extern "C" [[gnu::visibility("default"), gnu::used]] const char* const flow_plugin_abi = flow_abi_1
