"""One reply in the making: what every stream parser has to keep straight, whatever its server's dialect.

A parser reads its dialect and tells a `Reply` what came: text with or without a count, a finish, an error. The `Reply` keeps
the running count as a reader of the file will, spaces out the server's running timings, and at the end says what surfaced
without text, whether the final count can be true, and why the reply ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from phasetop import codec
from phasetop import events as ev
from phasetop.backends.logprobs import Pieces
from phasetop.backends.plain_text import harmless
from phasetop.backends.protocol import Outcome
from phasetop.backends.server_json import count

RUNNING_GAP_NS: Final = 100_000_000
"""Running timings come at most this often: ten a second."""
BIG_EVENT_BYTES: Final = 1024 * 1024
"""Server events from this size on have their line measured: it could be longer than a file takes."""

_FINISHES: Final[Mapping[str, tuple[str, str | None]]] = {
    "stop": ("stop", None),
    "eos": ("stop", "eos"),
    "eos_token": ("stop", "eos"),
    "end_turn": ("stop", "eos"),
    "stop_sequence": ("stop", "stop-string"),
    "length": ("length", None),
    "max_tokens": ("length", None),
    "tool_calls": ("tool_calls", None),
    "function_call": ("tool_calls", None),
    "tool_use": ("tool_calls", None),
    "abort": ("error", None),
    "error": ("error", None),
    "cancelled": ("error", None),
}
"""Servers' finish reasons → our finish and detail."""


class Reply:
    """The state of request ``r``'s reply.

    Attributes:
        count: tokens so far as the Session counts them: a line of unknown n is one.
        seen: tokens that certainly came: a server event with text brings at least one.
        channel: of the newest token line.
        finish: how the server said that it ended; None until it did.
        fault: the server's error, where it sent one.
        truncated: the server says that the context was full or was shifted.

    """

    __slots__ = (
        *("channel", "count", "detail", "fault", "finish", "finish_t", "r", "seen", "stop", "truncated"),
        *("_ctx", "_last_t", "_max_tokens", "_next_running_t", "_no_stop_asked", "_settled"),
    )

    def __init__(self, r: int, asked: Mapping[str, Any] | None = None, ctx: int | None = None) -> None:
        asked = asked or {}
        self.r = r
        self.count = 0
        self.seen = 0
        self.channel = "answer"
        self.finish: str | None = None
        self.finish_t: int | None = None
        self.detail: str | None = None
        self.stop: str | None = None
        self.fault: ev.Fault | None = None
        self.truncated = False
        self._ctx = ctx
        self._max_tokens = count(asked.get("max_tokens"))
        self._no_stop_asked = not asked.get("stop")
        self._last_t = 0
        self._next_running_t = -1
        self._settled = False

    def since(self, total: int | None) -> int | None:
        """How many tokens the server's running total adds to the count; None where it gave none or one that fell."""
        total = count(total)
        return None if total is None or total < self.count else total - self.count

    def line(
        self, t: int, found: Pieces, n: int | None, *, c: str = "answer", tool: ev.Tool | None = None, more: bool = False
    ) -> ev.Tok:
        """A token line; ``n``: its tokens, None where nothing counts them; ``more``: a further line of the same event."""
        pieces = len(found.x) if isinstance(found.x, list) else 1
        written: int | msgspec.UnsetType | None = n
        if n == pieces or (n is None and pieces > 1):
            written, n = msgspec.UNSET, pieces
        if n is None:
            self.count += 1
            self.seen += not more
        else:
            self.count += n
            self.seen += n
        self.channel = c
        if t > self._last_t:
            self._last_t = t
        return ev.Tok(t=t, r=self.r, x=found.x, c=c, n=written, p=found.p, i=found.i, b=found.b, top=found.top, tool=tool)

    def running(self, t: int) -> bool:
        """Whether the server's running timings are due again."""
        if t < self._next_running_t:
            return False
        self._next_running_t = t + RUNNING_GAP_NS
        return True

    def finished(self, t: int, reason: str, *, detail: str | None = None, stop: str | None = None) -> ev.Notice | None:
        """The server says that it ended and why, in its own word; a word that nobody knows is a stop, and is told."""
        if self.finish is not None:
            return None
        known = _FINISHES.get(reason.lower())
        self.finish, usual = known or ("stop", None)
        self.finish_t = t
        self.detail = detail or usual
        self.stop = stop
        if self.finish == "error" and self.fault is None:
            self.fault = ev.Fault(text=f"the server ended the reply with {harmless(reason, 40)!r}")
        if known is None:
            text = f"the server ended the reply with {harmless(reason, 40)!r}, which is taken for a stop"
            return ev.Notice(
                t=t, r=self.r, code="finish-unknown", level="warn", text=text, about={"reason": harmless(reason, 40)}
            )
        if self.finish == "stop" and self.detail is None and known is not None and self._no_stop_asked:
            self.detail = "eos"
        return None

    def settle(self, t: int, total: int | None) -> tuple[list[ev.Event], int | None]:
        """What the server's final count adds, once: the line of tokens that never showed, or that it cannot be true.

        Args:
            t: stamp of the read that brought the finish.
            total: the final count of generated tokens as the server tells it, None where there is none.

        Returns:
            The events, and the final count if it is credible: a count below the tokens that came, or one that no reply can
            have, counts for nothing.

        """
        said, total = total, count(total)
        if self._settled or said is None:
            return [], total
        self._settled = True
        if total is None:
            text = f"the server counts {str(said)[:30]} tokens, which cannot be: its count is not used"
            return [ev.Notice(t=t, r=self.r, code="implausible", level="warn", text=text)], None
        if total < self.seen:
            text = f"the server counts {total} tokens, but at least {self.seen} came: its count is not used"
            about = {"count": total, "seen": self.seen}
            return [ev.Notice(t=t, r=self.r, code="implausible", level="warn", text=text, about=about)], None
        if total > self.count:
            return [self.line(max(t, self._last_t), Pieces(""), total - self.count, c=self.channel)], total
        return [], total

    def end(self, t: int, outcome: Outcome, why: str | None, *, prompt: int | None, output: int | None) -> ev.End:
        """The last event.

        Args:
            t: the last byte's stamp.
            outcome: how the body ended.
            why: what broke.
            prompt: tokens of the prompt, cached ones included, where known.
            output: generated tokens, where known.

        A finish or an error that the server gave stands, whatever happened to the connection after it. Without one the reply
        was cancelled by us, or it is cut.

        """
        if self.fault is not None:
            return ev.End(t=t, r=self.r, finish="error", error=self.fault)
        if self.finish is not None:
            detail = self._why_length(prompt, output) if self.finish == "length" and self.detail is None else self.detail
            return ev.End(t=t, r=self.r, finish=self.finish, detail=detail, stop=self.stop)
        if outcome == "cancelled":
            return ev.End(t=t, r=self.r, finish="cancelled")
        fault = ev.Fault(text=harmless(why)) if why else None
        return ev.End(t=t, r=self.r, finish="cut", detail="server-lost" if outcome == "broken" else None, error=fault)

    def _why_length(self, prompt: int | None, output: int | None) -> str | None:
        """max-tokens before context: with a context that shifts, prompt and output outgrow it and don't end there."""
        if output is not None and self._max_tokens is not None and output == max(self._max_tokens, 1):
            return "max-tokens"
        full = prompt is not None and output is not None and self._ctx is not None and prompt + output >= self._ctx
        return "context" if full or self.truncated else None


def fit_from(out: list[ev.Event], first: int, data: bytes) -> None:
    """Make the lines of an event that is large (``data``) fit: those of ``out`` from the ``first`` on."""
    if len(data) > BIG_EVENT_BYTES:
        out[first:] = [fit(event) if isinstance(event, ev.Tok) else event for event in out[first:]]


def fit(tok: ev.Tok, limit: int = codec.MAX_LINE_BYTES - 1024) -> ev.Tok:
    """The line as it may be written: one that is too long loses its alternatives, then text; ``cut`` says the bytes lost."""
    if len(codec.encode(tok)) <= limit:
        return tok
    tok = msgspec.structs.replace(tok, top=None, tool=None if tok.tool is None else ev.Tool(index=tok.tool.index))
    if len(codec.encode(tok)) <= limit:
        return tok
    text = tok.x if isinstance(tok.x, str) else "".join(map(str, tok.x if isinstance(tok.x, list) else []))
    whole = text.encode()
    spare = limit - len(codec.encode(msgspec.structs.replace(tok, x="", p=None, i=None, b=None, cut=len(whole))))
    low, high = 0, len(text)
    while low < high:  # the longest beginning whose JSON fits: escapes make its length no simple function of the text's
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(msgspec.json.encode(text[:middle])) - 2 <= spare else (low, middle - 1)
    n = len(tok.x) if isinstance(tok.x, list) and tok.n is msgspec.UNSET else tok.n
    kept = text[:low]
    return msgspec.structs.replace(tok, x=kept, n=n, p=None, i=None, b=None, cut=len(whole) - len(kept.encode()))
