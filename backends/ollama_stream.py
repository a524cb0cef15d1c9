"""Replies of Ollama's /api/chat and /api/generate as events: NDJSON, one line a piece, the figures in the last line.

A piece is mostly a token and not always: parts of a character are held back, white space before a closing tag too. So no
line with text says how many tokens it brought (``n`` null), and the final count says at the end what never showed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from phasetop import events as ev
from phasetop.backends.lines import LineSplitter
from phasetop.backends.logprobs import Entry, Pieces, pieces
from phasetop.backends.ollama_errors import explain_line
from phasetop.backends.plain_text import harmless
from phasetop.backends.protocol import Outcome
from phasetop.backends.reply import Reply, fit_from
from phasetop.backends.server_errors import explain_no_stream
from phasetop.backends.server_json import JsonDecoder, count, figures, load, milliseconds
from phasetop.backends.tool_calls import Function, ToolCall, ToolCalls

REPEATS: Final = 30
"""Equal pieces in a row after which Ollama gives a reply up, without a last line."""
_NOTHING: Final = msgspec.Raw(b"")
_DURATIONS: Final = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
_COUNTS: Final = ("prompt_eval_count", "eval_count")


class _Function(msgspec.Struct, gc=False):
    index: int | None = None
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct, gc=False):
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Line(msgspec.Struct, gc=False):
    message: _Message | None = None  # chat
    response: str | None = None  # generate
    thinking: str | None = None
    tool_calls: list[_Call] | None = None
    done: bool | None = None
    done_reason: str | None = None
    logprobs: list[Entry] | None = None
    total_duration: int | None = None  # ns, from here on; only in the last line
    load_duration: int | None = None
    prompt_eval_count: int | None = None  # cached ones included
    prompt_eval_duration: int | None = None  # of the computed ones
    eval_count: int | None = None  # the end token included
    eval_duration: int | None = None
    context: msgspec.Raw = _NOTHING  # one number a token: not looked at
    error: msgspec.Raw = _NOTHING


_LINES: Final = JsonDecoder(_Line)


class OllamaStream:
    """A `StreamParser` for one reply of either route, also where it comes as one object.

    Args:
        r: the request's id.
        applied: the settings that hold for it, by OUTPUTS' names: the model's own, overlaid with those asked for.

    """

    def __init__(self, r: int, applied: Mapping[str, Any] | None = None) -> None:
        self._r = r
        self._reply = Reply(r, applied)
        self._lines = LineSplitter()
        self._tools = ToolCalls()
        self._noise = b""  # the first line that is no JSON object
        self._done = False
        self._called = False
        self._last_piece: str | None = None
        self._repeats = 0
        self._newest_t = 0
        self._prompt: int | None = None
        self._output: int | None = None

    @property
    def complete(self) -> bool:
        """The last line came, or one without end did."""
        return self._done or self._lines.overlong

    def feed(self, data: bytes, t: int) -> list[ev.Event]:
        """The events of one socket read."""
        out: list[ev.Event] = []
        self._newest_t = t
        for line in self._lines.feed(data):
            self._line(line, t, out)
        return out

    def close(self, t: int, outcome: Outcome, why: str | None = None) -> list[ev.Event]:
        """The rest (an object without a newline), and the `End`."""
        out: list[ev.Event] = []
        rest = self._lines.close()
        if rest.strip():
            self._line(rest, self._newest_t or t, out, torn=True)
        reply = self._reply
        if self._lines.overlong and reply.fault is None:
            text = "the server sent more than 16 MiB without an end of line: the rest is not read"
            reply.fault = ev.Fault(code="too-long", text=text)
        if self._noise and reply.finish is None and reply.fault is None and outcome != "cancelled":
            reply.fault = explain_no_stream(self._noise).fault
        end = reply.end(t, outcome, why, prompt=self._prompt, output=self._output)
        if end.finish == "cut" and outcome == "complete":
            end = self._why_cut(end)
        out.append(end)
        return out

    def _why_cut(self, end: ev.End) -> ev.End:
        """A stream that ended in good order for HTTP, and without Ollama's last line."""
        if self._repeats >= REPEATS:
            piece = harmless(repr(self._last_piece), 40)
            text = f"Ollama gave the reply up: the model had repeated {piece} {self._repeats} times"
            return msgspec.structs.replace(end, detail="repeated", error=ev.Fault(code="repeated", text=text))
        text = "Ollama ended the stream without its last line, the figures: its log may say why"
        return msgspec.structs.replace(end, error=ev.Fault(code="no-last-line", text=text))

    def _line(self, data: bytes, t: int, out: list[ev.Event], *, torn: bool = False) -> None:
        if self._done or self._reply.fault is not None or not data.strip():
            return
        line = _LINES.decode(data)
        if line is None:
            if not self._noise and not (torn and data.lstrip()[:1] == b"{"):
                self._noise = data
            return
        if line.error and line.error != b"null":
            self._reply.fault = explain_line(load(data)).fault
            return
        if line.message is None and line.response is None and not line.done:
            if not self._noise:
                self._noise = data  # an object, and none of Ollama's
            return
        first = len(out)
        self._text(line, t, out)
        fit_from(out, first, data)
        if line.done:
            self._finish(line, t, out)

    def _text(self, line: _Line, t: int, out: list[ev.Event]) -> None:
        """Its pieces, channel by channel: the probabilities are those of the answer, or of the thought where it is alone."""
        message = line.message or _Message(line.response, line.thinking, line.tool_calls)
        thought, answer = message.thinking or "", message.content or ""
        entries = line.logprobs or []
        reply, more = self._reply, False
        if thought:
            out.append(reply.line(t, pieces(thought, [] if answer else entries), None, c="think"))
            more = True
        if answer:
            out.append(reply.line(t, pieces(answer, entries), None, more=more))
            more = True
        if thought or answer:
            self._count_repeats(answer or thought)
        for text, tool in self._tools.take([_as_call(call) for call in message.tool_calls or ()]):
            self._called = True
            out.append(reply.line(t, Pieces(text), None, c="tool", tool=tool, more=more))
            more = True

    def _count_repeats(self, piece: str) -> None:
        piece = piece.strip()
        self._repeats = self._repeats + 1 if piece == self._last_piece else 1
        self._last_piece = piece

    def _finish(self, line: _Line, t: int, out: list[ev.Event]) -> None:
        self._done = True
        reason = line.done_reason or ""
        if reason in ("load", "unload"):  # nothing was asked: the model was only loaded, or let go
            self._reply.finish, self._reply.finish_t, self._reply.detail = "stop", t, reason
        else:  # no reason: a version that had none yet
            if reason in ("", "stop") and self._called:
                reason = "tool_calls"
            told = self._reply.finished(t, reason or "stop")
            if told is not None:
                out.append(told)
        events, output = self._reply.settle(t, line.eval_count)
        out.extend(events)
        self._output, self._prompt = output, count(line.prompt_eval_count)
        raw = {name: value for name in (*_DURATIONS, *_COUNTS) if (value := getattr(line, name)) is not None}
        if raw:
            load_ms, prompt_ms, gen_ms, total_ms = (
                _ms(getattr(line, name))
                for name in ("load_duration", "prompt_eval_duration", "eval_duration", "total_duration")
            )
            out.append(
                ev.Timings(
                    t=t,
                    r=self._r,
                    total_n=self._prompt,
                    prompt_ms=prompt_ms,
                    gen_n=output,
                    gen_ms=gen_ms,
                    load_ms=load_ms,
                    total_ms=total_ms,
                    raw=figures(raw),
                )
            )


def _ms(ns: int | None) -> float | None:
    """A duration of Ollama's in milliseconds."""
    return None if ns is None else milliseconds(ns / 1e6)


def _as_call(call: _Call) -> ToolCall:
    """Ollama puts a call's index beside its name."""
    function = call.function or _Function()
    return ToolCall(function.index, call.id, Function(function.name, function.arguments))
