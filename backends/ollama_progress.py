"""What polls of a runner's slot tell of one request, as events: progress of the prefill, cells in use, the cached part."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from phasetop import events as ev
from phasetop.backends.ollama_runner import RunnerSlot
from phasetop.backends.ollama_slots import exact_total
from phasetop.backends.protocol import Scene
from phasetop.backends.settings import from_params

HOLD_S: Final = 3.0
"""Progress waits so long for the prompt's total, to be right from the first one on."""
_SLOT_EVERY_S: Final = 0.1


class Progress:
    """The story of one request as its slot tells it.

    Attributes:
        ctx: what the slot can hold, tokens.
        total: tokens of the prompt, once they are known.
    """

    def __init__(self, scene: Scene, batch: int | None) -> None:
        self._scene, self._batch = scene, batch
        self.ctx: int | None = None
        self.total: int | None = None
        self._newest: RunnerSlot | None = None
        self._computed: int | None = None  # by the whole prefill
        self._told: tuple[int | None, int] | None = None
        self._begun_s = 0.0
        self._slot_s = 0.0

    @property
    def seen(self) -> bool:
        """Whether the slot was ever seen at work on this request."""
        return self._newest is not None

    @property
    def certain(self) -> bool:
        """Whether the newest look tells the cached part."""
        return self._newest is not None and is_certain(self._newest)

    def saw(self, slot: RunnerSlot, t0: int, *, total_comes: Callable[[], bool]) -> None:
        """Take one poll, begun at ``t0``; ``total_comes``: whether somebody still counts the prompt's tokens."""
        scene, now_s = self._scene, time.monotonic()
        if self._newest is None:
            self._begun_s = now_s
            self.ctx = slot.ctx or self.ctx
            applied = from_params(slot.params)
            if self.ctx is not None:
                applied["context"] = self.ctx
            scene.applied(applied)
        cached = slot.cached if is_certain(slot) else None
        if cached is not None and not self.certain:
            scene.emit(ev.Prompt(t=scene.now(), r=scene.r, cached=cached))
        self._newest = slot
        exact = exact_total(slot, self._batch)
        if exact is not None:
            self.total = exact
        done = slot.cached + slot.computed
        if slot.decoded:
            self._computed = slot.computed
        elif self._told != (cached, done) and (
            self.total is not None or not total_comes() or now_s - self._begun_s > HOLD_S
        ):
            self._told = cached, done
            scene.emit(ev.Prog(t=scene.now(), r=scene.r, total=self.total, cached=cached, done=done, source="slots"))
        if now_s - self._slot_s >= _SLOT_EVERY_S:
            self._slot_s = now_s
            cells = slot.held if slot.decoded else done  # in a prefill it counts the batch under way, too
            scene.emit(
                ev.Slot(
                    t=scene.now(),
                    t0=t0,
                    r=scene.r,
                    past=cells,
                    done=done,
                    cached=cached,
                    gen=slot.decoded or None,
                    ctx=slot.ctx,
                )
            )

    def complete(self, timings: ev.Timings) -> ev.Timings:
        """Ollama's final figures with the cached part, which its runner alone tells; unchanged where the two don't agree."""
        slot, prompt = self._newest, timings.total_n
        if slot is None or prompt is None or not is_certain(slot) or slot.cached > prompt:
            return timings
        whole = self.total if self._computed is None else slot.cached + self._computed
        if whole != prompt:
            return timings
        return msgspec.structs.replace(timings, cached_n=slot.cached, prompt_n=prompt - slot.cached)


def is_certain(slot: RunnerSlot) -> bool:
    """Whether a slot tells how much was cached: one that has only just begun says 0 of everything, until it has looked."""
    return slot.cached > 0 or slot.computed > 0 or slot.decoded > 0
