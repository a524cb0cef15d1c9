"""Where phasetop's files live, how they are named, and which of them are alive.

Every run writes ``<state>/phasetop/live/<session>.phasetop``; one that is kept has a second name in
``<state>/phasetop/recordings``. Folders are 0700, files 0600: a recording holds what somebody asked a model. A lock that is
held tells a live session; a free one without `bye` was cut off.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

SUFFIX: Final = ".phasetop"
UNFINISHED_DAYS: Final = 7
"""A killed run's file stays this long."""

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def state_folder() -> Path:
    """The platform's folder for state, of this program (not made here)."""
    from platformdirs import user_state_path

    folder = user_state_path("phasetop", appauthor=False)
    # Without HOME and a passwd entry it would be a folder called "~" in the current one.
    return folder if folder.is_absolute() else Path(os.devnull) / "phasetop"


def live_folder() -> Path:
    """Where running sessions write."""
    return state_folder() / "live"


def recordings_folder() -> Path:
    """Where kept sessions stay."""
    return state_folder() / "recordings"


def make_private(folder: Path) -> Path:
    """Make a folder that only its owner can read, and the parents that it lacks as usual; it may be there already."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def live_path(session: str) -> Path:
    """The file of a running session."""
    return live_folder() / f"{session}{SUFFIX}"


def recording_stem(model: str | None, when: datetime | None = None) -> str:
    """The usual name of a recording: date and model, with what is no letter, digit, dot or dash made a dash."""
    day = (when or datetime.now()).strftime("%Y-%m-%d")
    return safe_stem(f"{day}-{model}" if model else day)


def safe_stem(name: str) -> str:
    """``name`` as a file name: no separators, no leading dot or dash, at most 120 characters."""
    name = name.removesuffix(SUFFIX)
    return re.sub(r"[^\w.-]|_", "-", name).strip("-.")[:120] or "session"


def numbered(folder: Path, stem: str) -> Iterator[Path]:
    """The paths that a recording may take: ``stem`` in ``folder``, then ``stem-2``, ``stem-3`` and so on."""
    yield folder / f"{stem}{SUFFIX}"
    for i in range(2, 100_000):
        yield folder / f"{stem}-{i}{SUFFIX}"


def is_path(name: str) -> bool:
    """Whether ``--record=NAME`` means a file of the user's own, not a name in the recordings folder."""
    return "/" in name or os.sep in name or name.endswith(SUFFIX)


def find_recording(name: str) -> Path:
    """The file that a person means: a path, ``@last``, ``@2`` (the second newest), or a recording's name.

    Raises:
        FileNotFoundError: there is none; the text says what was looked for.
    """
    if not name.strip() or name == "@0":
        raise FileNotFoundError(f"no recording {name!r}: @last, @2, a name or a file is expected")
    if name == "@last" or re.fullmatch(r"@\d{1,6}", name):
        back = 1 if name == "@last" else max(1, int(name[1:]))
        files = sorted(recordings_folder().glob(f"*{SUFFIX}*"), key=lambda path: path.stat().st_mtime, reverse=True)
        if len(files) < back:
            kept = f"there are {len(files)}" if files else "nothing is kept yet (`--record` keeps a run)"
            raise FileNotFoundError(f"no recording {name}: {kept}")
        return files[back - 1]
    given = Path(name).expanduser()
    if given.is_dir():
        raise FileNotFoundError(f"{name} is a folder: a recording is a file")
    if given.exists():
        return given
    for suffix in ("", SUFFIX, f"{SUFFIX}.gz"):
        kept_file = recordings_folder() / f"{name}{suffix}"
        if "/" not in name and kept_file.is_file():
            return kept_file
    raise FileNotFoundError(f"no recording {name!r}: neither a file nor a name in the recordings folder")


def kept_name(path: Path) -> str:
    """What a recording is called: its name in the recordings folder, the whole path of a file elsewhere."""
    if path.parent != recordings_folder():
        return str(path)
    return path.name.removesuffix(".gz").removesuffix(SUFFIX)


def lock(fd: int) -> bool:
    """Take the lock of a session file for this process's life; False where another holds it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)  # a file system without locks: go on
    return True


def is_live(path: Path) -> bool:
    """Whether a writer holds the file's lock."""
    if fcntl is None:
        return False
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def sweep_unfinished(now: float | None = None) -> list[Path]:
    """Delete what killed runs left over a week ago (session files and their logs); returns what went."""
    limit = (now if now is not None else time.time()) - UNFINISHED_DAYS * 86_400
    gone: list[Path] = []
    folder = live_folder()
    if not folder.is_dir():
        return gone
    for path in folder.iterdir():
        try:
            if path.lstat().st_mtime < limit and not is_live(path):
                path.unlink()
                gone.append(path)
        except OSError:
            continue
    return gone
