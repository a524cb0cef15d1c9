"""What a Session is made of: versions, happenings and token columns that are only ever appended to.

Each is read *as of a cursor* (`events.Ns`; `LIVE` means the end) by bisecting its own times.
"""

from __future__ import annotations

from array import array
from base64 import b64decode
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from math import fsum
from sys import intern
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import UNSET

from phasetop import events as ev
from phasetop.pace import STALL, USUAL, Pace

LIVE: Final = 2**62
"""A cursor past every event."""

CHANNELS: Final = ("answer", "think", "tool")
"""The channels, by the number that stands in `Tokens.channel`; a foreign one counts as the answer."""
ANSWER, THINK, TOOL = range(3)
CHANNEL_NUMBERS: Final = {name: number for number, name in enumerate(CHANNELS)}

NO_GAP: Final = -1
_TO_SHARE: Final = 64
"""So many lines at once are a live session's. Their texts are kept once each: they are half of a token's memory, and a model
has some 100,000 of them. A recording that is loaded is gone soon, and would take 15 % longer.
"""
NAN: Final = float("nan")

D = TypeVar("D", bound=ev.Event)
H = TypeVar("H", bound=ev.Event)


class Versions(Generic[D]):
    """A description's versions in time: later keys replace earlier ones, top-level key by key."""

    __slots__ = ("_values", "_when")

    def __init__(self) -> None:
        self._when: array[int] = array("q")
        self._values: list[D] = []

    def add(self, event: D) -> None:
        """Merge a repeated description over what is known; keys that it leaves out keep their value."""
        if self._values:
            fresh = {
                name: value
                for name in event.__struct_fields__
                if (value := getattr(event, name)) != _defaults(type(event)).get(name, msgspec.NODEFAULT)
            }
            event = msgspec.structs.replace(self._values[-1], **fresh)
        self._when.append(max(event.t, self._when[-1]) if self._when else event.t)
        self._values.append(event)

    def at(self, cursor: int = LIVE) -> D | None:
        """What was known at the cursor."""
        i = bisect_right(self._when, cursor)
        return self._values[i - 1] if i else None

    @property
    def first_t(self) -> int:
        """Ns of the first version."""
        return self._when[0]


class Happenings(Generic[H]):
    """Events of one kind in order of arrival."""

    __slots__ = ("__weakref__", "items", "when")

    def __init__(self) -> None:
        self.when: array[int] = array("q")
        self.items: list[H] = []

    def add(self, event: H) -> None:
        """Append one."""
        self.when.append(max(event.t, self.when[-1]) if self.when else event.t)
        self.items.append(event)

    def until(self, cursor: int = LIVE) -> list[H]:
        """All with t ≤ cursor."""
        if not self.when or self.when[-1] <= cursor:
            return self.items
        return self.items[: bisect_right(self.when, cursor)]

    def last(self, cursor: int = LIVE) -> H | None:
        """The newest with t ≤ cursor."""
        i = bisect_right(self.when, cursor)
        return self.items[i - 1] if i else None


class Places:
    """Where in the file the lines stand that hold more than the columns do: line number → (offset, length) in bytes."""

    __slots__ = ("_length", "_line", "_offset")

    def __init__(self) -> None:
        self._line: array[int] = array("q")
        self._offset: array[int] = array("q")
        self._length: array[int] = array("i")

    def __len__(self) -> int:
        return len(self._line)

    def add(self, line: int, where: tuple[int, int]) -> None:
        """Remember the place of a line that comes after all those known."""
        self._line.append(line)
        self._offset.append(where[0])
        self._length.append(where[1])

    def get(self, line: int) -> tuple[int, int] | None:
        """The place of a line; None where the columns hold all of it."""
        k = bisect_left(self._line, line)
        if k < len(self._line) and self._line[k] == line:
            return self._offset[k], self._length[k]
        return None


class Tokens:
    """The columns of one request's `tok` lines, one entry a line.

    ``gap_ns`` is the time since the last different stamp of a token line, `NO_GAP` where there is none: the first, those
    that came in the same read as the one before, and text that is no token (n = 0). ``count`` is the running number of
    tokens, this line's included, where a line of unknown n counts one until the final count corrects it.
    """

    __slots__ = (
        *("channel", "count", "detail", "first", "gap_ns", "ids", "logp", "n", "raw_bytes", "stalls", "step", "t", "text"),
        *("tool", "uncounted", "_last_t", "_pace", "__weakref__"),
    )

    def __init__(self) -> None:
        self.t: array[int] = array("q")
        self.n: array[int] = array("q")  # -1: not known
        self.count: array[int] = array("q")
        self.channel: array[int] = array("b")
        self.gap_ns: array[int] = array("q")
        self.step: array[int] = array("b")
        self.logp: array[float] = array("d")  # of a list: their sum; NaN: not known
        self.ids: array[int] = array("q")  # -1: not known, or several
        self.text: list[ev.Text] = []
        self.raw_bytes: dict[int, bytes] = {}  # line → all its bytes, where they are no whole UTF-8; its text is ""
        self.detail = Places()  # lines with lists or alternatives
        self.tool: dict[int, ev.Tool] = {}
        self.stalls: array[int] = array("q")  # the lines that ended a stall
        self.uncounted = -1  # the first line of unknown n
        self.first = -1  # the first line that is a token
        self._last_t = -1  # of the newest token line
        self._pace: Pace | None = None  # while more may come: it holds every gap once more

    def __len__(self) -> int:
        return len(self.t)

    def index(self, cursor: int = LIVE) -> int:
        """How many lines lie at or before the cursor."""
        if not self.t or self.t[-1] <= cursor:
            return len(self.t)
        return bisect_right(self.t, cursor)

    def ends(self, lines: int) -> tuple[int, int]:
        """The first and the last line that is a token, of the first ``lines``; (-1, -1) where there is none."""
        if not 0 <= self.first < lines:
            return (-1, -1)
        last = lines - 1
        while not self.n[last]:
            last -= 1
        return (self.first, last)

    def append(self, tok: ev.Tok, where: tuple[int, int] | None = None) -> None:
        """Take one line; ``where`` is its (offset, length) in the file, kept when it holds more than the columns do."""
        self.extend((tok,), (where,))

    def extend(self, toks: Sequence[ev.Tok], places: Iterable[tuple[int, int] | None]) -> None:
        """Take lines in their order, each with its (offset, length) in the file where that is known.

        The one way in, for a token that just came and for a recording of 100,000: everything is bound once a call.
        """
        stamps, counts, steps, stalls, detail = self.t, self.count, self.step, self.stalls, self.detail
        add_t, add_n, add_count, add_channel = stamps.append, self.n.append, counts.append, self.channel.append
        add_gap, add_step, add_text = self.gap_ns.append, steps.append, self.text.append
        add_logp, add_id, grade, channels = self.logp.append, self.ids.append, self._paced().grade, CHANNEL_NUMBERS
        i, last_t, share = len(stamps), self._last_t, len(toks) <= _TO_SHARE
        newest = stamps[-1] if i else 0
        count = counts[-1] if i else 0
        for tok, where in zip(toks, places, strict=True):
            t, n, x = tok.t, tok.n, tok.x
            pieces = isinstance(x, list)
            if t < newest:  # the writer clamps; a file that somebody made may not
                t = newest
            if n is UNSET:
                n = len(x) if pieces else 1  # type: ignore[arg-type]
                add_n(n)
            elif n is None:
                if self.uncounted < 0:
                    self.uncounted = i
                add_n(-1)
                n = 1
            else:
                add_n(n)
            channel = channels.get(tok.c, ANSWER)
            gap, step = NO_GAP, USUAL
            if n:
                if t == last_t:
                    step = steps[-1]
                elif last_t >= 0:
                    gap = t - last_t
                    step = grade(gap, tool=channel == TOOL)
                    if step == STALL:
                        stalls.append(i)
                else:
                    self.first = i
                last_t = t
            newest = t
            count += n
            add_t(t)
            add_count(count)
            add_channel(channel)
            add_gap(gap)
            add_step(step)
            if pieces or tok.b is not None:
                self._append_pieces(i, tok)
            else:
                p, token_id = tok.p, tok.i
                add_text(intern(x) if share and type(x) is str else x)  # type: ignore[arg-type]
                add_logp(p if isinstance(p, float) else NAN)
                add_id(token_id if isinstance(token_id, int) else -1)
            if where is not None and (pieces or tok.top):
                detail.add(i, where)
            if tok.tool is not None:
                self.tool[i] = tok.tool
            i += 1
        self._last_t = last_t

    def rest(self) -> None:
        """The reply ended: let go of what only a further line would need, and what such a line can make again."""
        self._pace = None

    def _paced(self) -> Pace:
        """The pace so far."""
        if self._pace is None:
            self._pace = Pace()
            for gap in self.gap_ns:
                if gap != NO_GAP:
                    self._pace.median.add(gap)
        return self._pace

    def _append_pieces(self, i: int, tok: ev.Tok) -> None:
        """Several tokens in one line, or bytes: one text, or all the line's bytes where they are no whole UTF-8."""
        pieces = tok.x if isinstance(tok.x, list) else [tok.x]
        coded = tok.b if isinstance(tok.b, list) else [tok.b]
        if any(coded):
            raw = b"".join(_piece_bytes(piece, part) for piece, part in zip_longest(pieces, coded))
            try:
                self.text.append(raw.decode())
            except UnicodeDecodeError:
                self.text.append("")
                self.raw_bytes[i] = raw
        elif any(isinstance(piece, int) for piece in pieces):
            self.text.append(sum(piece if isinstance(piece, int) else ev.text_bytes(piece) for piece in pieces))
        else:
            self.text.append("".join(str(piece) for piece in pieces))
        logps = tok.p if isinstance(tok.p, list) else [tok.p]
        known = [p for p in logps if p is not None]
        self.logp.append(fsum(known) if known and len(known) == len(pieces) else NAN)
        self.ids.append(tok.i if isinstance(tok.i, int) else -1)


def _piece_bytes(piece: ev.Text | None, coded: str | None) -> bytes:
    """The bytes of one token: those of its base64 where it has one, else of its text; none where a file is damaged."""
    if coded:
        try:
            return b64decode(coded)
        except ValueError:
            return b""
    return piece.encode("utf-8", "replace") if isinstance(piece, str) else b""


_known_defaults: dict[type, dict[str, object]] = {}


def _defaults(kind: type[ev.Event]) -> dict[str, object]:
    """Field → default of an event kind: a key with its default was left out of the line."""
    found = _known_defaults.get(kind)
    if found is None:
        found = _known_defaults[kind] = {
            field.name: field.default for field in msgspec.structs.fields(kind) if field.default is not msgspec.NODEFAULT
        }
    return found
