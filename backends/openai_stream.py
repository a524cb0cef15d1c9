"""Replies of /v1/chat/completions and /v1/completions as events: llama.cpp's with all it adds, and everybody else's.

llama.cpp counts in each chunk (``timings.predicted_n``, where ``timings_per_token`` was asked for), so tokens that were
held back, as parts of a character, a stop string or a tool call's markup, are counted with the chunk that brings them.
Others say a count only at the end, or none; vLLM's continuous ``usage`` counts as well. A chunk that has nothing but a role
is no token, even where the count moved with it: those tokens belong to the channel that their text comes on.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from phasetop import events as ev
from phasetop.backends.logprobs import Entry, Lists, Pieces, pieces
from phasetop.backends.reply import fit_from
from phasetop.backends.server_errors import explain_error, read_error
from phasetop.backends.server_json import JsonDecoder, count, figures, load, milliseconds
from phasetop.backends.sse_reply import SseReplyParser
from phasetop.backends.tool_calls import Function, ToolCall, ToolCalls

_NOTHING: Final = msgspec.Raw(b"")


class ServerTimings(msgspec.Struct, gc=False):
    """llama.cpp's ``timings``: counts, and ms on its own clock."""

    cache_n: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None
    draft_n: int | None = None
    draft_n_accepted: int | None = None

    def event(self, t: int, r: int) -> ev.Timings:
        """The same as an event, without ``raw``."""
        return ev.Timings(
            t=t,
            r=r,
            prompt_n=count(self.prompt_n),
            cached_n=count(self.cache_n),
            prompt_ms=milliseconds(self.prompt_ms),
            gen_n=count(self.predicted_n),
            gen_ms=milliseconds(self.predicted_ms),
            draft_n=count(self.draft_n),
            accepted_n=count(self.draft_n_accepted),
        )


class Progress(msgspec.Struct, gc=False):
    """llama.cpp's ``prompt_progress``: tokens (processed includes the cached ones), whole ms since the slot began."""

    total: int | None = None
    cache: int | None = None
    processed: int | None = None
    time_ms: float | None = None


class _Delta(msgspec.Struct, gc=False):
    role: str | None = None
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    thinking: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None  # the one call of before there were several


class _Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    delta: _Delta | None = None
    message: _Delta | None = None  # the whole reply, or a stream that names its deltas so
    text: str | None = None  # /v1/completions
    finish_reason: str | None = None
    logprobs: Lists | None = None
    stop_reason: str | int | msgspec.UnsetType | None = (
        msgspec.UNSET
    )  # vLLM: the stop string, a token's id, null for the end token
    matched_stop: str | int | msgspec.UnsetType | None = msgspec.UNSET  # SGLang


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Verbose(msgspec.Struct, gc=False):
    prompt: str | None = None
    generation_settings: dict[str, Any] | None = None
    stop_type: str | None = None
    stopping_word: str | None = None
    truncated: bool | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    timings: ServerTimings | None = None
    usage: _Usage | None = None
    prompt_progress: Progress | None = None
    error: msgspec.Raw = _NOTHING
    verbose: msgspec.Raw = msgspec.field(default=_NOTHING, name="__verbose")


_CHUNKS: Final = JsonDecoder(_Chunk)
_VERBOSE: Final = JsonDecoder(_Verbose)
_NOT_SAID: Final = (b"", b"null")

_Line = tuple[str, str, ev.Tool | None]


class ChatStream(SseReplyParser):
    """Parses one reply; only choice 0 is this request's.

    Attributes:
        rendered: the prompt as the template made it, where ``verbose`` was asked for.
        applied: the settings as the server applied them, by its names, where ``verbose`` was asked for.

    """

    def _begin(self) -> None:
        self.rendered: str | None = None
        self.applied: dict[str, Any] | None = None
        self._calls = ToolCalls()
        self._thought = False
        self._timings: tuple[ServerTimings, bytes, int] | None = None  # the newest, its event, its stamp
        self._usage: tuple[_Usage, bytes, int] | None = None
        self._usage_counts: bool | None = None  # whether usage inside the stream is a running count

    def _chunk(self, data: bytes, t: int, out: list[ev.Event]) -> bool:
        chunk = _CHUNKS.decode(data)
        if chunk is None:
            return False
        if bytes(chunk.error) not in _NOT_SAID:
            self._fail(explain_error(load(data)))
        choice = None
        if chunk.choices:
            choice = next((one for one in chunk.choices if not one.index), None)
            if choice is None:
                return True
        usage, timings, progress = chunk.usage, chunk.timings, chunk.prompt_progress
        if usage is not None:
            self._usage = usage, data, t
        if progress is not None:
            self._prog(
                t,
                count(progress.total),
                count(progress.cache),
                count(progress.processed),
                milliseconds(progress.time_ms),
                out,
            )
        elif timings is not None:
            self._timings = timings, data, t
            self._has_timings = True
        if choice is not None:
            self._choice(choice, chunk, data, t, out)
            if timings is not None and progress is None and not choice.finish_reason and self._reply.running(t):
                out.append(timings.event(t, self._r))
        elif chunk.choices is None and usage is None and timings is None and progress is None:
            value = load(data)
            if read_error(value) is not None:
                self._fail(explain_error(value))
        return True

    def _choice(self, choice: _Choice, chunk: _Chunk, data: bytes, t: int, out: list[ev.Event]) -> None:
        delta = choice.delta or choice.message
        lines = self._lines(delta, choice.text)
        entries = choice.logprobs.entries() if choice.logprobs is not None else []
        first = len(out)
        if lines or entries:
            self._text(lines, entries, self._total(choice, chunk, len(lines)), chunk.prompt_progress is not None, t, out)
        elif not choice.finish_reason and chunk.prompt_progress is None and (delta is None or delta.role is None):
            n = self._reply.since(chunk.timings.predicted_n if chunk.timings is not None else None)
            if n:
                out.append(self._reply.line(t, Pieces(""), n, c=self._reply.channel))
        fit_from(out, first, data)
        if choice.finish_reason and choice.finish_reason != "null":
            self._finish(choice, chunk, t, out)

    def _lines(self, delta: _Delta | None, text: str | None) -> list[_Line]:
        """What a chunk carries, one (channel, text, tool) a channel and tool call."""
        if delta is None:
            return [("answer", text, None)] if text else []
        thinking, answer = delta.reasoning_content or delta.reasoning or delta.thinking, delta.content or text
        if isinstance(answer, list):
            thinking, answer = _parts(answer, thinking or "")
        lines: list[_Line] = []
        if thinking:
            self._thought = True
            lines.append(("think", thinking, None))
        if answer:
            lines.append(("answer", answer, None))
        if delta.tool_calls:
            lines.extend(("tool", text, tool) for text, tool in self._calls.take(delta.tool_calls))
        elif delta.function_call is not None:
            lines.extend(("tool", text, tool) for text, tool in self._calls.take([ToolCall(0, None, delta.function_call)]))
        return lines

    def _total(self, choice: _Choice, chunk: _Chunk, lines: int) -> int | None:
        """The server's running count with this chunk, where it gives one; usage is one only where it grows with the text."""
        if choice.delta is None and choice.message is not None and lines > 1:
            return None  # a whole reply: nobody tells how its tokens are spread over thinking, answer and calls
        if chunk.timings is not None:
            return chunk.timings.predicted_n
        if chunk.usage is None:
            return None
        total = chunk.usage.completion_tokens
        if choice.finish_reason:
            return total if self._usage_counts or choice.message is not None else None
        if self._usage_counts is not False:
            self._usage_counts = bool(self._reply.since(total))
        return total if self._usage_counts else None

    def _text(
        self, lines: list[_Line], entries: list[Entry], total: int | None, is_progress: bool, t: int, out: list[ev.Event]
    ) -> None:
        n = self._reply.since(total)
        if n is None and is_progress:
            n = 0  # the template's own text, which comes before the prefill
        if not lines:
            if n is None:
                n = len(entries)
            if n:
                out.append(self._reply.line(t, pieces("", entries), n, c=self._reply.channel))
            return
        if len(lines) == 1:
            c, text, tool = lines[0]
            out.append(self._reply.line(t, pieces(text, entries), n, c=c, tool=tool))
            return
        shares = _shares(n, len(lines))
        for at, (c, text, tool) in enumerate(lines):
            taken = _take(entries, text)
            entries = entries[len(taken) :]
            out.append(self._reply.line(t, pieces(text, taken), shares[at], c=c, tool=tool, more=at > 0))

    def _finish(self, choice: _Choice, chunk: _Chunk, t: int, out: list[ev.Event]) -> None:
        detail, stop = _stop_of(choice)
        if bytes(chunk.verbose) not in _NOT_SAID and (verbose := _VERBOSE.decode(bytes(chunk.verbose))) is not None:
            self.rendered, self.applied = verbose.prompt, verbose.generation_settings
            self._reply.truncated = bool(verbose.truncated)
            if choice.finish_reason == "stop" and verbose.stop_type == "eos":
                detail = "eos"
            elif choice.finish_reason == "stop" and verbose.stop_type == "word":
                detail, stop = "stop-string", verbose.stopping_word or None
        notice = self._reply.finished(t, choice.finish_reason or "", detail=detail, stop=stop)
        if notice is not None:
            out.append(notice)

    def _final(self, t: int) -> tuple[int | None, ev.Timings | None]:
        if self._timings is None and self._usage is None:
            return None, None
        server, data, at = self._timings or (None, b"", 0)
        usage, usage_data, usage_at = self._usage or (None, b"", 0)
        event = server.event(at, self._r) if server is not None else ev.Timings(t=t, r=self._r)
        event.t = max(at, usage_at)
        raw = figures(_object(data, "timings")) or {}
        totals = [event.gen_n]
        if usage is not None:
            raw["usage"] = figures(_object(usage_data, "usage"))
            thought = count(usage.completion_tokens_details.reasoning_tokens) if usage.completion_tokens_details else None
            event.think_n = None if thought == 0 and self._thought else thought
            totals.append(_generated(usage, thought))
            prompt = count(usage.prompt_tokens)
            cached = count(usage.prompt_tokens_details.cached_tokens) if usage.prompt_tokens_details else None
            if event.cached_n is None:
                event.cached_n = cached
            if event.cached_n is None and self._progress is not None:
                event.cached_n = self._progress.cached
            if prompt is not None and event.cached_n is None and event.prompt_n is not None and event.prompt_n <= prompt:
                event.cached_n = prompt - event.prompt_n
            if prompt is not None and event.prompt_n is None and event.cached_n is not None and event.cached_n <= prompt:
                event.prompt_n = prompt - event.cached_n
            if event.prompt_n is None or event.cached_n is None:
                event.total_n = prompt
        event.raw = raw or None
        known = [total for total in totals if total is not None]
        if not known and usage is not None:
            return usage.completion_tokens, event  # none, or one that cannot be
        return (max(known) if known else None), event

    def _totals(self) -> tuple[int | None, int | None]:
        total, event = self._final(0)
        if event is None:
            return None, None
        prompt = event.total_n
        if prompt is None and event.prompt_n is not None and event.cached_n is not None:
            prompt = event.prompt_n + event.cached_n
        total = count(total)
        return prompt, total if total is None or total >= self._reply.seen else None


def _parts(parts: list[Any], thinking: str) -> tuple[str, str]:
    """Content as a list of typed parts: (thinking, text)."""
    answer = ""
    for part in parts[:1000]:
        if isinstance(part, str):
            answer += part
        elif isinstance(part, dict):
            text = part.get("text")
            inner = part.get("thinking")
            if isinstance(inner, list):
                inner = "".join(str(one.get("text") or "") for one in inner[:1000] if isinstance(one, dict))
            answer += text if isinstance(text, str) else ""
            thinking += inner if isinstance(inner, str) else ""
    return thinking, answer


def _shares(n: int | None, lines: int) -> list[int | None]:
    """The tokens of one event over its lines: one each while there are any, what is left to the last."""
    if n is None:
        return [None] * lines
    shares: list[int | None] = [int(at < n) for at in range(lines)]
    if n > lines:
        shares[-1] = n - lines + 1
    return shares


def _take(entries: list[Entry], text: str) -> list[Entry]:
    """The first entries that spell ``text``; none where they don't."""
    spelt = ""
    for at, entry in enumerate(entries):
        spelt += entry.token or ""
        if spelt == text:
            return entries[: at + 1]
        if not text.startswith(spelt):
            break
    return []


def _stop_of(choice: _Choice) -> tuple[str | None, str | None]:
    """(detail, stop string) where a server names what stopped it; no word on it: (None, None)."""
    if choice.finish_reason != "stop":
        return None, None
    for named in (choice.stop_reason, choice.matched_stop):
        if isinstance(named, str) and named:
            return "stop-string", named
        if named is not msgspec.UNSET:
            return "eos", None
    return None, None


def _generated(usage: _Usage, thought: int | None) -> int | None:
    """Generated tokens, thinking included: it is in completion_tokens unless the total says that it comes on top."""
    completion, prompt, total = count(usage.completion_tokens), count(usage.prompt_tokens), count(usage.total_tokens)
    if completion is not None and thought and prompt is not None and total == prompt + completion + thought:
        return completion + thought
    return completion


def _object(data: bytes, key: str) -> Any:
    value = load(data) if data else None
    return value.get(key) if isinstance(value, dict) else None
