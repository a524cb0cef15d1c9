"""What the parsers of SSE replies share: reading, ending, and what is done with bytes that are no events.

A dialect brings what it keeps (`_begin`), what one event's JSON means (`_chunk`), and the final figures (`_final`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from phasetop import events as ev
from phasetop.backends.plain_text import harmless
from phasetop.backends.protocol import Outcome
from phasetop.backends.reply import Reply
from phasetop.backends.server_errors import Explained, explain_error, explain_no_stream
from phasetop.backends.server_json import load
from phasetop.backends.sse import SseEvent, SseReader

_DONE: Final = b"[DONE]"


class SseReplyParser:
    """A `StreamParser` for replies that come as SSE, or as one JSON object where the server ignores ``stream``.

    ``[DONE]`` without a finish before it is the server's own end all the same, so the reply is a stop whose reason is
    unknown; but nothing at all before it is no reply, and is cut. After ``[DONE]`` nothing is taken any more.

    Args:
        r: the request's id.
        asked: its settings, by OUTPUTS' names.
        ctx: tokens of context that the request can use, where known.
        expects_timings: per-token timings were asked for; a reply without any is told (``no-timings``).
        expects_progress: prefill progress was asked for; a reply without any is told (``no-progress``).

    """

    def __init__(
        self,
        r: int,
        asked: Mapping[str, Any] | None = None,
        *,
        ctx: int | None = None,
        expects_timings: bool = False,
        expects_progress: bool = False,
    ) -> None:
        self._r = r
        self._reply = Reply(r, asked, ctx)
        self._sse = SseReader()
        self._stray_t = 0
        self._noise = b""  # the first event's data that is no JSON
        self._done_t: int | None = None
        self._closed = False
        self._progress: ev.Prog | None = None
        self._has_timings = False
        self._expects_timings = expects_timings
        self._expects_progress = expects_progress
        self._begin()

    def _begin(self) -> None:
        """What a dialect keeps of a reply."""
        raise NotImplementedError

    @property
    def pings(self) -> int:
        """Comment lines so far: the server lives, and says nothing yet."""
        return self._sse.pings

    @property
    def complete(self) -> bool:
        """``[DONE]``, or its like, came, or a line without end did."""
        return self._done_t is not None or self._sse.overlong

    def feed(self, data: bytes, t: int) -> list[ev.Event]:
        """The events of one socket read."""
        out: list[ev.Event] = []
        stray = len(self._sse.stray)
        for event in self._sse.feed(data):
            self._event(event, t, out)
        if len(self._sse.stray) != stray:
            self._stray_t = t
        return out

    def close(self, t: int, outcome: Outcome, why: str | None = None) -> list[ev.Event]:
        """The rest: what surfaced without text, the final timings, notices, and the `End` last."""
        out: list[ev.Event] = []
        if self._closed:
            return out
        for event in self._sse.close():
            self._event(event, t, out)
        self._read_stray(t, outcome, out)
        if self._sse.overlong and self._reply.fault is None:
            text = "the server sent more than 16 MiB without an end of line or event: the rest is not read"
            self._reply.fault = ev.Fault(code="too-long", text=text)
        self._closed = True
        if self._done_t is None:
            self._settle(t, out)
        if self._reply.finish is None and self._done_t is not None and self._reply.seen:
            self._reply.finish = "stop"
        if self._reply.finish is not None and self._reply.fault is None:
            self._tell_missing(t, out)
        out.append(self._end(t, outcome, why))
        return out

    # -- a dialect's part ---------------------------------------------------------------------------------------------

    def _chunk(self, data: bytes, t: int, out: list[ev.Event]) -> bool:
        """Take one event's JSON; False where it is none."""
        raise NotImplementedError

    def _final(self, t: int) -> tuple[int | None, ev.Timings | None]:
        """The final count of generated tokens, and the final timings without that count if there is anything to say."""
        raise NotImplementedError

    def _totals(self) -> tuple[int | None, int | None]:
        """Tokens of the whole prompt and of the output, where known, after `_settle`."""
        raise NotImplementedError

    # -- shared -------------------------------------------------------------------------------------------------------

    def _event(self, event: SseEvent, t: int, out: list[ev.Event]) -> None:
        data = event.data
        if event.is_error:
            value = load(data)
            self._fail(explain_error(value if value is not None else data.decode("utf-8", "replace")))
        elif data.strip() == _DONE:
            if self._done_t is None:
                self._done_t = t
                self._settle(t, out)
        elif self._done_t is None and not self._chunk(data, t, out) and data.strip():
            torn = not event.whole and data.lstrip()[:1] in (b"{", b"[")
            if not torn and not self._noise:
                self._noise = data

    def _fail(self, explained: Explained) -> None:
        if self._reply.fault is None:
            self._reply.fault = explained.fault

    def _prog(
        self, t: int, total: int | None, cached: int | None, done: int | None, ms: float | None, out: list[ev.Event]
    ) -> None:
        if done is not None:
            self._progress = ev.Prog(t=t, r=self._r, total=total, cached=cached, done=done, ms=ms)
            out.append(self._progress)

    def _read_stray(self, t: int, outcome: Outcome, out: list[ev.Event]) -> None:
        """Bytes that are no SSE: a whole reply or an error in JSON, a proxy's words. After a good end only a notice."""
        stray = bytes(self._sse.stray).strip() or self._noise
        if not stray:
            return
        if self._reply.finish is None and self._reply.fault is None:
            value = load(stray) if stray[:1] == b"{" else None
            known = isinstance(value, dict) and self._chunk(stray, self._stray_t or t, out)
            if known and (self._reply.finish is not None or self._reply.fault is not None or self._reply.seen):
                return
            if outcome != "cancelled":
                self._fail(explain_no_stream(stray))
        else:
            said = harmless(stray.decode("utf-8", "replace"), 200)
            text = f"the server, or a proxy before it, sent besides the stream: {said}"
            out.append(ev.Notice(t=t, r=self._r, code="stray-bytes", level="warn", text=text))

    def _settle(self, t: int, out: list[ev.Event]) -> None:
        total, timings = self._final(t)
        finish_t = self._reply.finish_t
        events, credible = self._reply.settle(t if finish_t is None else finish_t, total)
        out.extend(events)
        if timings is not None:
            timings.gen_n = credible
            if credible is None or (timings.think_n is not None and timings.think_n > credible):
                timings.think_n = None
            out.append(timings)

    def _tell_missing(self, t: int, out: list[ev.Event]) -> None:
        if self._expects_timings and not self._has_timings:
            text = "the server sends no timings: times are the client's, and the tokens of a chunk are not counted"
            out.append(ev.Notice(t=t, r=self._r, code="no-timings", level="info", text=text))
        if self._expects_progress and self._progress is None:
            text = "the server tells no prefill progress"
            out.append(ev.Notice(t=t, r=self._r, code="no-progress", level="info", text=text))

    def _end(self, t: int, outcome: Outcome, why: str | None) -> ev.End:
        prompt, output = self._totals()
        return self._reply.end(t, outcome, why, prompt=prompt, output=output)
