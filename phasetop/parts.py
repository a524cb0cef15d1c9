"""The names of a session's files: a long one goes on in further parts (`run --rotate`), which lie beside the first.

``NAME.phasetop``, then ``NAME.part2.phasetop``, ``NAME.part3.phasetop`` and so on; any of them may be compressed (``.gz``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SUFFIX: Final = ".phasetop"
ZIPPED: Final = ".gz"

_PART: Final = re.compile(r"(.+)\.part([1-9]\d{0,5})")


def stem_of(name: str) -> str:
    """A recording file's name without its endings: ``a.part2.phasetop.gz`` is ``a.part2``."""
    return name.removesuffix(ZIPPED).removesuffix(SUFFIX)


def suffixes_of(name: str) -> str:
    """A recording file's endings: ``.phasetop`` or ``.phasetop.gz`` (the first where it has neither)."""
    return name[len(stem_of(name)) :] or SUFFIX


def split_stem(stem: str) -> tuple[str, int]:
    """(name of the session, part): ``a.part2`` is (``a``, 2), ``a`` is (``a``, 1)."""
    found = _PART.fullmatch(stem)
    return (found[1], int(found[2])) if found is not None and int(found[2]) > 1 else (stem, 1)


def part_name(name: str, part: int) -> str:
    """The stem of a part of the session called ``name``."""
    return name if part <= 1 else f"{name}.part{part}"


def part_beside(path: Path, part: int) -> Path:
    """The path of another part of the session whose file is ``path``, uncompressed."""
    return path.with_name(part_name(split_stem(stem_of(path.name))[0], part) + SUFFIX)


def next_part(path: Path) -> Path | None:
    """The file of the part after this one; None where there is none."""
    part = split_stem(stem_of(path.name))[1]
    plain = part_beside(path, part + 1)
    return next((each for each in (plain, Path(f"{plain}{ZIPPED}")) if each.is_file()), None)


def last_part(path: Path) -> Path:
    """The file of the newest part of the session of ``path``: ``path`` itself where no part follows it."""
    while (following := next_part(path)) is not None:
        path = following
    return path


def is_of(target: Path, path: Path) -> bool:
    """Whether ``target`` is a file of the session of ``path``, by whatever name. Raises `OSError`."""
    if not target.exists():
        return False
    here: Path | None = path
    while here is not None:
        if target.samefile(here):
            return True
        here = next_part(here)
    return False


def group(paths: list[Path]) -> list[list[Path]]:
    """The files of each session together, its parts in order, sessions in the order of their first mention."""
    found: dict[tuple[Path, str], list[tuple[int, str, Path]]] = {}
    for path in paths:
        name, part = split_stem(stem_of(path.name))
        found.setdefault((path.parent, name), []).append((part, path.name, path))
    return [[path for _, _, path in sorted(parts)] for parts in found.values()]
