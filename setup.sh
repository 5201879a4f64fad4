#!/usr/bin/env bash
# Makes a bare Debian 12 or Ubuntu 24.04 able to run this project: installs the packages that are missing, builds
# the programs (Release, build/release), and lets the built-in demo checkpoint answer. Steps that are done are not
# repeated. Tests and benchmarks are built by test.sh.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '== %s\n' "$*" >&2; }

usage() {
  cat <<'END'
Usage: ./setup.sh [STEP]

  ./setup.sh              installs the packages that are missing, builds the programs, and runs the demo
  ./setup.sh packages     only the packages
  ./setup.sh build        only the packages and the build
  ./setup.sh --help       this text

Tests and benchmarks (dsv41-bench) are built by ./test.sh.
END
}

packages() {
  local boost=1.83
  # shellcheck disable=SC1091
  . /etc/os-release
  case "${ID:-}-${VERSION_ID:-}" in
    debian-12) boost=1.81 ;;
    ubuntu-24.04) ;;
    *) say "${PRETTY_NAME:-this system} is not one this script knows; trying Ubuntu 24.04's package names" ;;
  esac
  local wanted=(g++ cmake ninja-build libtbb-dev libyaml-cpp-dev libfmt-dev libicu-dev liburing-dev
    "libboost-program-options${boost}-dev" "libboost-json${boost}-dev" libgtest-dev libgmock-dev libbenchmark-dev)
  local missing=() name
  for name in "${wanted[@]}"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "packages: all there"
    return
  fi
  say "packages: installing ${missing[*]}"
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { say "neither root nor sudo: install these packages, then run this again"; exit 1; }
    root=(sudo)
  fi
  "${root[@]}" apt-get update -q >&2
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >&2
}

build() {
  say "build: the programs, Release, into build/release (some minutes the first time)"
  [ -f build/release/build.ninja ] || cmake --preset release >&2
  cmake --build --preset release --target programs >&2
}

case "$#${1:-}" in
  0 | 1packages | 1build) ;;
  1--help | 1-h)
    usage
    exit 0
    ;;
  *)
    printf 'error: setup.sh: unknown argument: %s\n' "$*" >&2
    usage >&2
    exit 2
    ;;
esac

packages
[ "${1:-}" = packages ] && exit 0
build
[ "${1:-}" = build ] && exit 0
say "run: build/release/dsv41-run pipelines/greedy.yaml"
build/release/dsv41-run pipelines/greedy.yaml
