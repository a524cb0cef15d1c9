"""Is 2,000 tokens a second kept up with, and how many bytes does a token take on disk?"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from phasetop.recording import load

METRONOME = Path(__file__).resolve().parent.parent / "tests" / "tools" / "metronome.py"
RATE, TOKENS = 2000, 10_000


def record(folder: Path, name: str, *options: str) -> Path:
    """A headless run against a metronome at full rate."""
    argv = [
        sys.executable,
        str(METRONOME),
        "--port",
        "0",
        "--rate",
        str(RATE),
        "--tokens",
        str(TOKENS),
        "--prefill-ms",
        "50",
    ]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().split()[-1]
    file = folder / f"{name}.phasetop"
    try:
        argv = [sys.executable, "-m", "phasetop", "run", url, "-p", "go", "--plain", f"--record={file}", *options]
        quiet = subprocess.DEVNULL
        subprocess.run(argv, check=True, stdout=quiet, stderr=quiet, stdin=quiet)
    finally:
        process.terminate()
        process.wait()
    return file


def main() -> None:
    """One run plain, one with log-probabilities, one with five alternatives."""
    with tempfile.TemporaryDirectory() as name:
        for label, options, limit in (
            ("plain", (), 60),
            ("top 1", ("--logprobs", "1"), 80),
            ("top 5", ("--logprobs", "5"), 160),
        ):
            file = record(Path(name), label.replace(" ", "-"), *options)
            tokens = load(file).runs[0].tokens
            lines = [line for line in file.read_bytes().splitlines(keepends=True) if line.startswith(b'{"k":"tok"')]
            seconds = (tokens.t[-1] - tokens.t[0]) / 1e9
            merged = 1 - len(set(tokens.t)) / len(tokens.t)
            print(
                f"{label:6} {len(tokens)} tokens in {seconds:.2f} s: {(len(tokens) - 1) / seconds:.0f} tok/s of {RATE}, "
                f"merged reads {100 * merged:.1f} %, {sum(map(len, lines)) / len(lines):.1f} B a token (limit {limit})"
            )


if __name__ == "__main__":
    main()
