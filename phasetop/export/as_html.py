"""One page that needs nothing else: the figures of each request and its text, every token coloured by its gap.

Everything that came from a model, a server or a file is escaped; the page runs no script and loads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from phasetop import figures as fig
from phasetop import summary
from phasetop.columns import CHANNELS
from phasetop.export import Exported
from phasetop.export.facts import settings_of, setup_of
from phasetop.metrics import measure
from phasetop.pace import STALL, USUAL
from phasetop.phases import Phases
from phasetop.session import Run
from phasetop.visible import harmless

_STYLE: Final = """
:root{color-scheme:light dark;--ground:#fbfaf7;--ink:#1c2126;--soft:#50555b;--rule:#c9c7c0;
--queue:#989ca1;--load:#9a86ab;--prefill:#739fda;--waiting:#c9c7c0;--decode:#5fa88f;--finish:#989ca1;
--g1:#0a66bb;--g2:#466f85;--g3:#39424a;--g4:#6c583a;--g5:#836400;--g6:#852200;--g7:#b8104f}
@media(prefers-color-scheme:dark){:root{--ground:#0f1419;--ink:#dfe5ea;--soft:#a7b2bd;--rule:#37414c;
--queue:#545d67;--load:#6b5b88;--prefill:#2a5aa4;--waiting:#37414c;--decode:#1f715c;--finish:#545d67;
--g1:#4f8fe6;--g2:#84b9e4;--g3:#bcc0c7;--g4:#cbcb9e;--g5:#f9df78;--g6:#fd9d1c;--g7:#ec7350}}
body{background:var(--ground);color:var(--ink);font:15px/1.5 ui-monospace,monospace}
body{max-width:100ch;margin:2em auto;padding:0 1em}
h1,h2{font-size:1em;margin:2em 0 .5em}
dl{display:grid;grid-template-columns:12ch 1fr;margin:0}dt{color:var(--soft)}dd{margin:0}
.bar{display:flex;height:1.5em;margin:1em 0}.bar span{overflow:hidden;white-space:nowrap;padding-left:.5ch;min-width:2px}
pre{white-space:pre-wrap;overflow-wrap:anywhere}.figures{color:var(--soft)}.think{font-style:italic}
.s7{background:var(--g7);color:var(--ground)}"""


def write(exported: Exported) -> Iterator[str]:
    """The page."""
    steps = "".join(f".s{i}{{color:var(--g{i})}}" for i in range(1, 7))
    title = _text(exported.kept)
    yield f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
    yield f'<meta name="viewport" content="width=device-width"><style>{_STYLE}\n{steps}</style>\n<h1>{title}</h1>\n'
    runs = exported.runs
    if runs:
        rows = setup_of(exported.session, runs)
        settings = settings_of(exported.session, runs)
        rows += [("settings", ", ".join(f"{name} {value}" for name, value in settings))] if settings else []
        yield "<dl>" + "".join(f"<dt>{_text(name)}<dd>{_text(value)}" for name, value in rows) + "</dl>\n"
    for run in runs:
        yield from _request(exported, run)
    yield "</html>\n"


def _request(exported: Exported, run: Run) -> Iterator[str]:
    phases = measure(exported.session, run).phases
    yield f"<h2>request {run.r + 1}</h2>\n{_bar(phases)}\n"
    yield f'<pre class="figures">{_text(chr(10).join(summary.lines(exported.session, run, exported.kept)))}</pre>\n<pre>'
    tokens, before = run.tokens, -1
    for i in range(len(tokens)):
        raw, text = tokens.raw_bytes.get(i), tokens.text[i]
        shown = raw.decode("utf-8", "replace") if raw is not None else text if isinstance(text, str) else "·" * text
        if not shown:
            continue
        if before >= 0 and tokens.channel[i] != before:
            yield "\n\n"
        before = tokens.channel[i]
        gap = f"{fig.milliseconds(tokens.gap_ns[i])} ms" if tokens.gap_ns[i] >= 0 else ""
        names = [*([f"s{_step(tokens.step[i])}"] if tokens.step[i] != USUAL else []), *_channel(before)]
        classes = f' class="{" ".join(names)}"' if names else ""
        yield f'<span{classes} title="{gap}">{_text(shown)}</span>' if classes or gap else _text(shown)
    yield "</pre>\n"


def _channel(channel: int) -> list[str]:
    return [CHANNELS[channel]] if channel else []


def _step(step: int) -> int:
    """The step of the colour scale, 1 (fast) to 7 (a stall)."""
    return 7 if step == STALL else max(1, min(step, 6))


def _bar(phases: Phases) -> str:
    parts = [
        f'<span style="flex:{band.t1 - band.t0};background:var(--{band.phase})">'
        f"{band.phase} {' '.join(fig.seconds(band.t1 - band.t0))}</span>"
        for band in phases.bands
    ]
    return f'<div class="bar">{"".join(parts)}</div>'


def _text(text: str) -> str:
    return escape(harmless(text))
