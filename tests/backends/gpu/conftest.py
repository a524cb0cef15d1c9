"""A false libnvidia-ml.so.1, built once with the machine's cc, and the child process that reads it."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parent / "fake_nvml.c"
CHILD = [sys.executable, "-P", "-m", "phasetop.backends.nvml_child"]
Line = dict[str, Any]


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built library."""
    cc = shutil.which("cc") or shutil.which("gcc")
    if cc is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler (cc)")
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvidia-ml.so.1"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([cc, *flags, "-o", str(library), str(SOURCE), "-lm"], check=True, timeout=60)
    return folder


class FakeNvml:
    """What the false library says; `set` changes it at once, also under a child that runs."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.file = folder / "nvml.conf"
        self.calls_file = folder / "calls"
        self.root = folder / "root"
        self._values: dict[str, object] = {}
        self.set(gpus=1)
        self.env = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library),
            "FAKE_NVML": str(self.file),
            "FAKE_NVML_CALLS": str(self.calls_file),
        }

    def set(self, values: dict[str, object] | None = None, **more: object) -> None:
        """Say something else; None takes a value back."""
        self._values.update(values or {}, **more)
        self._values = {name: value for name, value in self._values.items() if value is not None}
        text = "".join(f"{name} {value}\n" for name, value in self._values.items())
        fresh = self.file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.file)

    def calls(self) -> list[str]:
        """The functions that were called, in order."""
        return [line.split()[0] for line in self.calls_file.read_text().splitlines()] if self.calls_file.exists() else []

    def pci(self, gpu: int, *, status: str = "active", control: str = "on") -> Path:
        """Put a GPU on the false PCI bus; returns its folder."""
        folder = self.root / f"sys/bus/pci/devices/0000:{gpu + 1:02x}:00.0"
        (folder / "power").mkdir(parents=True, exist_ok=True)
        for name, text in {"vendor": "0x10de", "class": "0x030000"}.items():
            (folder / name).write_text(text + "\n")
        for name, text in {"runtime_status": status, "control": control}.items():
            (folder / "power" / name).write_text(text + "\n")
        return folder


@pytest.fixture
def fake(nvml_library: Path, tmp_path: Path) -> FakeNvml:
    """A false NVML of one GPU without GPM."""
    folder = tmp_path / "fake"
    (folder / "root").mkdir(parents=True)
    return FakeNvml(nvml_library, folder)


class Child:
    """A running child, and its lines."""

    def __init__(self, fake: FakeNvml) -> None:
        self.process = subprocess.Popen(
            [*CHILD, "--root", str(fake.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=fake.env,
            bufsize=0,
        )
        assert self.process.stdout is not None
        self._out = self.process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._rest = b""
        self.lines: list[Line] = []

    def until(self, done: Callable[[list[Line]], object], limit_s: float = 20.0) -> list[Line]:
        """Read until ``done`` of all lines is true; fails with the newest ones when the time is over or the child ends."""
        end = time.monotonic() + limit_s
        while not done(self.lines):
            left = end - time.monotonic()
            data = os.read(self._out.fileno(), 65536) if left > 0 and self._selector.select(left) else b""
            if not data:
                pytest.fail(f"it did not come; the last lines: {self.lines[-8:]}")
            *whole, self._rest = (self._rest + data).split(b"\n")
            self.lines += [json.loads(line) for line in whole]
        return self.lines

    def order(self, **order: object) -> None:
        """Send an order."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")

    def rest(self) -> list[Line]:
        """Stop it; all its lines."""
        self.order(op="stop")
        self.lines += [json.loads(line) for line in (self._rest + self._out.read()).splitlines()]
        assert self.process.wait(10) == 0
        return self.lines

    def metrics(self) -> dict[tuple[int, str], Line]:
        """The newest word on each metric, by GPU and name."""
        return {(line["g"], line["name"]): line for line in self.lines if line["k"] == "metric"}

    def values(self, name: str, g: int = 0) -> list[Any]:
        """All values of a metric."""
        numbers = {str(line["m"]) for line in self.lines if line["k"] == "metric" and (line["g"], line["name"]) == (g, name)}
        samples = [line for line in self.lines if line["k"] == "smp" and "phase" not in line]
        return [line["v"][number] for line in samples for number in numbers if number in line["v"]]

    def reasons(self, name: str, g: int = 0) -> set[str]:
        """Why values of a metric were missing."""
        numbers = {str(line["m"]) for line in self.lines if line["k"] == "metric" and (line["g"], line["name"]) == (g, name)}
        return {line["e"][number] for line in self.lines for number in numbers if number in line.get("e", {})}

    def close(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._selector.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


Start = Callable[[], Child]


@pytest.fixture
def start(fake: FakeNvml) -> Iterator[Start]:
    """Start children of the false library."""
    children: list[Child] = []

    def begin() -> Child:
        children.append(Child(fake))
        return children[-1]

    try:
        yield begin
    finally:
        for child in children:
            child.close()
