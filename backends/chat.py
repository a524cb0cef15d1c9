"""The chats of a session: each request's messages with its reply, so that the next one can go on from it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

Message = dict[str, Any]


class Conversation:
    """What was said, by request. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._said: dict[int, tuple[Message, ...]] = {}
        self._ids: dict[int, tuple[int, ...]] = {}

    def add(self, r: int, messages: Sequence[Message], reply: str, calls: Mapping[int, Mapping[str, Any]]) -> None:
        """Remember a request's whole chat and what came back, also when it was cut short; an empty reply is left out."""
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
            self._said[r] = tuple(said)

    def history(self, r: int | None) -> list[Message]:
        """All messages up to and with the reply to ``r``; [] for a new chat."""
        with self._guard:
            return list(self._said.get(r, ())) if r is not None else []

    def diverge(self, r: int, parent: int | None, ids: tuple[int, ...]) -> int | None:
        """The first index at which this prompt's tokens differ from those of ``parent``'s prompt; None without one."""
        with self._guard:
            self._ids[r] = ids
            before = self._ids.get(parent) if parent is not None else None
        if before is None:
            return None
        for i, (a, b) in enumerate(zip(ids, before, strict=False)):
            if a != b:
                return i
        return min(len(ids), len(before))
