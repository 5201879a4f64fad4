#!/usr/bin/env bash
# Builds what is out of date and runs every test.
#
#   ./test.sh               the whole suite, Release
#   ./test.sh sanitizers    the suite, then what touches memory and threads again under the sanitizers
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '== %s\n' "$*" >&2; }

suite() {  # suite PRESET [ctest options...]
  local preset=$1
  shift
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >&2
  say "build: $preset"
  cmake --build --preset "$preset" >&2
  say "test: $preset"
  ctest --preset "$preset" -j "$(nproc)" "$@"
}

./setup.sh packages
suite release
if [ "${1:-}" = sanitizers ]; then
  suite asan -LE slow
  suite tsan -L threads
fi
