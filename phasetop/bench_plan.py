"""What `phasetop bench` was asked to measure: cells, how often, how long; read from its options."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from phasetop.amounts import read_count, read_share, read_some, several
from phasetop.faults import UsageError

WORDS: Final = (20, 400, 1600)
"""The lab's prompts."""
OUTPUT_TOKENS: Final = 64
REPEATS: Final = 5
PRECISION: Final = 0.05
EXTRA_S: Final = 120.0
"""Without --time, repeats beyond those asked for end here."""
CACHED_NEW: Final = 16
"""New tokens of a prompt whose beginning is cached."""
LEAST_TOKENS: Final = 4
"""A prompt's first tokens may be the server's own."""
MAX_CELLS: Final = 200
MAX_REPEATS: Final = 100
SWEPT: Final = {
    "threads": int,
    "batch": int,
    "ubatch": int,
    "context": int,
    "gpu_layers": int,
    "cache_type_k": str,
    "cache_type_v": str,
    "flash_attention": str,
}
"""What `--sweep` can vary: settings that the embedded engine is started with."""
_TOKENS_A_WORD: Final = 1.4  # at most, of the words that prompts are made of; for what must fit
_TIME: Final = re.compile(r"(?:(\d{1,3})h)?(?:(\d{1,5})m(?:in)?)?(?:(\d{1,6}(?:\.\d+)?)s?)?")


class Cell(Struct, frozen=True):
    """One thing that is measured.

    Attributes:
        words: length of the prompt in words; None where it was asked for in tokens.
        tokens: in tokens, those of the depth not among them; None where it was asked for in words.
        output: tokens of the reply.
        depth: tokens that are in the cache before the prompt.
        parallel: so many at once, each with a prompt of its own.
        cached: all of the prompt but its last `CACHED_NEW` tokens is in the cache.

    """

    words: int | None = None
    tokens: int | None = None
    output: int = OUTPUT_TOKENS
    depth: int = 0
    parallel: int = 1
    cached: bool = False

    @property
    def name(self) -> str:
        """As it is called in labels and benchstat: ``400w``, ``512``, ``512@4096``, ``512x4``, ``512cached``."""
        length = f"{self.words}w" if self.words is not None else str(self.tokens)
        depth = f"@{self.depth}" if self.depth else ""
        at_once = f"x{self.parallel}" if self.parallel > 1 else ""
        return f"{length}{depth}{at_once}{'cached' if self.cached else ''}"

    @property
    def length(self) -> int:
        """About how many tokens the prompt has, or exactly."""
        return self.tokens if self.tokens is not None else self.words or 0

    @property
    def most_tokens(self) -> int:
        """What a request of it needs of the context at most."""
        own = self.tokens if self.tokens is not None else round((self.words or 0) * _TOKENS_A_WORD) + 64
        return self.depth + own + self.output + 1

    @property
    def fills(self) -> bool:
        """Something has to be in the cache before."""
        return self.cached or self.depth > 0


class Sweep(Struct, frozen=True):
    """A setting of the embedded engine, and the values that it takes."""

    name: str
    values: tuple[int | str, ...]


class BenchPlan(Struct, frozen=True):
    """What to measure.

    Attributes:
        repeats: of each cell, at least (but for ``time_s``).
        precision: half of the 95 % interval over the mean that each figure should have; None: the repeats alone.
        time_s: when to stop, whatever is not done yet; None: after the repeats, those for precision within `EXTRA_S`.
        seed: of the prompts and of the order.
        chat: prompts through the chat template, also where bare ones could be sent.

    """

    cells: tuple[Cell, ...]
    repeats: int = REPEATS
    precision: float | None = PRECISION
    time_s: float | None = None
    seed: int = 1
    chat: bool = False
    sweep: Sweep | None = None

    @property
    def most_parallel(self) -> int:
        """The most requests at once."""
        return max(cell.parallel for cell in self.cells)

    @property
    def most_tokens(self) -> int:
        """What one request needs of the context at most."""
        return max(cell.most_tokens for cell in self.cells)


def read_plan(given: Mapping[str, Any]) -> BenchPlan:
    """Read `bench`'s options.

    Raises:
        UsageError: one is no such value, or they contradict each other.
    """
    words, tokens = given.get("prompt_words"), given.get("prompt_tokens")
    if words is not None and tokens is not None:
        raise UsageError("--prompt-words and --prompt-tokens exclude each other")
    output = int(given.get("output_tokens") or OUTPUT_TOKENS)
    if output < 2:
        raise UsageError(f"--output-tokens {output}: at least 2, for a decode rate")
    depths = several("--depth", given.get("depth") or "0", read_count)
    parallel = several("--parallel", given.get("parallel") or "1", read_some)
    if max(parallel) > 64:
        raise UsageError(f"--parallel {max(parallel)}: at most 64")
    if tokens is not None:
        lengths = [Cell(tokens=n, output=output) for n in several("--prompt-tokens", tokens, read_some)]
        if min(cell.length for cell in lengths) < LEAST_TOKENS:
            raise UsageError(f"--prompt-tokens: at least {LEAST_TOKENS}")
    else:
        asked = several("--prompt-words", words, read_some) if words is not None else WORDS
        lengths = [Cell(words=n, output=output) for n in asked]
    cells = [
        replace(length, depth=depth, parallel=at_once)
        for depth, at_once, length in itertools.product(depths, parallel, lengths)
    ]
    if given.get("cached"):
        long_enough = [replace(length, cached=True) for length in lengths if length.length >= 2 * CACHED_NEW]
        if not long_enough:
            raise UsageError(f"--cached: a prompt of at least {2 * CACHED_NEW} words or tokens is needed")
        cells += long_enough
    if len(cells) > MAX_CELLS:
        raise UsageError(f"{len(cells)} cells are too many: at most {MAX_CELLS}")
    repeats = given.get("repeats")
    repeats = REPEATS if repeats is None else int(repeats)
    if not 1 <= repeats <= MAX_REPEATS:
        raise UsageError(f"--repeats {repeats}: from 1 to {MAX_REPEATS}")
    return BenchPlan(
        cells=tuple(dict.fromkeys(cells)),
        repeats=repeats,
        precision=_precision(given.get("precision"), repeats),
        time_s=read_time("--time", given["time"]) if given.get("time") is not None else None,
        seed=int(given.get("seed") or 1),
        chat=bool(given.get("chat")),
        sweep=read_sweep(given["sweep"]) if given.get("sweep") is not None else None,
    )


def _precision(text: str | None, repeats: int) -> float | None:
    """The default holds where there are repeats enough for an interval; ``none`` and 0 want none."""
    if text is None:
        return PRECISION if repeats > 1 else None
    if text.strip().lower() in ("none", "off", "0", "0%"):
        return None
    return read_share("--precision", text, of="half of the interval over the mean", such_as="0.05 or 5%")


def read_time(what: str, text: str) -> float:
    """Seconds of ``90``, ``90s``, ``2m``, ``1m30s``, ``1h``.

    Raises:
        UsageError: it is none above 0; the text names ``what``, the option.
    """
    found = _TIME.fullmatch(text.strip().lower())
    seconds = 0.0
    if found is not None:
        seconds = 3600 * int(found[1] or 0) + 60 * int(found[2] or 0) + float(found[3] or 0)
    if seconds <= 0:
        raise UsageError(f"{what} {text[:40]}: a time above 0, such as 90s or 2m")
    return seconds


def read_sweep(text: str) -> Sweep:
    """``threads=1,2,4``.

    Raises:
        UsageError: it is no setting of the embedded engine, or no two values of it.
    """
    name, equals, rest = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or name not in SWEPT:
        raise UsageError(f"--sweep {text[:40]}: NAME=VALUE,… with one of {', '.join(SWEPT)}")
    values: list[int | str]
    if SWEPT[name] is int:
        values = list(several("--sweep", rest, read_some if name != "gpu_layers" else read_count))
    else:
        values = list(several("--sweep", rest, lambda _, word: word.strip().lower()))
    if len(values) < 2:
        raise UsageError(f"--sweep {text[:40]}: at least two values")
    if len(values) > 16:
        raise UsageError(f"--sweep: {len(values)} values are too many: at most 16, each is an engine of its own")
    return Sweep(name, tuple(values))


def order(cells: Sequence[Cell], lanes: int, seed: int, number: int) -> Iterator[tuple[int, Cell]]:
    """One round: every cell on every lane once, as (lane, cell), in an order that ``seed`` and the round's number decide.

    What drifts (heat, other load) so touches all cells alike. Cells of one depth follow each other, so that the depth is
    filled once.
    """
    shuffled = random.Random(f"{seed}/{number}")  # noqa: S311 - an order, no secret
    groups: dict[tuple[int, int, int], list[Cell]] = {}
    for lane in range(lanes):
        for i, cell in enumerate(cells):
            alone = not cell.depth or cell.parallel > 1
            groups.setdefault((lane, cell.depth, i if alone else -1), []).append(cell)
    keys = list(groups)
    shuffled.shuffle(keys)
    for key in keys:
        group = groups[key]
        shuffled.shuffle(group)
        for cell in group:
            yield key[0], cell
