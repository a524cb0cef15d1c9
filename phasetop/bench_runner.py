"""`phasetop bench` at work: warm-ups, then rounds over the cells, each request over its collector as a run without a view.

The work is a generator that yields whenever it has to wait, so that a headless loop and the live view's frames can drive it
alike: `Bench.advance` goes on as far as it can.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeVar

from phasetop.bench_lane import Lane, part_before
from phasetop.bench_plan import CACHED_NEW, EXTRA_S, MAX_REPEATS, BenchPlan, Cell, order
from phasetop.bench_prompts import text_of
from phasetop.bench_samples import Failure, sample_of
from phasetop.bench_seen import Stopped

T = TypeVar("T")
_Waits = Generator[None, None, T]
"""A piece of work that yields while it waits."""

WARMUP_TOKENS: Final = 8
_FITS: Final = 8
"""A prompt is put right at most so often."""
_GRACE_SHARE: Final = 0.05
_GRACE_S: Final = 2.0
"""What runs when ``--time`` is up may take so much of it more, and at most so long."""


class Bench:
    """A bench over its lanes.

    Args:
        lanes: the engines, one without a sweep.
        plan: what to measure.
        clock: seconds, monotonic.

    Attributes:
        stopped: why it ended; None: it goes on.
        rounds: begun.
        now: what is being measured, for a progress line.

    """

    def __init__(self, lanes: Sequence[Lane], plan: BenchPlan, clock: Callable[[], float] = time.monotonic) -> None:
        self.lanes = lanes
        self.plan = plan
        self.stopped: Stopped | None = None
        self.rounds = 0
        self.now = "waiting for the server"
        self.began: float | None = None
        self._clock = clock
        self._fastest: dict[tuple[int, Cell], float] = {}  # s of a cell's fastest repeat on a lane, by its place
        self._script = self._work()

    def advance(self) -> bool:
        """Go on without waiting; False when it is over."""
        if self.stopped is None:
            try:
                next(self._script)
            except StopIteration:
                assert self.stopped is not None
                self._tell()
        return self.stopped is None

    def interrupt(self) -> None:
        """End it here; what there is stays."""
        if self.stopped is None:
            self._script.close()
            self.stopped = "interrupted"
            self._tell()

    def _tell(self) -> None:
        """Let the sessions say how it ended."""
        for lane in self.lanes:
            lane.lifeline.bench(rounds=self.rounds, took_ns=round(self.took_s * 1e9), stopped=self.stopped)

    @property
    def took_s(self) -> float:
        """Since the server was ready."""
        return 0.0 if self.began is None else self._clock() - self.began

    def progress(self) -> tuple[int, int]:
        """(repeats done, repeats asked for) over all cells that can be measured."""
        done = asked = 0
        for lane in self.lanes:
            for cell in self.plan.cells:
                if lane.why_not(cell) is None:
                    done += min(len(lane.samples.get(cell, ())), self.plan.repeats)
                    asked += self.plan.repeats
        return done, asked

    def _work(self) -> _Waits[None]:
        for lane in self.lanes:
            yield from self._ready(lane)
        if all(lane.state[0] == "gone" or lane.lifeline.follower.ended for lane in self.lanes):
            yield from self._refused()
            self.stopped = "failed"
            return
        self.began = self._clock()
        for lane in self.lanes:
            yield from self._warm(lane)
        while self.stopped is None:
            self.stopped = self._over()
            if self.stopped is not None:
                return
            self.rounds += 1
            measured = skipped = False
            for i, cell in order(self.plan.cells, len(self.lanes), self.plan.seed, self.rounds):
                lane = self.lanes[i]
                if self._is_up():
                    self.stopped = "time"
                    return
                if lane.why_not(cell) is None and not self._enough(lane, cell):
                    if self._ends_late(self._fastest.get((i, cell), 0.0)):
                        skipped = True
                        continue
                    measured = True
                    self.now = f"round {self.rounds} · {lane.title or cell.name}"
                    began, known = self._clock(), len(lane.samples.get(cell, ()))
                    yield from self._measure(lane, cell)
                    if len(lane.samples.get(cell, ())) > known:
                        took = self._clock() - began
                        self._fastest[i, cell] = min(took, self._fastest.get((i, cell), took))
            if skipped and not measured:
                self.stopped = "time"

    def _is_up(self) -> bool:
        """The time is up: what was given, or what there is beyond the repeats."""
        if self.plan.time_s is not None:
            return self.took_s >= self.plan.time_s
        return self.rounds > self.plan.repeats and self.took_s >= EXTRA_S

    def _ends_late(self, takes_s: float) -> bool:
        """Whether what takes so long from now on ends more than a little after the time that was given."""
        given = self.plan.time_s
        return given is not None and self.took_s + takes_s > given + min(_GRACE_SHARE * given, _GRACE_S)

    def _enough(self, lane: Lane, cell: Cell) -> bool:
        done = len(lane.samples.get(cell, ()))
        if done < self.plan.repeats:
            return False
        return self.plan.precision is None or lane.narrow(cell, self.plan.precision)

    def _over(self) -> Stopped | None:
        left = [(lane, cell) for lane in self.lanes for cell in self.plan.cells if lane.why_not(cell) is None]
        if not left:
            return "failed" if not any(lane.samples for lane in self.lanes) else "repeats"
        if all(self._enough(lane, cell) for lane, cell in left):
            return "repeats" if self.plan.precision is None else "narrow"
        if self.rounds >= MAX_REPEATS:
            return "repeats"
        return "time" if self.rounds >= self.plan.repeats and self._is_up() else None

    def _ready(self, lane: Lane) -> _Waits[None]:
        while not lane.lifeline.follower.ended:
            state = lane.state[0]
            if state in ("ready", "gone"):
                return
            self.now = {"loading": "the model loads"}.get(state, "waiting for the server")
            yield

    def _refused(self) -> _Waits[None]:
        """Ask once where there is no server, for the fault with its code."""
        lane = self.lanes[0]
        found = yield from self._ask(lane, self.plan.cells[0], [["x"]], repeat=0, output=1, warmup=True)
        if isinstance(found, Failure):
            lane.failures.append(found)

    def _warm(self, lane: Lane) -> _Waits[None]:
        """Each length and each number of requests at once a first time, not counted; a depth is as long as it is deep."""
        warm: dict[tuple[int | None, int | None, int], Cell] = {}
        for cell in self.plan.cells:
            if lane.why_not(cell) is None:
                warm.setdefault((cell.words, cell.tokens, cell.parallel), cell)
        for (words, tokens, parallel), cell in warm.items():
            if self.plan.time_s is not None and self._is_up():
                return
            self.now = f"warm-up{f' · {lane.title}' if lane.title else ''}"
            plain = Cell(words=words, tokens=tokens, output=cell.output, parallel=parallel)
            prompts = []
            for _ in range(parallel):
                prompts.append((yield from self._prompt(lane, plain, ())))
            output = min(WARMUP_TOKENS, cell.output)
            found = yield from self._ask(lane, plain, prompts, repeat=0, output=output, warmup=True)
            if isinstance(found, Failure):
                lane.take(Failure(cell, 0, found.text, found.end))

    def _measure(self, lane: Lane, cell: Cell) -> _Waits[None]:
        repeat = len(lane.samples.get(cell, ())) + 1
        before: list[tuple[str, ...]] = [() for _ in range(cell.parallel)]
        if cell.fills:
            filled = yield from self._fill(lane, cell, repeat)
            if isinstance(filled, Failure):
                lane.take(filled)
                return
            before = filled
        prompts = []
        for part in before:
            prompts.append((yield from self._prompt(lane, cell, part)))
        found = yield from self._ask(lane, cell, prompts, repeat=repeat, output=cell.output)
        if isinstance(found, Failure):
            lane.take(found)
        else:
            lane.take(sample_of(lane.session, [lane.session.runs[r] for r in found], cell, repeat))

    def _fill(self, lane: Lane, cell: Cell, repeat: int) -> _Waits[list[tuple[str, ...]] | Failure]:
        """Put what comes before the prompts into the cache; one that was there last is there still."""
        if cell.parallel == 1 and not cell.cached and lane.filled is not None and lane.filled[0].depth == cell.depth:
            return [lane.filled[1]]
        tokens, words = part_before(cell)
        parts: list[tuple[str, ...]] = []
        for slot in range(cell.parallel):
            made = lane.prompts.words(words or lane.words_for(tokens))
            if tokens:
                made = yield from self._fit(lane, made, tokens, 1)
            found = yield from self._ask(lane, cell, [made], repeat=repeat, output=1, fill=True, slot=slot)
            if isinstance(found, Failure):
                return found
            ended = sample_of(lane.session, [lane.session.runs[r] for r in found], cell, repeat)
            if isinstance(ended, Failure):
                return ended
            if ended.prompt is not None and not lane.counts:
                lane.learn(len(made), ended.prompt)
            parts.append(tuple(made))
        if cell.parallel == 1 and not cell.cached:
            lane.filled = cell, parts[0]
        return parts

    def _prompt(self, lane: Lane, cell: Cell, before: tuple[str, ...]) -> _Waits[list[str]]:
        """A prompt of the cell's length that begins with what is cached, and is new from there on."""
        if cell.tokens is None:
            return [*before, *lane.prompts.words(CACHED_NEW if cell.cached else cell.words or 1)]
        target = cell.tokens + cell.depth
        wished = lane.words_for(target) - len(before) if not cell.cached else CACHED_NEW
        words = [*before, *lane.prompts.words(max(wished, 1))]
        return (yield from self._fit(lane, words, target, len(before) + 1))

    def _fit(self, lane: Lane, words: list[str], target: int, keep: int) -> _Waits[list[str]]:
        """Words that are ``target`` tokens, where the server counts; else as they are."""
        for _ in range(_FITS):
            if lane.counts is False:
                break
            count = yield from self._count(lane, text_of(words))
            lane.counts = count is not None
            if count is not None:
                lane.learn(len(words), count)
            if count is None or count == target:
                break
            changed = lane.prompts.put_right(words, count, target, keep)
            if changed == words:
                break
            words = changed
        return words

    def _count(self, lane: Lane, text: str) -> _Waits[int | None]:
        command = lane.lifeline.count(
            api="raw" if lane.api == "raw" else "chat", messages=_messages(lane, text), prompt=_bare(lane, text)
        )
        while not lane.lifeline.follower.ended:
            for control in reversed(lane.session.controls.items):
                if control.id == command:
                    return control.n
            yield
        return None

    def _ask(
        self,
        lane: Lane,
        cell: Cell,
        prompts: Sequence[list[str]],
        *,
        repeat: int,
        output: int,
        warmup: bool = False,
        fill: bool = False,
        slot: int = 0,
    ) -> _Waits[tuple[int, ...] | Failure]:
        """Send prompts, all at once, and wait until they have ended; the requests that they became."""
        if not (cell.depth and (fill or lane.filled is not None)) or cell.parallel > 1:
            lane.filled = None  # another prompt takes the cache
        lane.asks += 1
        labels: dict[str, Any] = {"cell": cell.name, "repeat": repeat, "group": lane.asks, **lane.swept}
        labels |= {"words": cell.words, "tokens": cell.tokens, "output": output, "depth": cell.depth}
        labels |= {"parallel": len(prompts), "cached": cell.cached, "warmup": warmup, "fill": fill}
        commands = [
            lane.lifeline.ask(
                api="raw" if lane.api == "raw" else "chat",
                messages=_messages(lane, text_of(words)),
                prompt=_bare(lane, text_of(words)),
                settings=lane.settings_of(cell, output=output, slot=slot + i, fill=fill),
                labels={name: value for name, value in labels.items() if value not in (None, False)},
            )
            for i, words in enumerate(prompts)
        ]
        became: dict[int, int] = {}
        while len(became) < len(commands):
            for control in lane.session.controls.items[-2 * len(commands) - 8 :]:
                if control.id in commands and control.op == "ask":
                    if not control.ok or control.r is None:
                        return Failure(cell, repeat, control.why or "the collector refused it")
                    became[control.id] = control.r
            if lane.lifeline.follower.ended and len(became) < len(commands):
                return Failure(cell, repeat, "the collector died")
            if len(became) < len(commands):
                yield
        rs = tuple(became[command] for command in commands)
        runs = lane.session.runs
        cancelled = False
        while not all(r in runs and runs[r].ends.items for r in rs):
            if lane.lifeline.follower.ended and not all(r in runs for r in rs):
                return Failure(cell, repeat, "the collector died")
            if not cancelled and self._ends_late(0.0):
                cancelled = True
                for r in rs:
                    lane.lifeline.cancel(r)
            yield
        if not fill and cell.tokens is not None:
            self._learn(lane, cell, rs, prompts)
        ends = [runs[r].ends.last() for r in rs]
        bad = next((end for end in ends if end is not None and end.finish not in ("stop", "length")), None)
        if bad is not None:
            found = sample_of(lane.session, [runs[r] for r in rs], cell, repeat)
            assert isinstance(found, Failure)
            return found
        return rs

    def _learn(self, lane: Lane, cell: Cell, rs: Sequence[int], prompts: Sequence[list[str]]) -> None:
        """From what the server counted: how many words the next prompt of this length should have."""
        if lane.counts:
            return
        found = sample_of(lane.session, [lane.session.runs[r] for r in rs], cell, 0)
        if not isinstance(found, Failure) and found.prompt is not None:
            lane.learn(max(len(words) for words in prompts), found.prompt)


def _messages(lane: Lane, text: str) -> list[dict[str, Any]] | None:
    return None if lane.api == "raw" else [{"role": "user", "content": text}]


def _bare(lane: Lane, text: str) -> str | None:
    return text if lane.api == "raw" else None
