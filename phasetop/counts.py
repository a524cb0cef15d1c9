"""Tokens of a request: prompt, output by channel, prefill progress, and the cells of the KV cache that they fill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from phasetop import events as ev
from phasetop.columns import THINK, TOOL
from phasetop.session import Run, Session
from phasetop.tally import Tally

Reasons = dict[str, str]
"""Why a figure is unknown, or what it is from, by its path in `run --json`."""

WHOLE: Final = frozenset({"stop", "length", "tool_calls"})
"""The finishes of a reply that came to its own end: the server's final count and times are of all of it."""


class TokenCounts(Struct, frozen=True):
    """Tokens by OUTPUTS' words: ``prompt`` = cached + prefilled, ``output`` = thinking + answer + tool."""

    prompt: int | None
    prompt_sent: int | None
    cached: int | None
    prefilled: int | None
    output: int | None
    thinking: int | None
    answer: int | None
    tool: int | None
    chunks: int
    drafted: int | None
    accepted: int | None


class Prefill(Struct, frozen=True):
    """Progress of the prompt in tokens; ``done`` includes the cached ones."""

    total: int | None
    cached: int | None
    done: int | None
    fraction_new: float | None  # (done − cached) / (total − cached); 1.0 where nothing was to be computed


class CacheUse(Struct, frozen=True):
    """One of the server's caches, and this request's part of it.

    Attributes:
        name: llama.cpp's: kv, base and swa (layers with a window), attn, mla, lid …; "state": recurrent, no cells.
        cells: of one stream; streams: one, or one a slot.
        used_cells: by this request; None where its cells are not known.
        total_bytes: of all cells of all streams; cell_bytes: of one.
        window: tokens that its layers attend to; None: all.
    """

    name: str
    cells: int
    streams: int
    used_cells: int | None
    total_bytes: int
    cell_bytes: int
    window: int | None


class Kv(Struct, frozen=True):
    """Cells of the KV cache in use and what one request can use; the bytes are filled in by `kv_figures`.

    Attributes:
        used_bytes: what this request's cells (and its recurrent state) occupy.
        allocated_bytes: of all the server's slots.
        bytes_per_token: while no window is full; next_token_bytes: what the next one adds.
        full_in_s: until the context is full at the reply's rate.
        slots: how many; shared: they share one pool of cells.
        host_cache_bytes: how much RAM the server's prompt cache may take, beside all this.
        when_full: "stops" (the reply ends) or "shifts" (the oldest tokens go).
    """

    tokens: int | None
    context: int | None
    used_bytes: int | None = None
    allocated_bytes: int | None = None
    bytes_per_token: int | None = None
    next_token_bytes: int | None = None
    full_in_s: float | None = None
    slots: int | None = None
    shared: bool | None = None
    caches: tuple[CacheUse, ...] = ()
    host_cache_bytes: int | None = None
    when_full: str | None = None


class Seen(Struct, frozen=True):
    """What is known of one request at a cursor, for those who count: all of it as of the same moment."""

    session: Session
    run: Run
    cursor: int
    lines: int  # token lines so far
    tally: Tally
    timings: ev.Timings | None
    end: ev.End | None

    @property
    def whole(self) -> bool:
        """The reply came to its own end."""
        return self.end is not None and self.end.finish in WHOLE

    @property
    def counted(self) -> bool:
        """Each token line so far said how many tokens it brought."""
        return not 0 <= self.run.tokens.uncounted < self.lines

    @property
    def prefilled(self) -> bool:
        """The prompt has been read: a token came, or the reply ended without one."""
        return self.tally.first >= 0 or self.whole


def count_tokens(seen: Seen, unknown: Reasons, sources: Reasons) -> TokenCounts:
    """All counts of a request; a None is explained in ``unknown``."""
    prompt, cached = _prompt(seen)
    prefilled = None if prompt is None or cached is None else prompt - cached
    if prompt is None:
        unknown["tokens.prompt"] = "the server does not tell" if seen.end is not None else "not told yet"
    if cached is None:
        unknown["tokens.cached"] = "the server does not tell" if seen.end is not None else "not told yet"
    if prefilled is None:
        unknown["tokens.prefilled"] = unknown.get("tokens.cached") or unknown["tokens.prompt"]

    told = seen.run.prompt.at(seen.cursor)
    timings = seen.timings
    output = output_tokens(seen)
    if output is None:
        why = _why_no_count(seen)
        unknown.update({f"tokens.{name}": why for name in ("output", "thinking", "answer", "tool")})
    elif not seen.counted and seen.end is None:
        sources["tokens.output"] = "estimate: one a line, until the final count corrects it"
    thinking, answer, tool = _parts(seen, output)
    return TokenCounts(
        prompt=prompt,
        prompt_sent=told.cut.asked if told is not None and told.cut is not None else None,
        cached=cached,
        prefilled=prefilled,
        output=output,
        thinking=thinking,
        answer=answer,
        tool=tool,
        chunks=seen.tally.chunks,
        drafted=timings.draft_n if timings is not None else None,
        accepted=timings.accepted_n if timings is not None else None,
    )


def output_tokens(seen: Seen) -> int | None:
    """Generated tokens by the server's count; where the stream doesn't count, by its final one if that can be true."""
    came = seen.tally.output
    final = seen.timings.gen_n if seen.timings is not None and seen.whole else None
    if seen.counted:
        if not came and seen.whole:
            return final
        return came if final is None else max(came, final)
    if seen.end is None:
        return came
    return final if final is not None and final >= came else None


def _why_no_count(seen: Seen) -> str:
    if not seen.whole:
        return "the stream does not count its tokens, and it was over before a final count came"
    if seen.timings is None or seen.timings.gen_n is None:
        return "the server tells no credible count of tokens"
    return f"the server's final count, {seen.timings.gen_n}, is below the {seen.tally.output} pieces that came"


def _parts(seen: Seen, output: int | None) -> tuple[int | None, int | None, int | None]:
    """(thinking, answer, tool), which add up to the output."""
    if output is None:
        return None, None, None
    thinking, answer, tool = seen.tally.think, seen.tally.answer, seen.tally.tool
    thought = seen.timings.think_n if seen.timings is not None and seen.whole else None
    if thought is not None and not seen.counted and thought + tool <= output:
        return thought, output - thought - tool, tool
    more = output - (thinking + answer + tool)  # a final count that no line told of: of the channel of the last line
    channel = seen.run.tokens.channel[seen.tally.last] if seen.tally.last >= 0 else None
    if channel == THINK:
        thinking += more
    elif channel == TOOL:
        tool += more
    else:
        answer += more
    return thinking, answer, tool


def _prompt(seen: Seen) -> tuple[int | None, int | None]:
    """(prompt, cached) tokens: by the server's final figures, else by its progress, else by the prompt itself."""
    timings = seen.timings if seen.prefilled else None  # before, they still grow
    progress = seen.run.progress.until(seen.cursor)
    told = seen.run.prompt.at(seen.cursor)
    total = next((prog.total for prog in reversed(progress) if prog.total is not None), None)
    cached = timings.cached_n if timings is not None else None
    if cached is None:
        cached = next((prog.cached for prog in reversed(progress) if prog.cached is not None), None)
    if cached is None and told is not None:
        cached = told.cached
    if timings is not None and timings.prompt_n is not None and cached is not None:
        return timings.prompt_n + cached, cached
    if timings is not None and timings.total_n is not None:
        total = timings.total_n
    if total is None and told is not None:
        total = told.n
    if cached is None and total is not None and timings is not None and timings.prompt_n is not None:
        cached = total - timings.prompt_n if timings.prompt_n <= total else None
    if total is not None and cached is not None and cached > total:
        cached = None
    return total, cached


def prefill_progress(seen: Seen, tokens: TokenCounts) -> Prefill:
    """How much of the prompt has been read."""
    total, cached = tokens.prompt, tokens.cached
    if seen.prefilled:
        done = total
    else:
        newest = seen.run.progress.last(seen.cursor)
        done = newest.done if newest is not None else None
        if done is not None and total is not None:
            done = min(done, total)
    fraction = None
    if total is not None and cached is not None and done is not None:
        new = total - cached
        fraction = min(max((done - cached) / new, 0.0), 1.0) if new > 0 else 1.0
    return Prefill(total, cached, done, fraction)


def cells_in_use(prompt: int, output: int) -> int:
    """Cells of a request with so many tokens: the newest of its reply is not in the cache yet."""
    return prompt + max(output - 1, 0)


def kv_use(seen: Seen, tokens: TokenCounts, prefill: Prefill, unknown: Reasons, sources: Reasons) -> Kv:
    """Cells in use: the prompt so far, or the prompt and the output less the newest token, which is not in the cache yet."""
    context = _context(seen, sources)
    slot = seen.run.slots.last(seen.cursor)
    cells: int | None = None
    if seen.prefilled and tokens.prompt is not None and tokens.output is not None:
        cells = cells_in_use(tokens.prompt, tokens.output)
    elif not seen.prefilled:
        cells = prefill.done
    if cells is None and slot is not None:
        cells = slot.past
    if cells is not None and context is not None:
        cells = min(cells, context)
    if context is None:
        unknown["kv.context"] = "the server does not tell its context"
    if cells is None:
        why = unknown.get("tokens.output") or unknown.get("tokens.prompt") if seen.prefilled else None
        unknown["kv.tokens"] = why or "the server has not told how much of the prompt it read"
    return Kv(cells, context)


def _context(seen: Seen, sources: Reasons) -> int | None:
    """What one request can use, tokens: its slot's share of the context, never more than the model was trained for."""
    slot = next((slot for slot in reversed(seen.run.slots.until(seen.cursor)[-8:]) if slot.ctx), None)
    if slot is not None:
        return slot.ctx
    server = seen.session.server_of(seen.run, seen.cursor)
    options = server.options or {} if server is not None else {}
    if (slot_context := number_of(options, "slot_context")) is not None:
        return slot_context
    asked = seen.run.settings(seen.cursor)
    context, slots = number_of(options, "context"), number_of(options, "parallel")
    # Ollama counts a context by request, and starts its runner with the sum over the slots.
    each = server is not None and server.backend == "ollama"
    if context is None:
        if not each or not isinstance(asked.get("context"), int) or asked["context"] <= 0:
            return None
        context = int(asked["context"])
        sources["kv.context"] = "given"
    elif slots is not None and slots > 1:
        own = each and not options["context"].source.startswith("argv")
        shared = "kv_unified" in options and bool(options["kv_unified"].value)
        if not own and not shared:
            sources["kv.context"] = f"estimate: {context} tokens over {slots} slots"
            context //= slots
    model = seen.session.model_of(seen.run, seen.cursor)
    trained = model.context_trained if model is not None else None
    if trained is not None and 0 < trained < context:
        sources["kv.context"] = "estimate: what the model was trained for"
        context = trained
    return context


def number_of(options: Mapping[str, ev.Sourced], name: str) -> int | None:
    """A server's option that is a number above 0."""
    value = options[name].value if name in options else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
