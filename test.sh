#!/usr/bin/env bash
# Builds what is out of date and runs every test.
#
#   ./test.sh               the whole suite, Release
#   ./test.sh sanitizers    the suite, then what touches memory and threads again under the sanitizers
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '== %s\n' "$*" >&2; }

suite() {  # suite PRESET TARGET [ctest options...]
  local preset=$1 target=$2
  shift 2
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >&2
  say "build: $preset"
  cmake --build --preset "$preset" --target "$target" >&2
  say "test: $preset"
  ctest --preset "$preset" -j "$(nproc)" "$@"
}

./setup.sh packages
suite release all
if [ "${1:-}" = sanitizers ]; then
  suite asan tests_memory -L memory
  suite tsan tests_threads -L threads
fi
