"""One engine under test: its collector, what its server can do, the prompts made for it, and the samples that came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from phasetop.bench_plan import CACHED_NEW, BenchPlan, Cell
from phasetop.bench_prompts import Prompts
from phasetop.bench_seen import BARE, EXACT, Seen, plan_told
from phasetop.lifeline import Lifeline
from phasetop.session import Session

OLLAMA_CONTEXT: Final = 4096
"""What Ollama's context is at least, by default; a longer prompt it cuts without a word."""
_APART: Final = 0.05
"""Prompts whose words differ by a smaller share tell nothing of how tokens grow with them."""
_LEAST_SLOPE: Final = 0.8
_MOST_SLOPE: Final = 8.0
"""Tokens a word."""
_TEMPERATURE: Final = 0.8
_TOP_K: Final = 40


class Lane(Seen):
    """An engine under test, and what is made for it.

    Args:
        lifeline: its collector.
        plan: what is measured.
        settings: of each request, as the command line gave them.
        swept: the settings that tell it from other lanes.

    """

    def __init__(
        self, lifeline: Lifeline, plan: BenchPlan, settings: Mapping[str, Any], swept: Mapping[str, int | str]
    ) -> None:
        super().__init__(lifeline.follower.session, plan, dict(swept))
        self.lifeline = lifeline
        self.prompts = Prompts(plan.seed)
        self.counts: bool | None = None  # the server counts prompts; None: not tried yet
        self.filled: tuple[Cell, tuple[str, ...]] | None = None  # what the cache was filled with last
        self.asks = 0  # how often requests were sent, each time one or several at once
        self._came: list[tuple[int, int]] = []  # (words, tokens) of prompts, as the server counted them
        self._settings = settings
        self._seed = plan.seed
        lifeline.bench(plan=plan_told(plan), swept=self.swept or None)

    @property
    def session(self) -> Session:
        """What is known so far; the follower begins another one where its file was replaced."""
        return self.lifeline.follower.session

    @property
    def state(self) -> tuple[str, str | None]:
        """The server's newest state, and why; ("starting", None) before anything is known."""
        last = self.session.server_states.last()
        return ("starting", None) if last is None else (last.s, last.why)

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
        if self.backend == "ollama" and self.plan.most_tokens > OLLAMA_CONTEXT:
            wanted["context"] = -(-self.plan.most_tokens // 1024) * 1024
        return {**wanted, **self._settings}

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
