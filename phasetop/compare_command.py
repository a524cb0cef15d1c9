"""`phasetop compare`: read both sides, say what differs, and end with the status that a script asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from phasetop import places
from phasetop.amounts import read_share
from phasetop.compare import Comparison, compare, side_of
from phasetop.compare_text import comparison_object, lines
from phasetop.faults import EXIT_FAILED, EXIT_OK, UsageError
from phasetop.opening import open_recording
from phasetop.output import print_json, print_utf8, say
from phasetop.session import Session
from phasetop.visible import harmless

EXIT_UNDECIDED: Final = 3
"""There is too little data to say whether something is worse."""
JUDGED: Final = ("ttft_s", "prefill_tok_per_s", "decode_tok_per_s")
"""The metrics that must be decided for ``--fail-if-worse`` to pass."""


def run(first: Sequence[str], second: Sequence[str], *, as_json: str | None, fail_if_worse: str | None) -> int:
    """Compare the recordings ``second`` (B) with ``first`` (A); returns the exit status.

    Raises:
        UsageError: a side is empty, or names what there is not.
        PhasetopError: a recording cannot be read.
    """
    if not first or not second:
        raise UsageError("two recordings: phasetop compare A B; several a side: phasetop compare A1 A2 A3 -- B1 B2 B3")
    limit = None
    if fail_if_worse is not None:
        limit = read_share("--fail-if-worse", fail_if_worse, of="a share of A's figure", such_as="0.05 or 5%")
    found = compare(*(side_of(_opened(names)) for names in (first, second)))
    if as_json is not None:
        print_json(comparison_object(found), as_json)
    else:
        for line in lines(found):
            print_utf8(harmless(line, newlines=False))
    sys.stdout.flush()
    return EXIT_OK if limit is None else _judge(found, limit)


def _opened(names: Sequence[str]) -> list[tuple[str, Session]]:
    opened = []
    for name in names:
        session, path = open_recording(name)
        opened.append((places.kept_name(path), session))
    return opened


def _judge(found: Comparison, limit: float) -> int:
    if not found.alike and found.a.samples and found.b.samples:  # ratios of different work say nothing of either side
        say("no request of A is like one of B, so nothing can be said: give both sides the same prompts")
        return EXIT_UNDECIDED
    worse = [each for each in found.metrics if each.worse_by is not None and each.worse_by > limit]
    for each in worse:
        say(f"{each.metric.name} is worse by at least {100 * (each.worse_by or 0):.1f} %")
    if worse:
        return EXIT_FAILED
    open_still = [each.metric.name for each in found.metrics if each.metric.name in JUDGED and each.interval is None]
    if open_still:
        say(f"too little data to say: {', '.join(open_still)} (three runs a side are needed)")
        return EXIT_UNDECIDED
    return EXIT_OK
