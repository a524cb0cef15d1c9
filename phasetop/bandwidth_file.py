"""What a read test of this machine's memory found, kept in the state folder: it takes seconds, and changes little."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from phasetop import places

FILE: Final = "bandwidth.json"
_MOST_BYTES: Final = 1 << 16
_DISTURBED: Final = "while other programs were busy"
"""What the source of a ceiling says that was measured so; files and recordings hold the words."""
AGAIN: Final = "most rounds reached less than half of that: other programs were busy; measure again when the machine rests"


class ReadTest(msgspec.Struct, frozen=True):
    """One test: bytes a second that all threads read together.

    Attributes:
        cpu: whose memory it was; cpus: how many this process could use.
        best_bytes_per_s: the ceiling; low, median: of the other rounds, which say how much the machine was disturbed.
        day: when, as YYYY-MM-DD.

    """

    cpu: str
    cpus: int
    threads: int
    rounds: int
    best_bytes_per_s: float
    median_bytes_per_s: float
    low_bytes_per_s: float
    day: str

    @property
    def disturbed(self) -> bool:
        """Most rounds reached less than half of the best: other programs were busy, and the best may be too low, too."""
        return self.median_bytes_per_s < self.best_bytes_per_s / 2

    @property
    def source(self) -> str:
        """Where the ceiling is from, with its spread, in OUTPUTS' words."""
        low, best = self.low_bytes_per_s / 1e9, self.best_bytes_per_s / 1e9
        many = f"{self.threads} thread{'s' if self.threads != 1 else ''}"
        when = f"{self.day} {_DISTURBED}" if self.disturbed else self.day
        return f"estimate: read test of {when}, {many}, the best of {self.rounds} rounds ({low:.3g} to {best:.3g} GB/s)"


def was_disturbed(source: str) -> bool:
    """Whether a ceiling's source is a read test while other programs were busy."""
    return "read test" in source and _DISTURBED in source


def path() -> Path:
    """Where it is kept."""
    return places.state_folder() / FILE


def keep(test: ReadTest) -> None:
    """Write it down, in place of an older one.

    Raises:
        OSError: the folder cannot be written.
    """
    places.make_private(places.state_folder())
    target = path()
    fresh = target.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(test) + b"\n")
    fresh.replace(target)


def kept(cpu: str | None, cpus: int | None) -> ReadTest | None:
    """The last test of this machine; None where there is none, or it was another machine's (or another share of it)."""
    test = kept_here()
    return test if test is not None and test.cpu == (cpu or "") and test.cpus == cpus else None


def kept_here() -> ReadTest | None:
    """The last test, of whatever machine this state folder was used on; None where there is none that could be true."""
    try:
        with path().open("rb") as file:
            test = msgspec.json.decode(file.read(_MOST_BYTES), type=ReadTest)
    except (OSError, ValueError):  # msgspec's errors are ValueErrors
        return None
    return test if 1e6 < test.low_bytes_per_s <= test.best_bytes_per_s < 1e14 else None
