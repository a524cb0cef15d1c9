"""Replies of llama.cpp's own /completion as events: the raw route, whose every chunk counts and names its tokens."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from phasetop import events as ev
from phasetop.backends.logprobs import Entry, Pieces, pieces, token_id
from phasetop.backends.openai_stream import Progress, ServerTimings
from phasetop.backends.reply import fit_from
from phasetop.backends.server_errors import explain_error, read_error
from phasetop.backends.server_json import JsonDecoder, count, figures, load, milliseconds
from phasetop.backends.sse_reply import SseReplyParser

_NOTHING: Final = msgspec.Raw(b"")
_LEFT_OUT: Final = frozenset(("content", "prompt", "generation_settings", "model", "tokens", "stopping_word", "timings"))


class _Chunk(msgspec.Struct, gc=False):
    index: int | None = 0
    content: str | None = None
    tokens: list[int] | None = None
    stop: bool | None = None
    tokens_predicted: int | None = None
    tokens_evaluated: int | None = None  # of the prompt, cached ones included
    truncated: bool | None = None
    stop_type: str | None = None
    stopping_word: str | None = None
    stopped_eos: bool | None = None  # instead of stop_type, in builds before 2025
    stopped_word: bool | None = None
    stopped_limit: bool | None = None
    completion_probabilities: list[Entry] | None = None
    timings: ServerTimings | None = None
    prompt_progress: Progress | None = None
    prompt: msgspec.Raw = _NOTHING
    generation_settings: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING


_CHUNKS: Final = JsonDecoder(_Chunk)


class CompletionStream(SseReplyParser):
    """Parses one reply; only prompt 0 is this request's. Complete with ``"stop":true``: there is no ``[DONE]``.

    Attributes:
        rendered: the prompt as the server took it.
        applied: the settings as the server applied them, by its names.

    """

    def _begin(self) -> None:
        self.rendered: str | None = None
        self.applied: dict[str, Any] | None = None
        self._last: tuple[_Chunk, bytes, int] | None = None  # the newest chunk that counts, its bytes, its stamp
        self._timings: tuple[ServerTimings, bytes, int] | None = None

    def _chunk(self, data: bytes, t: int, out: list[ev.Event]) -> bool:
        chunk = _CHUNKS.decode(data)
        if chunk is None:
            return False
        if chunk.error:
            self._fail(explain_error(load(data)))
        elif chunk.content is None and chunk.prompt_progress is None and not chunk.stop:
            value = load(data)
            if read_error(value) is not None:
                self._fail(explain_error(value))
            return True
        if chunk.index:
            return True
        if chunk.timings is not None and chunk.prompt_progress is None:
            self._timings = chunk.timings, data, t
            self._has_timings = True
        if chunk.prompt_progress is None:
            self._last = chunk, data, t
        progress = chunk.prompt_progress
        if progress is not None:
            self._prog(
                t,
                count(progress.total),
                count(progress.cache),
                count(progress.processed),
                milliseconds(progress.time_ms),
                out,
            )
        first = len(out)
        self._text(chunk, t, out)
        fit_from(out, first, data)
        if chunk.stop:
            self._finish(chunk, t, out)
        elif chunk.timings is not None and progress is None and self._reply.running(t):
            out.append(chunk.timings.event(t, self._r))
        return True

    def _text(self, chunk: _Chunk, t: int, out: list[ev.Event]) -> None:
        text = chunk.content or ""
        n = self._reply.since(chunk.tokens_predicted)
        if chunk.prompt_progress is not None:
            if text:
                out.append(self._reply.line(t, Pieces(text), n or 0))
            return
        entries = chunk.completion_probabilities or []
        if not text and not n and not (entries and n is None):
            return
        found = pieces(text, entries)
        ids = chunk.tokens or []
        if len(ids) == 1 and not entries:
            found = found._replace(i=token_id(ids[0]))
        out.append(self._reply.line(t, found, n))

    def _finish(self, chunk: _Chunk, t: int, out: list[ev.Event]) -> None:
        kind = chunk.stop_type
        if kind is None:
            kind = (
                "word" if chunk.stopped_word else "eos" if chunk.stopped_eos else "limit" if chunk.stopped_limit else "none"
            )
        self._reply.truncated = bool(chunk.truncated)
        if kind == "limit":
            self._reply.finished(t, "length")
        elif kind == "word":
            self._reply.finished(t, "stop", detail="stop-string", stop=chunk.stopping_word or None)
        elif kind == "eos":
            self._reply.finished(t, "stop", detail="eos")
        else:
            self._reply.finish, self._reply.finish_t = "stop", t
        prompt = _text_of(chunk.prompt)
        settings = load(bytes(chunk.generation_settings)) if chunk.generation_settings else None
        self.rendered = prompt
        self.applied = settings if isinstance(settings, dict) else None
        self._settle(t, out)
        self._done_t = t

    def _final(self, t: int) -> tuple[int | None, ev.Timings | None]:
        if self._last is None:
            return None, None
        last, data, at = self._last
        server, timings_data, timings_at = self._timings or (None, b"", 0)
        total = count(last.tokens_predicted)
        prompt = count(last.tokens_evaluated)
        if server is None and total is None and prompt is None:
            return None, None
        event = server.event(timings_at, self._r) if server is not None else ev.Timings(t=t, r=self._r)
        event.t = max(at, timings_at)
        if total is None:
            total = event.gen_n
        cached = self._progress.cached if self._progress is not None else None
        if event.cached_n is None:
            event.cached_n = cached
        if prompt is not None and event.cached_n is None and event.prompt_n is not None and event.prompt_n <= prompt:
            event.cached_n = prompt - event.prompt_n
        if prompt is not None and event.prompt_n is None and event.cached_n is not None and event.cached_n <= prompt:
            event.prompt_n = prompt - event.cached_n
        if event.prompt_n is None or event.cached_n is None:
            event.total_n = prompt
        said = load(timings_data) if timings_data else None
        raw = figures(said.get("timings")) if isinstance(said, dict) else None
        own = load(data)
        if isinstance(own, dict):
            own = figures({key: value for key, value in own.items() if key not in _LEFT_OUT})
        event.raw = {**(raw or {}), **(own if isinstance(own, dict) else {})} or None
        return last.tokens_predicted if total is None else total, event

    def _totals(self) -> tuple[int | None, int | None]:
        if self._last is None:
            return None, None
        return count(self._last[0].tokens_evaluated), count(self._last[0].tokens_predicted)


def _text_of(raw: msgspec.Raw) -> str | None:
    """A JSON string's text; None where it is none."""
    value = load(bytes(raw)) if raw else None
    return value if isinstance(value, str) else None
