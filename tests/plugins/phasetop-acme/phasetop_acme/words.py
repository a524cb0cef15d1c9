"""A format of `phasetop export`: each word with the ms that it took after the one before."""

from __future__ import annotations

from collections.abc import Iterator

from phasetop.export import Exported


def write(exported: Exported) -> Iterator[str]:
    """What the entry point names: a function that yields text."""
    for run in exported.runs:
        tokens = run.tokens
        for text, gap in zip(tokens.text, tokens.gap_ns, strict=True):
            yield f"{str(text).strip()}\t{'' if gap < 0 else f'{gap / 1e6:.1f}'}\n"
