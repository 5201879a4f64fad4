#!/usr/bin/env bash
# What only a machine with a card can show, from a fresh checkout in under 8 minutes: builds for that card, runs the
# tests that need it (under compute-sanitizer too, where it is installed), measures the expert kernels, and times a step
# of a few released layers on the host, on one rank and on four ranks that share the card.
#
#   cuda/check.sh [SUMMARY.json]      the summary; default build/check/summary.json
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '== %s\n' "$*" >&2; }

command -v nvidia-smi >/dev/null || { say "no nvidia-smi: this machine has no NVIDIA driver"; exit 1; }
card=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
build=build/check
mkdir -p "$build"
summary=$(realpath "${1:-$build/summary.json}")
say "card: $card, sm_$arch"

./setup.sh packages
cmake -G Ninja -B "$build" -DCMAKE_BUILD_TYPE=Release -DDSV41_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="$arch" >&2
cmake --build "$build" --target tests_gpu cuda_bench dsv41-run >&2

say "tests"
ctest --test-dir "$build" -L gpu --output-on-failure >&2
sanitizer=skipped
if command -v compute-sanitizer >/dev/null; then
  compute-sanitizer --error-exitcode 1 "$build/tests/cuda/gpu_test" >&2
  sanitizer=passed
fi

say "expert kernels"
"$build/bench/cuda/cuda_bench" --benchmark_out="$build/experts.json" --benchmark_out_format=json >&2

say "a step of released layers"
model=$build/model
if [ ! -d "$model" ]; then
  "$build/dsv41-run" synth --quiet --set out="$model" --set config=tests/golden/released/config.json --set payload=random \
    --set set=n_layers=4,n_routed_experts=24,vocab_size=4096 >&2
fi
step() {  # step NAME [parameters...]
  local name=$1
  shift
  "$build/dsv41-run" greedy --quiet --json "$build/step-$name.json" --set checkpoint="$model" --set prompt_ids=3,5,7,11 \
    --set max_new_tokens=12 --set expert_cache=24 "$@" >&2
}
step host
step one-rank --set expert_device=cuda
step four-ranks --set expert_device=cuda --set expert_world=4 --set expert_oversubscribe=true
step staged --set expert_device=cuda --set expert_vram=60MiB

python3 - "$build" "$card" "$arch" "$sanitizer" "$summary" <<'PYTHON'
import json, sys
build, card, arch, sanitizer, summary = sys.argv[1:]
steps = {n: json.load(open(f"{build}/step-{n}.json")) for n in ("host", "one-rank", "four-ranks", "staged")}
ids = {n: s["sequences"][0]["generated_ids"] for n, s in steps.items()}
result = {
    "card": card, "sm": int(arch), "compute_sanitizer": sanitizer,
    "equal_tokens": all(i == ids["host"] for i in ids.values()),
    "on_card": {n: all(r["on_card"] for r in s["cards"]) for n, s in steps.items() if "cards" in s},
    "steps": {n: {k: v for k, v in s["sequences"][0].items() if "second" in k} for n, s in steps.items()},
    "experts": json.load(open(f"{build}/experts.json"))["benchmarks"],
}
json.dump(result, open(summary, "w"), indent=1)
sys.exit(0 if result["equal_tokens"] and all(result["on_card"].values()) else "tokens differ, or a card was not used")
PYTHON
say "summary: $summary"
