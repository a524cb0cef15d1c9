"""What the view says of a session beside its figures: who answers, what is new, what was asked. Pure, as of a cursor."""

from __future__ import annotations

import codecs
from base64 import b64decode
from typing import Final

from msgspec import Struct

from phasetop import events as ev
from phasetop.figures import pause
from phasetop.machine import gpus_of, machine_of
from phasetop.session import Run, Session
from phasetop.tasks import unended
from phasetop.tui.lanes import SECOND_NS
from phasetop.tui.tokentext import drawable

NOTICE_NS: Final = 8 * SECOND_NS
"""A notice stands so long."""


class Facts(Struct, frozen=True):
    """Who answers: names as the session has them."""

    model: str | None = None
    quant: str | None = None
    server: str | None = None
    device: str | None = None
    link: str | None = None
    batch: int | None = None  # prompt tokens that the server reads before it tells how far it is


class Notice(Struct, frozen=True):
    """One row of news."""

    text: str
    level: str
    count: int = 1


def newest_notice(session: Session, run: Run | None, start: int, cursor: int) -> Notice | None:
    """The news of the last eight seconds: the newest, and how many there are.

    ``start`` is where the request's bands begin, which its other times count from, too.
    """
    fresh = [n for n in session.notices.until(cursor)[-20:] if cursor - n.t < NOTICE_NS and not _is_over(session, n, cursor)]
    stall = None
    if run is not None:
        tokens, upto = run.tokens, run.tokens.index(cursor)
        stall = next((i for i in reversed(tokens.stalls) if i < upto), None)
        if stall is not None and cursor - tokens.t[stall] >= NOTICE_NS:
            stall = None
        if stall is not None and (not fresh or tokens.t[stall] >= fresh[-1].t):
            at = (tokens.t[stall] - tokens.gap_ns[stall] - start) / 1e9
            return Notice(f"{pause(tokens.gap_ns[stall])} without a token at {at:.2f} s", "stall", len(fresh) + 1)
    if not fresh:
        return None
    return Notice(fresh[-1].text, fresh[-1].level, len(fresh) + (stall is not None))


def _is_over(session: Session, notice: ev.Notice, cursor: int) -> bool:
    """It says how a reply will end that has ended."""
    run = session.runs.get(notice.r) if notice.code == "reply-limit" and notice.r is not None else None
    return run is not None and run.ends.last(cursor) is not None


def loading_since(session: Session, cursor: int) -> int | None:
    """Since when the server has been loading; None where it is not."""
    since: int | None = None
    for state in session.server_states.until(cursor):
        if state.s in ("starting", "loading"):
            since = state.t if since is None else since
        else:
            since = None
    return since


def running_task(session: Session, cursor: int) -> ev.Task | None:
    """What is being fetched or made ready: the newest task that has not ended."""
    running = unended(session.tasks.until(cursor)[-200:])
    return max(running, key=lambda task: task.t) if running else None


def why_nothing(session: Session, cursor: int) -> str | None:
    """Why no request can run: the last error that was told, or the end of the session."""
    errors = [n.text for n in session.notices.until(cursor) if n.level == "error"]
    if errors:
        return errors[-1]
    if session.bye is not None and session.bye.t <= cursor:
        return "the session ended before anything was asked"
    return None


_SERVERS: Final = {"llamacpp": "llama-server", "ollama": "Ollama", "embedded": "embedded", "openai": "OpenAI API"}


def facts_of(session: Session, run: Run | None, cursor: int) -> Facts:
    """Names for the header: of the request, else of what is known so far."""
    server = session.server_of(run, cursor) if run else next((v.at(cursor) for v in session.servers.values()), None)
    model = session.model_of(run, cursor) if run else None
    if model is None:
        model = next((m.at(cursor) for m in session.models.values()), None)
    machine = machine_of(session, server, cursor)
    cards = gpus_of(session, machine, server.v if server is not None else None, cursor)
    names = [card.name for card in cards if card.name]
    device = None
    if names:
        device = names[0] if len(names) == 1 else f"{len(names)} × {names[0]}"
    elif server is not None and server.local:
        threads = server.options.get("threads") if server.options else None
        device = f"CPU, {threads.value} threads" if threads is not None else "CPU"
    elif machine.far and machine.d is not None:
        device = "CPU"
    kind = None
    if server is not None:
        kind = _SERVERS.get(server.backend or "", server.backend or "server")
        if server.version and server.backend != "embedded":
            kind = f"{kind} {server.version}"
    link = f"over {server.over}" if server is not None and server.over is not None else None
    batch = _batch(server, run, cursor)
    return Facts(model.name if model else None, model.quant if model else None, kind, device, link, batch)


def _batch(server: ev.Server | None, run: Run | None, cursor: int) -> int | None:
    """What the request set, else what its server was started with; None where neither says it."""
    value = run.settings(cursor).get("batch") if run is not None else None
    if value is None and server is not None and server.options and "batch" in server.options:
        value = server.options["batch"].value
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def prompt_pieces(pieces: list[str | int | dict[str, str]]) -> list[str]:
    """The prompt's tokens as they are drawn: a character of several tokens whole, at the last; ``�`` for what is none."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    made: list[str] = []
    pending = False
    for piece in pieces:
        if isinstance(piece, dict):
            made.append(drawable(decoder.decode(b64decode(piece.get("b", "")))))
            pending = bool(decoder.getstate()[0])
        elif pending:  # what waits for more bytes gets none
            made.append(decoder.decode(b"", final=True) + drawable(piece))
            decoder.reset()
            pending = False
        else:
            made.append(drawable(piece))
    if pending and made:
        made[-1] += decoder.decode(b"", final=True)
    return made


def asked_text(info: ev.Request | None) -> ev.Text:
    """What was asked, in the user's words: the last message, or the raw prompt."""
    if info is None:
        return ""
    if info.prompt is not None:
        return info.prompt
    for message in reversed(info.messages or []):
        content = message.get("content")
        if message.get("role") == "user" and isinstance(content, (str, int)):
            return content
    return ""
