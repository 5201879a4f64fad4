#!/bin/bash
# Times the fp4 products of other engines and ours in turn and prints ratios (above 1: ours is faster).
#   bench/peers/compare.sh build/release/bench/kernels/kernels_bench [kt|ggml|torch ...]
# Engines are installed from PyPI into a folder that is deleted afterwards (kt and torch need 8 GB of disk). One that
# cannot be installed or run is reported with its last lines and does not stop the others.
set -u
here=$(cd "$(dirname "$0")" && pwd)
bench=$(realpath "${1:?path of kernels_bench}")
shift
peers=("${@:-kt ggml torch}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
threads=$(nproc)
python3 -m venv "$work/venv" || exit 1
python=$work/venv/bin/python

install() { "$python" -m pip install -q "$@" >"$work/log" 2>&1; }

prepare_kt() { install kt-kernel==0.7.2; }
run_kt() { "$python" "$here/kt_kernel_experts.py" "$threads"; }

prepare_torch() { install torch; }
run_torch() { "$python" "$here/torch_product.py" "$threads"; }

# Only the vector product is compiled, for this processor.
prepare_ggml() {
  install scikit-build-core &&
    "$python" -m pip download -q --no-deps --no-binary :all: --no-build-isolation llama-cpp-python==0.3.16 \
      -d "$work" >"$work/log" 2>&1 &&
    tar xzf "$work"/llama_cpp_python-*.tar.gz -C "$work" &&
    ggml=$(echo "$work"/llama_cpp_python-*/vendor/llama.cpp/ggml) &&
    gcc -std=gnu11 -O3 -march=native -w -fPIC -shared -DGGML_VERSION='""' -DGGML_COMMIT='""' -I"$ggml/include" \
      -I"$ggml/src" -I"$ggml/src/ggml-cpu" -o "$work/libggml_product.so" "$ggml/src/ggml-cpu/arch/x86/quants.c" \
      "$ggml/src/ggml-cpu/quants.c" "$ggml/src/ggml-quants.c" >"$work/log" 2>&1 &&
    gcc -O2 -rdynamic -o "$work/ggml_product" "$here/ggml_product.c" -L"$work" -lggml_product -lm \
      -Wl,-rpath,"$work",-z,lazy,--allow-shlib-undefined >"$work/log" 2>&1
}
run_ggml() { "$work/ggml_product"; }

# Ours, as JSON of the benchmark library.
ours() { "$bench" --benchmark_filter="$1" --benchmark_min_time=0.5 --benchmark_format=json 2>/dev/null; }
filter_kt='^experts/'
filter_ggml='^fp4/expert_w1/.*/tokens:1/one_thread'
filter_torch='^fp4/expert_w1/.*/tokens:1/all_threads'

for peer in ${peers[@]}; do
  if ! "prepare_$peer"; then
    echo "$peer: cannot be installed here:"
    tail -n 5 "$work/log"
    continue
  fi
  filter="filter_$peer"
  for round in 1 2 3; do  # in turn, so that other load meets both
    if ! "run_$peer" >>"$work/$peer.theirs" 2>"$work/log"; then
      echo "$peer: cannot run here:"
      tail -n 5 "$work/log"
      continue 2
    fi
    ours "${!filter}" >"$work/$peer.ours.$round"
  done
  "$python" "$here/ratios.py" "$peer" "$work/$peer.theirs" "$work/$peer".ours.*
done
