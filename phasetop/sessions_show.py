"""`phasetop sessions show` for people: how a session was recorded, and its requests with their summaries."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import datetime

from phasetop import summary
from phasetop.events import shown
from phasetop.figures import UNKNOWN, file_size
from phasetop.replies import prompt_of
from phasetop.session import Run, Session
from phasetop.sessions_list import Listed
from phasetop.sessions_text import cut, lasted, one_line


def contents(one: Listed, session: Session, width: int = 80) -> list[str]:
    """What a session holds: how it was recorded, then each request with its summary."""
    row, hello = one.row, session.hello
    state = "runs now" if one.live else "whole" if row.complete else "cut off, or stopped"
    moment = datetime.fromtimestamp(row.began_ns / 1e9).astimezone() if 0 < row.began_ns < 1 << 62 else None
    facts = {
        "name": one_line(one.name) + (f" ({row.parts} parts)" if row.parts > 1 else ""),
        "file": one_line(str((*one.elsewhere, *one.files)[0])),
        "started": f"{moment:%Y-%m-%d %H:%M:%S}" if moment is not None else "",
        "lasted": f"{' '.join(lasted(row.duration_s))} · {state} · {file_size(one.bytes)}",
        "by": one_line(hello.by) if hello is not None else "",
        "machine": _machine(session),
        "server": ", ".join(_servers(session)),
        "model": one_line(", ".join(row.models)),
        "texts": "left out (--redact)" if row.redacted else "",
        "marks": ", ".join(one_line(str(mark.label or "")) or "a mark" for mark in session.marks.items),
        "notices": "; ".join(dict.fromkeys(one_line(n.text) for n in session.notices.items if n.level != "info")),
    }
    lines: list[str] = []
    for label, text in facts.items():
        if label == "file":  # whole, to be copied
            lines.append(f"{label:<9}{text}")
        elif text:
            lines += textwrap.wrap(f"{label:<9}{text}", width, subsequent_indent=" " * 9, break_on_hyphens=False)
    for run in session.runs.values():
        if run.info.at() is None:
            continue
        lines += ["", cut(f"request {run.r}: {_asked(run)}", width)]
        lines += [line for line in summary.lines(session, run, None) if not line.startswith("finish")]
        lines.append(f"finish   {_finish(run)}")
    return lines


def _machine(session: Session) -> str:
    host = session.hello.host if session.hello is not None else None
    if host is None:
        return ""
    parts = (
        host.name,
        host.cpu,
        f"{host.cores} cores" if host.cores else None,
        f"{host.os or ''} {host.kernel or ''}".strip(),
    )
    return one_line(", ".join(part for part in parts if part))


def _servers(session: Session) -> Iterator[str]:
    for versions in session.servers.values():
        server = versions.at()
        if server is not None:
            yield one_line(" ".join(part for part in (server.backend, server.version, server.url) if part))


def _asked(run: Run) -> str:
    prompt = prompt_of(run)
    return one_line(shown(prompt)) if prompt is not None else UNKNOWN


def _finish(run: Run) -> str:
    end = run.ends.last()
    if end is None:
        return "not finished"
    detail = f" ({one_line(end.detail)})" if end.detail and end.finish != "stop" else ""
    return f"{one_line(end.finish)}{detail}"
