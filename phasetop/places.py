"""Where phasetop's files live, how they are named, and which of them are alive.

Every run writes ``<state>/phasetop/live/<session>.phasetop``; one that is kept has a second name in
``<state>/phasetop/recordings``. Folders are 0700, files 0600: a recording holds what somebody asked a model. A lock that is
held tells a live session; a free one without `bye` was cut off.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from phasetop import parts
from phasetop.parts import SUFFIX, ZIPPED, part_beside

if TYPE_CHECKING:
    from phasetop.events import Part

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


def unnamed_file() -> IO[bytes]:
    """A file that is gone with the process, among phasetop's own: /tmp is often memory beside a model. Raises `OSError`."""
    import tempfile

    folder: Path | None = live_folder()
    try:
        make_private(live_folder())
    except OSError:
        folder = None
    return tempfile.TemporaryFile(dir=folder, buffering=0)


def live_path(session: str) -> Path:
    """The file of a running session."""
    return live_folder() / f"{session}{SUFFIX}"


def recording_stem(model: str | None, when: datetime | None = None) -> str:
    """The usual name of a recording: date and model, with what is no letter, digit, dot or dash made a dash."""
    day = (when or datetime.now()).strftime("%Y-%m-%d")
    return safe_stem(f"{day}-{model}" if model else day)


def safe_stem(name: str) -> str:
    """``name`` as a file name: no separators, no leading dot or dash, at most 120 characters."""
    name = parts.stem_of(name)
    return re.sub(r"[^\w.-]|_", "-", name).strip("-.")[:120] or "session"


def numbered(folder: Path, stem: str) -> Iterator[Path]:
    """The paths that a recording may take: ``stem`` in ``folder``, then ``stem-2``, ``stem-3`` and so on."""
    yield folder / f"{stem}{SUFFIX}"
    for i in range(2, 100_000):
        yield folder / f"{stem}-{i}{SUFFIX}"


def is_path(name: str) -> bool:
    """Whether ``--record=NAME`` means a file of the user's own, not a name in the recordings folder."""
    return "/" in name or os.sep in name or name.removesuffix(ZIPPED).endswith(SUFFIX)


def kept_files() -> list[list[Path]]:
    """The files of each kept session, its parts in order; the session that was written last comes first."""
    dated: list[tuple[float, Path]] = []
    try:
        with os.scandir(recordings_folder()) as entries:
            for entry in entries:
                ours = entry.name.removesuffix(ZIPPED).endswith(SUFFIX) and not entry.name.startswith(".")
                if ours and entry.is_file():
                    try:
                        dated.append((entry.stat().st_mtime, Path(entry.path)))
                    except OSError:
                        continue
    except OSError:
        return []
    return parts.group([path for _, path in sorted(dated, reverse=True)])


def live_files() -> list[list[Path]]:
    """The files of each session in the live folder, running or cut off, its parts in order, newest first."""
    dated: list[tuple[float, Path]] = []
    try:
        for path in live_folder().iterdir():
            if path.name.endswith((SUFFIX, SUFFIX + ZIPPED)):
                try:
                    state = path.stat()
                except OSError:  # a link whose file is gone
                    continue
                if stat.S_ISREG(state.st_mode):  # a FIFO would be waited for
                    dated.append((state.st_mtime, path))
    except OSError:
        return []
    return parts.group([path for _, path in sorted(dated, reverse=True)])


def find_recording(name: str) -> Path:
    """The file that a person means: a path, ``@last``, ``@2`` (the second newest), a recording's name, a session's id.

    Of a session in several parts the first. An id may be cut short where no other begins so: it means a session of the
    live folder, one that runs or was cut off.

    Raises:
        FileNotFoundError: there is none; the text says what was looked for.
    """
    if not name.strip() or name == "@0":
        raise FileNotFoundError(f"no recording {name!r}: @last, @2, a name or a file is expected")
    if name == "@last" or re.fullmatch(r"@\d{1,6}", name):
        back = 1 if name == "@last" else max(1, int(name[1:]))
        files = kept_files()
        if len(files) < back:
            kept = f"there are {len(files)}" if files else "nothing is kept yet (`--record` keeps a run)"
            raise FileNotFoundError(f"no recording {name}: {kept}")
        return files[back - 1][0]
    given = Path(name).expanduser()
    is_file, is_folder = _kind(given)
    found = given if is_file else _by_name(name) if "/" not in name else None
    if found is not None:
        if not found.is_file():  # it would be read for ever, or waited for
            raise FileNotFoundError(f"{name} is a pipe or a device: a recording is a file (`phasetop watch -` reads stdin)")
        return found
    if is_folder:
        raise FileNotFoundError(f"{name} is a folder: a recording is a file")
    raise FileNotFoundError(
        f"no recording {name!r}: {_nearest(name) or 'neither a file nor a name in the recordings folder'}"
    )


def _nearest(name: str) -> str | None:
    """Which recording was probably meant."""
    from difflib import get_close_matches

    known = ["@last", *(parts.split_stem(parts.stem_of(files[0].name))[0] for files in kept_files())]
    close = get_close_matches(name, known, 1, 0.7)
    return f"is {close[0]} meant?" if close else None


def _kind(path: Path) -> tuple[bool, bool]:
    """(there is something to open, it is a folder); a name that no file can have is neither."""
    try:
        is_folder = path.is_dir()
        return path.exists() and not is_folder, is_folder
    except OSError:
        return False, False


def _by_name(name: str) -> Path | None:
    """A recording of this name, else the session of the live folder whose id begins so."""
    for suffix in ("", SUFFIX, f"{SUFFIX}{ZIPPED}"):
        kept = recordings_folder() / f"{name}{suffix}"
        if _kind(kept)[0]:
            return kept
    for files in kept_files():  # whose first parts are gone
        if parts.split_stem(parts.stem_of(files[0].name))[0] == name:
            return files[0]
    if not re.fullmatch(r"[0-9a-f-]{4,36}", name):
        return None
    begun = [files[0] for files in live_files() if files[0].name.startswith(name)]
    if len(begun) > 1:
        raise FileNotFoundError(f"no recording {name!r}: {len(begun)} sessions of the live folder begin so")
    return begun[0] if begun else None


def find_part(path: Path, part: Part, session: str | None = None) -> Path | None:
    """The file in which the session of ``path`` goes on, by the line that says so; None where there is none (yet).

    It lies beside the file, or beside what that is a link to; where the file is a second name that the new part has not
    got yet, in the live folder; where the run is over meanwhile, among the recordings, known by the id ``session``. The
    name in the line is the writer's, and is taken for a name alone.
    """
    name = Path(part.file or "").name
    stems = [part_beside(path, part.part), part_beside(path.resolve(), part.part)]
    if name.endswith(SUFFIX):
        stems += [path.with_name(name), path.resolve().with_name(name), live_folder() / name]
    names = (each for stem in stems for each in (stem, Path(f"{stem}{ZIPPED}")))
    found = next((each for each in names if _kind(each)[0]), None)
    return found or (None if session is None else _kept_part(part.part, session))


def _kept_part(part: int, session: str) -> Path | None:
    """The recording's file that is this part of the session with this id."""
    word = f'"session":"{session}"'.encode()
    for path in (path for files in kept_files() for path in files):
        if parts.number_of(path) == part and word in _begins(path):
            return path
    return None


def _begins(path: Path) -> bytes:
    """The beginning of a recording's first line, packed or not; empty where there is none."""
    from phasetop.faults import FormatError
    from phasetop.unzipped import BROKEN, Unzipped, is_zipped

    try:
        with path.open("rb") as file:
            head = Unzipped(file).read(1 << 12) if is_zipped(file) else file.read(1 << 12)
    except (OSError, FormatError, *BROKEN):
        return b""
    return head.partition(b"\n")[0]


def kept_name(path: Path) -> str:
    """What a recording is called: its name in the recordings folder, the whole path of a file elsewhere."""
    if path.parent != recordings_folder():
        return str(path)
    return parts.split_stem(parts.stem_of(path.name))[0]


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
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a FIFO is not waited for
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


def _session_of(path: Path) -> str:
    """The id of the session to which a file of the live folder belongs."""
    return parts.split_stem(parts.stem_of(path.name.removesuffix(".log")))[0]


def sweep_unfinished(now: float | None = None) -> list[Path]:
    """Delete what killed runs left over a week ago (session files, their logs, half-packed files); returns what went.

    Of a session that runs nothing goes: the parts that it has written whole, and its log, are locked by nobody.
    """
    limit = (now if now is not None else time.time()) - UNFINISHED_DAYS * 86_400
    gone: list[Path] = []
    running = {_session_of(files[0]) for files in live_files() if any(is_live(path) for path in files)}
    for path in (*live_folder().glob("*"), *recordings_folder().glob(f".*{SUFFIX}.[0-9]*")):
        try:
            if path.lstat().st_mtime < limit and _session_of(path) not in running and not is_live(path):
                path.unlink()
                gone.append(path)
        except OSError:
            continue
    return gone
