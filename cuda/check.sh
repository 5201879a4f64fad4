#!/usr/bin/env bash
# What only a machine with a card can show, from a fresh checkout in under 8 minutes: builds for that card, runs the
# tests that need it (under compute-sanitizer too, where it is installed), measures the expert kernels, and times steps
# of four released layers with their experts on the host, on one rank, on four ranks that share the card, and on one
# rank that has no room for them.
#
#   cuda/check.sh [SUMMARY.json]      default: build/check/summary.json
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '== %s\n' "$*" >&2; }

command -v nvidia-smi >/dev/null || { say "no nvidia-smi: this machine has no NVIDIA driver"; exit 1; }
card=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
build=build/check
mkdir -p "$build"
summary=${1:-$build/summary.json}
say "card: $card, sm_$arch"

./setup.sh packages
cmake -G Ninja -B "$build" -DCMAKE_BUILD_TYPE=Release -DDSV41_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="$arch" >&2
cmake --build "$build" --target tests_gpu cuda_bench step_bench dsv41-run >&2

say "tests"
ctest --test-dir "$build" -L gpu --output-on-failure >&2
sanitizer=skipped
if command -v compute-sanitizer >/dev/null; then
  compute-sanitizer --error-exitcode 1 "$build/tests/cuda/gpu_test" >&2
  sanitizer=passed
fi

report() {  # report NAME PROGRAM [arguments...]: a benchmark's report in $build/NAME.json
  local name=$1
  shift
  say "$*"
  "$@" --benchmark_out="$build/$name.json" --benchmark_out_format=json >&2
}
model=$build/model
step() {  # step NAME [arguments...]
  local name=$1
  shift
  report "step-$name" "$build/bench/pipelines/step_bench" --prefill 64 --set expert_cache=24 "$@"
}

report experts "$build/bench/cuda/cuda_bench"
rm -rf "$model"
step host --layers 4 --experts 24 --keep "$model"
step one-rank --checkpoint "$model" --set expert_device=cuda
step four-ranks --checkpoint "$model" --set expert_device=cuda --set expert_world=4 --set expert_oversubscribe=true
step staged --checkpoint "$model" --set expert_device=cuda --set expert_vram=60MiB

ids() {  # ids [parameters...]: what the model generates, and whether a rank works on the host
  "$build/dsv41-run" greedy --quiet --json - --set checkpoint="$model" --set prompt_ids=3,5,7,11 --set max_new_tokens=8 "$@" |
    grep -oE '"generated_ids":\[[0-9,]*\]|"on_card":false'
}
host=$(ids)
equal=true
for ranks in 1 4; do
  [ "$(ids --set expert_device=cuda --set expert_world=$ranks --set expert_oversubscribe=true)" = "$host" ] || equal=false
done

{
  printf '{"card": "%s", "sm": %s, "compute_sanitizer": "%s", "equal_tokens": %s' "$card" "$arch" "$sanitizer" "$equal"
  for name in experts step-host step-one-rank step-four-ranks step-staged; do
    printf ',\n"%s": ' "$name"
    cat "$build/$name.json"
  done
  printf '}\n'
} >"$summary"
say "equal tokens: $equal; summary: $summary"
$equal
