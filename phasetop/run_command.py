"""`phasetop run`: choose the way to show a session, and hand over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from phasetop import places
from phasetop.display import Display, display_of, has_terminal
from phasetop.faults import UsageError
from phasetop.lifeline import Lifeline
from phasetop.plan import Plan, begun_plan


def run(wanted: Plan) -> int:
    """Run a plan; returns the exit status.

    Raises:
        UsageError: there is nothing to ask and no terminal to type it.
        PhasetopError: the session cannot be started.
    """
    view = (has_terminal() and not wanted.plain) or wanted.tui
    if not view and not wanted.asks:
        raise UsageError('no prompt: give one with -p "…", -f FILE or on stdin')
    places.sweep_unfinished()
    lifeline = Lifeline(wanted.start, record=wanted.record, keep_as=wanted.keep_as)
    if not view:
        from phasetop.headless import run_headless

        return run_headless(lifeline, wanted)
    from phasetop.live import run_view

    return run_view(lifeline, wanted)


def start(given: Mapping[str, Any], settings: Mapping[str, Any]) -> int:
    """The start screen; returns the exit status. The caller sees to it that there is a terminal.

    Args:
        given: how the view looks, from the command line.
        settings: the options of `run`, from the configuration and the environment: what is begun there has them.

    Raises:
        UsageError: the settings contradict each other.
    """
    from phasetop.live import start_view

    chosen, usual = display_of(given), display_of(settings)
    looks = {name: getattr(usual, name) for name in Display.__struct_fields__ if getattr(chosen, name) is None}
    return start_view(replace(chosen, **looks), begun_plan(settings))
