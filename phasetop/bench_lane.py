"""One engine under test: its collector, what its server can do, the prompts made for it, and the samples that came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from phasetop.bench_plan import CACHED_NEW, BenchPlan, Cell
from phasetop.bench_prompts import Prompts
from phasetop.bench_samples import Failure, Sample
from phasetop.bench_stats import Figure
from phasetop.lifeline import Lifeline
from phasetop.session import Session

EXACT: Final = ("llamacpp", "embedded")
"""Servers that go on past the end token, and whose cache can be told off."""
BARE: Final = (*EXACT, "ollama")
"""Servers that take a prompt as it is."""
OLLAMA_CONTEXT: Final = 4096
"""What Ollama's context is at least, by default; a longer prompt it cuts without a word."""
STRIKES: Final = 2
"""A cell that failed so often, and never did well, is left out."""
_APART: Final = 0.05
"""Prompts whose words differ by a smaller share tell nothing of how tokens grow with them."""
_LEAST_SLOPE: Final = 0.8
_MOST_SLOPE: Final = 8.0
"""Tokens a word."""
_TEMPERATURE: Final = 0.8
_TOP_K: Final = 40


class Lane:
    """An engine under test.

    Args:
        lifeline: its collector.
        plan: what is measured.
        settings: of each request, as the command line gave them.
        swept: the settings that tell it from other lanes.

    """

    def __init__(self, lifeline: Lifeline, plan: BenchPlan, settings: Mapping[str, Any], swept: Mapping[str, Any]) -> None:
        self.lifeline = lifeline
        self.swept = dict(swept)
        self.prompts = Prompts(plan.seed)
        self.samples: dict[Cell, list[Sample]] = {}
        self.failures: list[Failure] = []
        self.left_out: dict[Cell, str] = {}
        self.counts: bool | None = None  # the server counts prompts; None: not tried yet
        self._came: list[tuple[int, int]] = []  # (words, tokens) of prompts, as the server counted them
        self.filled: tuple[Cell, tuple[str, ...]] | None = None  # what the cache was filled with last
        self._plan = plan
        self._settings = settings
        self._seed = plan.seed

    @property
    def session(self) -> Session:
        """What is known so far."""
        return self.lifeline.follower.session

    @property
    def title(self) -> str:
        """``threads=4``; empty for the only lane."""
        return " ".join(f"{name}={value}" for name, value in self.swept.items())

    @property
    def backend(self) -> str | None:
        """OUTPUTS' word for the server."""
        server = next((found for versions in self.session.servers.values() if (found := versions.at())), None)
        return server.backend if server is not None else None

    @property
    def state(self) -> tuple[str, str | None]:
        """The server's newest state, and why; ("starting", None) before anything is known."""
        last = self.session.server_states.last()
        return ("starting", None) if last is None else (last.s, last.why)

    @property
    def api(self) -> str:
        """How prompts are sent."""
        return "raw" if self.backend in BARE and not self._plan.chat else "chat"

    def option(self, name: str) -> Any:
        """A value that the server was started with; None: not told."""
        server = next((found for versions in self.session.servers.values() if (found := versions.at())), None)
        option = (server.options or {}).get(name) if server is not None else None
        return option.value if option is not None else None

    def why_not(self, cell: Cell) -> str | None:
        """Why a cell cannot be measured here; None: it can be tried."""
        if cell in self.left_out:
            return self.left_out[cell]
        context = self.option("slot_context") or self.option("context")
        if self.backend in EXACT and isinstance(context, int) and cell.depth + cell.length + cell.output > context:
            return f"{cell.depth + cell.length + cell.output:,} tokens do not fit in the server's context of {context:,}"
        return None

    def settings_of(self, cell: Cell, *, output: int, slot: int, fill: bool) -> dict[str, Any]:
        """What is asked of the server for one request of a cell."""
        self._seed += 1
        wanted: dict[str, Any] = {"max_tokens": output, "temperature": _TEMPERATURE, "seed": self._seed}
        if self.backend in BARE:
            wanted["top_k"] = _TOP_K
        if self.backend in EXACT:
            wanted["ignore_eos"] = True
            if not (cell.fills or fill):
                wanted["cache_prompt"] = False
            elif (self.option("parallel") or 1) > slot:
                wanted["id_slot"] = slot  # where it was filled it must be read
        if self.backend == "ollama" and self._plan.most_tokens > OLLAMA_CONTEXT:
            wanted["context"] = -(-self._plan.most_tokens // 1024) * 1024
        return {**wanted, **self._settings}

    def strike(self, failure: Failure) -> None:
        """A repeat failed."""
        self.failures.append(failure)
        failed = sum(each.cell == failure.cell for each in self.failures)
        if not self.samples.get(failure.cell) and failed >= STRIKES:
            self.left_out[failure.cell] = failure.text

    def figures(self, cell: Cell) -> dict[str, Figure]:
        """What its repeats came to so far: prefill, decode, ttft."""
        samples = self.samples.get(cell, ())
        return {
            "prefill": Figure(tuple(s.prefill_per_s for s in samples if s.prefill_per_s is not None)),
            "decode": Figure(tuple(s.decode_per_s for s in samples if s.decode_per_s is not None)),
            "ttft": Figure(tuple(s.ttft_s for s in samples if s.ttft_s is not None)),
        }

    def narrow(self, cell: Cell, precision: float) -> bool:
        """Whether all that is known of a cell is known that well."""
        known = [figure for figure in self.figures(cell).values() if figure.values]
        return bool(known) and all(figure.spread is not None and figure.spread <= precision for figure in known)

    def learn(self, words: int, tokens: int) -> None:
        """The server counted so many tokens for a prompt of so many words."""
        self._came.append((words, tokens))

    def words_for(self, tokens: int) -> int:
        """About how many words make so many tokens, by what came of earlier prompts.

        A template adds the same to each, a word is a token or more: a straight line through the two prompts that were
        nearest and differ; of one alone, by proportion.
        """
        if not self._came:
            return max(tokens, 1)
        newest = reversed(list(enumerate(self._came)))
        (_, (words, counted)), *rest = sorted(newest, key=lambda known: (abs(known[1][1] - tokens), -known[0]))
        others = [known for _, known in rest]
        other = next((one for one in others if abs(one[0] - words) > max(_APART * words, 1)), None)
        slope = (other[1] - counted) / (other[0] - words) if other is not None else 0.0
        if _LEAST_SLOPE <= slope <= _MOST_SLOPE:
            return max(round(words + (tokens - counted) / slope), 1)
        return max(round(tokens * words / max(counted, 1)), 1)


def part_before(cell: Cell) -> tuple[int, int]:
    """(tokens, words) that are in the cache before the prompt of a cell that fills; the one that is not meant is 0."""
    if cell.words is not None and cell.cached:
        return 0, cell.words - CACHED_NEW
    if cell.cached:
        return (cell.tokens or 0) - CACHED_NEW, 0
    return cell.depth, 0
