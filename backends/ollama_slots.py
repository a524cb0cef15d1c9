"""Which of a runner's slots works on our request, and what it says of it: judged from polls alone. Pure.

A slot names the task that it works on, by a number that nobody tells the client. So ours is found by exclusion: what was
busy before the request was sent is somebody else's, what asks with other settings or holds more than our prompt too, and
once our first token came the only busy slot is ours. Where two could be meant, none is: a dash is better than another's
progress.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from phasetop.backends.ollama_runner import RunnerSlot

_COMPARED: Final = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "seed": "seed",
    "repeat_penalty": "repeat_penalty",
    "max_tokens": "n_predict",
}
"""Settings by OUTPUTS' names → those of /slots."""


@dataclass(slots=True)
class SlotFinder:
    """Finds the slot of one request.

    Attributes:
        applied: the request's settings by OUTPUTS' names.
        kept: tokens of its prompt, where they are known beforehand.
        alone: no other request of this session is at the same runner.
        first_token: one of ours came.
    """

    applied: Mapping[str, Any]
    kept: int | None = None
    alone: bool = True
    first_token: bool = False
    task: int | None = None
    foreign: set[int] = field(default_factory=set)

    def before(self, slots: Sequence[RunnerSlot]) -> bool:
        """Take what is busy before the request is sent as somebody else's; True when none is free."""
        self.foreign |= {slot.task for slot in slots if slot.busy and slot.task is not None}
        return bool(slots) and all(slot.busy for slot in slots)

    def mine(self, slots: Sequence[RunnerSlot]) -> RunnerSlot | None:
        """The slot that works on our request; None: not begun, ended, or it cannot be told."""
        busy = [slot for slot in slots if slot.busy]
        if self.task is not None:
            found = next((slot for slot in busy if slot.task == self.task), None)
            if found is not None:
                return found
            if self.first_token:
                return None
            self.foreign.add(self.task)  # it went on without us
            self.task = None
        candidates = [slot for slot in busy if slot.task is not None and slot.task not in self.foreign]
        if self.first_token:
            candidates = [slot for slot in candidates if slot.decoded > 0] if len(slots) > 1 else candidates
        else:
            candidates = [slot for slot in candidates if self._fits(slot)]
        if len(candidates) != 1:
            return None
        slot = candidates[0]
        if not self.first_token and not self.alone and (self.kept is None or slot.held != self.kept):
            return None
        self.task = slot.task
        return slot

    def _fits(self, slot: RunnerSlot) -> bool:
        """Whether a slot can be ours before our first token: its settings are ours, and it holds no more than our prompt."""
        if self.kept is not None and slot.held > self.kept + slot.decoded:
            return False  # it may have written much: a tool call reaches us whole
        for ours, theirs in _COMPARED.items():
            wanted, has = self.applied.get(ours), slot.params.get(theirs)
            if not isinstance(wanted, (int, float)) or not isinstance(has, (int, float)):
                continue
            if ours in ("seed", "max_tokens") and wanted < 0:
                continue
            if ours == "max_tokens" and (wanted == 0 or has < wanted):  # 0: no limit; ten contexts are the most
                continue
            if not math.isclose(wanted, has, rel_tol=1e-4, abs_tol=1e-6):
                return False
        return True


def exact_total(slot: RunnerSlot, batch: int | None) -> int | None:
    """All tokens of the prompt, where a slot shows them: while its last batch is under way, which is not a full one."""
    under_way = slot.held - slot.cached - slot.computed
    if slot.decoded or batch is None or not 0 < under_way < batch:
        return None
    return slot.held
