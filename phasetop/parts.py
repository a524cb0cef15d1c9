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


def number_of(path: Path) -> int:
    """Which part of its session a file is, by its name."""
    return split_stem(stem_of(path.name))[1]


def beside(path: Path, part: int) -> Path | None:
    """The file of a part of the session of ``path``, packed or not; None where there is none."""
    plain = part_beside(path, part)
    return next((each for each in (plain, Path(f"{plain}{ZIPPED}")) if each.is_file()), None)


def next_part(path: Path) -> Path | None:
    """The file of the part after this one; None where there is none."""
    return beside(path, number_of(path) + 1)


def last_part(path: Path) -> Path:
    """The file of the newest part of the session of ``path``: ``path`` itself where no part follows it."""
    while (following := next_part(path)) is not None:
        path = following
    return path


def files_of(path: Path) -> list[Path]:
    """The session's files: ``path``, and what lies beside it as that part or a further one; packed or not, in order."""
    name, first = split_stem(stem_of(path.name))
    try:
        there = [each for each in path.parent.iterdir() if each.name.endswith((SUFFIX, SUFFIX + ZIPPED))]
    except OSError:
        there = []
    further = [each for each in there if split_stem(stem_of(each.name))[0] == name and number_of(each) >= first]
    return sorted({path, *(each for each in further if each.is_file())}, key=lambda each: (number_of(each), each.name))


def is_of(target: Path, path: Path) -> bool:
    """Whether ``target`` is a file of the session of ``path``, by whatever name. Raises `OSError`."""
    return target.exists() and any(target.samefile(each) for each in files_of(path))


def group(paths: list[Path]) -> list[list[Path]]:
    """The files of each session together, its parts in order, sessions in the order of their first mention."""
    found: dict[tuple[Path, str], list[tuple[int, str, Path]]] = {}
    for path in paths:
        name, part = split_stem(stem_of(path.name))
        found.setdefault((path.parent, name), []).append((part, path.name, path))
    return [[path for _, _, path in sorted(parts)] for parts in found.values()]
