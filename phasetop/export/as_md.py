"""A recording as a page of Markdown to paste into an issue: what ran where, a table of the requests, their verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from phasetop import figures as fig
from phasetop.export import Exported
from phasetop.export.facts import settings_of, setup_of
from phasetop.metrics import Measures, measure
from phasetop.session import Run
from phasetop.visible import harmless

COLUMNS = (
    *("request", "prompt", "cached", "prefill tok/s", "TTFT", "output", "decode tok/s", "gap p50", "p99"),
    *("MBU", "J/token", "finish"),
)


def write(exported: Exported) -> Iterator[str]:
    """Heading, facts, one row a request, one sentence a request."""
    yield f"## {_plain(exported.kept)}\n\n"
    runs = exported.runs
    if not runs:
        yield "No request is in it.\n"
        return
    for name, value in setup_of(exported.session, runs):
        yield f"- {name}: {_plain(value)}\n"
    settings = settings_of(exported.session, runs)
    if settings:
        yield f"- settings: {', '.join(f'{name} {_plain(str(value))}' for name, value in settings)}\n"
    yield "\n" + _row(COLUMNS) + "|" + " ---: |" * (len(COLUMNS) - 1) + " :--- |\n"
    found = [(run, measure(exported.session, run)) for run in runs]
    for run, measures in found:
        yield _row(_figures(run, measures))
    yield "\n"
    for run, measures in found:
        if measures.verdict is not None:
            yield f"{run.r + 1}. {_plain(measures.verdict.text)}\n"


def _figures(run: Run, found: Measures) -> list[str]:
    tokens, rates, times = found.tokens, found.rates, found.latency
    energy = found.energy.j_per_output_token
    return [
        *(str(run.r + 1), fig.count(tokens.prompt), fig.count(tokens.cached), fig.rate(rates.prefill_per_s)),
        *(" ".join(fig.seconds(times.ttft_ns)), fig.count(tokens.output), fig.rate(rates.decode_per_s)),
        *(f"{fig.milliseconds(times.gaps.p50)} ms", f"{fig.milliseconds(times.gaps.p99)} ms"),
        *(fig.share(found.roofline.mbu), fig.UNKNOWN if energy is None else f"{energy:.2f}"),
        found.finish.reason or "runs",
    ]


def _row(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(_plain(str(cell)) for cell in cells)} |\n"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    shown = harmless(text, newlines=False)
    return "".join(f"\\{mark}" if mark in "\\`*_[]<>|#" else mark for mark in shown)
