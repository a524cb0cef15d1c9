"""Tool calls as they are streamed: pieces of arguments, told apart by index, or by id where a server numbers badly."""

from __future__ import annotations

from typing import Any

import msgspec

from phasetop import events as ev
from phasetop.backends.server_json import count


class Function(msgspec.Struct, gc=False):
    """A call's name, with its first piece, and a piece of its arguments (whole, as an object, in some servers)."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ToolCall(msgspec.Struct, gc=False):
    """One entry of a delta's ``tool_calls``."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class ToolCalls:
    """Keeps the calls of one reply apart."""

    __slots__ = ("_current", "_ids", "_known")

    def __init__(self) -> None:
        self._known: dict[int, int] = {}  # the server's index → ours
        self._ids: dict[int, str] = {}  # ours → id
        self._current = -1

    def take(self, calls: list[ToolCall]) -> list[tuple[str, ev.Tool | None]]:
        """(piece of arguments, `Tool` with a call's first piece or where the call changes) for each entry that says any."""
        taken: list[tuple[str, ev.Tool | None]] = []
        for call in calls:
            function = call.function or Function()
            text = function.arguments if isinstance(function.arguments, str) else ""
            if isinstance(function.arguments, dict):
                text = msgspec.json.encode(function.arguments).decode()
            name, ident = function.name or None, call.id or None
            if not text and not name:
                continue
            index, begun = self._place(count(call.index), ident, name)
            if begun:
                taken.append((text, ev.Tool(index=index, id=ident, name=name)))
            elif text:
                taken.append((text, None if index == self._current else ev.Tool(index=index)))
            self._current = index
        return taken

    def _place(self, index: int | None, ident: str | None, name: str | None) -> tuple[int, bool]:
        """(our index, whether this piece begins a call). A named piece with another id under a known index is a new call."""
        if index is None:
            if self._current >= 0 and not (name and ident != self._ids.get(self._current, "")):
                return self._current, False
            return self._begin(-1 - len(self._ids), ident)
        ours = self._known.get(index)
        if ours is None or (name and ident and self._ids[ours] and ident != self._ids[ours]):
            return self._begin(index, ident)
        return ours, False

    def _begin(self, index: int, ident: str | None) -> tuple[int, bool]:
        ours = index if index >= 0 and index not in self._ids else max(self._ids, default=-1) + 1
        self._known[index] = ours
        self._ids[ours] = ident or ""
        return ours, True
