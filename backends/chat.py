"""The chats of a session: each request's messages with its reply, so that the next one can go on from it."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

Message = dict[str, Any]


class Conversation:
    """What was said, by request; each holds its own messages alone, and whom it went on from. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._said: dict[int, tuple[int | None, tuple[Message, ...]]] = {}
        self._ids: dict[int, array[int]] = {}

    def add(
        self, r: int, parent: int | None, messages: Sequence[Message], reply: str, calls: Mapping[int, Mapping[str, Any]]
    ) -> None:
        """Remember a request's new messages and what came back, also when it was cut short; an empty reply is left out."""
        said = list(messages)
        if reply or calls:
            answer: Message = {"role": "assistant", "content": reply}
            if calls:
                answer["tool_calls"] = [
                    {
                        "id": call.get("id"),
                        "type": "function",
                        "function": {"name": call.get("name"), "arguments": call.get("arguments", "")},
                    }
                    for _, call in sorted(calls.items())
                ]
            said.append(answer)
        with self._guard:
            self._said[r] = parent, tuple(said)

    def history(self, r: int | None) -> list[Message]:
        """All messages up to and with the reply to ``r``; [] for a new chat."""
        turns: list[tuple[Message, ...]] = []
        with self._guard:
            while r is not None and r in self._said:
                r, said = self._said[r]
                turns.append(said)
        return [message for said in reversed(turns) for message in said]

    def diverge(self, r: int, parent: int | None, ids: Sequence[int]) -> int | None:
        """The first index at which this prompt's tokens differ from those of ``parent``'s prompt; None without one."""
        with self._guard:
            self._ids[r] = array("q", ids)
            before = self._ids.get(parent) if parent is not None else None
        if before is None:
            return None
        for i, (a, b) in enumerate(zip(ids, before, strict=False)):
            if a != b:
                return i
        return min(len(ids), len(before))
