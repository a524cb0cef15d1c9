"""Tasks (a pull, a download, a load) as people read them: how much, how fast, how long yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from phasetop import events as ev
from phasetop.figures import seconds, share, size

WINDOW_NS: Final = 3_000_000_000
"""A task's rate is over so long."""


def newest(tasks: Sequence[ev.Task], task: int) -> ev.Task | None:
    """The last word on a task; None where there is none."""
    return next((each for each in reversed(tasks) if each.task == task), None)


def unended(tasks: Sequence[ev.Task]) -> list[ev.Task]:
    """The last word on each task that runs, in the order of their ids.

    A part (``pull NAME: 2df68bc8c465``) runs no longer than its whole (``pull NAME``, begun before it), whatever was said
    of it last: of a small layer the last word may be its first.
    """
    last: dict[int, ev.Task] = {}
    for each in tasks:
        last[each.task] = each
    found = []
    for task in sorted(last):
        each = last[task]
        wholes = (last[n] for n in sorted(last, reverse=True) if n < task and last[n].title)
        whole = next((one for one in wholes if (each.title or "").startswith(f"{one.title}: ")), None)
        if each.state == "run" and (whole is None or whole.state == "run"):
            found.append(each)
    return found


def running(tasks: Sequence[ev.Task], title: str) -> list[int]:
    """The tasks that run and whose title begins with ``title``, the latest begun last."""
    states: dict[int, ev.Task] = {}
    for each in tasks:
        states[each.task] = each
    return [task for task, each in states.items() if each.state == "run" and (each.title or "").startswith(title)]


def fraction(task: ev.Task) -> float | None:
    """How much of a task is done, 0 to 1; None where its whole is not told."""
    return min((task.done or 0) / task.total, 1.0) if task.total else None


def rate_per_s(tasks: Sequence[ev.Task], task: int) -> float | None:
    """Units a second over the last seconds that were told; None before there are two."""
    last: ev.Task | None = None
    base: ev.Task | None = None
    for each in reversed(tasks):
        if each.task != task or each.done is None:
            continue
        if last is None:
            last = each
            continue
        base = each
        if each.t <= last.t - WINDOW_NS:
            break
    if last is None or base is None or last.done is None or base.done is None or last.t <= base.t:
        return None
    return max(0.0, (last.done - base.done) / (last.t - base.t) * 1e9)


def text(tasks: Sequence[ev.Task], task: int) -> str:
    """One line: ``pull tiny: 2df68bc8c465   1.20 of 4.92 GB   24 %   45.1 MB/s   1:22 min``."""
    last = newest(tasks, task)
    if last is None:
        return ""
    parts = [last.title or "task"]
    if last.done is not None and last.unit == "B":
        parts.append(size(last.done) if last.total is None else f"{size(last.done)} of {size(last.total)}")
        if last.total:
            parts.append(share(fraction(last)))
        rate = rate_per_s(tasks, task)
        if rate:
            parts.append(f"{size(rate)}/s")
            if last.total and last.total > last.done:
                parts.append(" ".join(seconds((last.total - last.done) / rate * 1e9)))
    return "   ".join(parts)
