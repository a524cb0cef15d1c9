"""The file that a session of one's own is written to: where it lies, what it is called, what becomes of it at the end."""

from __future__ import annotations

from pathlib import Path

from phasetop import keeping, places
from phasetop.faults import PhasetopError
from phasetop.parts import SUFFIX, ZIPPED
from phasetop.session import Session


class SessionFile:
    """In the live folder, with a second name where it is kept; or from the start under a path of the user's own.

    Args:
        session_id: what the live folder calls it.
        record: a path of the user's own; None: the live folder. One that ends in ``.gz`` is compressed at the end.
        keep_as: the name that it is given as soon as there is one ("": the usual one); None: it goes at the end, unless
            `keep` says otherwise. One that ends in ``.gz`` is compressed at the end.

    Attributes:
        path: where it is written now; None: nowhere, and ``no_file`` says why.
        log: where the collector's words go; None: nowhere.
        link: the name in the live folder of a file that lies elsewhere.
        kept: its name that stays; None while it would go.
        not_kept: why, where keeping was asked for.
        not_zipped: why, where ``.gz`` was asked for.

    Raises:
        PhasetopError: the given file exists, or its folder does not.
    """

    def __init__(self, session_id: str, record: Path | None, keep_as: str | None) -> None:
        self.path: Path | None = places.live_path(session_id)
        self.log: Path | None = self.path.with_suffix(".log")
        self.link: Path | None = None
        self.kept: Path | None = None
        self.no_file: str | None = None
        self.not_kept: str | None = None
        self.not_zipped: str | None = None
        self._id = session_id
        self._zip = any(str(name).endswith(ZIPPED) for name in (record, keep_as) if name is not None)
        self._keep_as = None if keep_as is None else keep_as.removesuffix(ZIPPED)
        if record is not None and self._zip:
            record = record.with_name(record.name.removesuffix(ZIPPED))
        self._prepare(record)

    def _prepare(self, record: Path | None) -> None:
        """Make the folders; without a state folder the session lives in the pipe alone, and says so."""
        assert self.path is not None
        try:
            places.make_private(self.path.parent)
        except OSError as error:
            self.log = None
            self.no_file = f"{self.path.parent}: {(error.strerror or str(error)).lower()}"
            if record is None:
                self.path = None
        if record is None:
            return
        record = record.expanduser().absolute()
        try:
            zipped = record.with_name(f"{record.name}{ZIPPED}")
            taken = _is_taken(record) or (self._zip and _is_taken(zipped))
            has_folder = record.parent.is_dir()
            others = keeping.part_names(record) if has_folder else []
        except OSError as error:  # a name that no file can have
            raise PhasetopError(f"cannot write {record}: {(error.strerror or str(error)).lower()}") from None
        if taken:
            raise PhasetopError(f"{record} exists: choose another name, or remove it")
        if not has_folder:
            raise PhasetopError(f"{record.parent} is no folder: make it first")
        if others:  # whoever reads this session would take it for its part, and no further part could be begun
            raise PhasetopError(f"{others[0]} exists, a part of another session of that name: choose another, or remove it")
        self.link, self.path, self.kept = self.path, record, record
        try:
            if self.link is not None:
                self.link.symlink_to(record)
        except OSError:
            self.link = None

    def keep(self, name: str | None, model: str | None) -> Path:
        """Give it a second name in the recordings folder (or, where links fail, move it there).

        Raises:
            PhasetopError: there is no file, or it cannot be linked.
        """
        if self.kept is not None:
            return self.kept
        if self.path is None or not self._has_lines():
            raise PhasetopError(f"this session has no file ({self.no_file or 'it could not be written'})")
        stem = places.safe_stem(name) if name else places.recording_stem(model)
        try:
            self.kept, self.path = keeping.keep(self.path, stem)
        except OSError as error:
            raise PhasetopError(f"cannot keep the session: {error.strerror or error}") from error
        return self.kept

    def keep_when_named(self, model: str | None) -> bool:
        """Keep one that is to be kept as soon as its name is known: then even a kill leaves it kept. True where it did."""
        if self._keep_as is None or self.kept is not None or not (self._keep_as or model) or not self._has_lines():
            return False
        try:
            self.keep(self._keep_as or None, model)
        except PhasetopError:
            return False  # at the end once more, which says why
        return True

    @property
    def kept_as(self) -> str | None:
        """What the kept recording is called: its name, or its path where it lies outside the recordings folder."""
        return None if self.kept is None else places.kept_name(self.kept)

    def _has_lines(self) -> bool:
        """Whether there is a file worth a name; one that a full disk cut short is."""
        try:
            return self.path is not None and any(part.stat().st_size for part in keeping.parts_of(self.path))
        except OSError:
            return False

    def settle(self, session: Session, model: str | None) -> None:
        """Nothing is written any more: it is kept or goes, and of a killed run stays where it is."""
        if self._keep_as is not None and self.kept is None:
            try:
                self.keep(self._keep_as or None, model)
            except PhasetopError as error:
                self.not_kept = str(error)
        elif self.kept is not None and not self._has_lines():
            told = (notice.text for notice in session.notices.items if notice.code == "not-recorded")
            self.kept, self.not_kept = None, next(told, "it could not be written")
        if self.kept is not None:
            self.kept = keeping.first_of(self.kept)
        complete = session.bye is not None and session.bye.reason in ("done", "stopped")
        if self.link is not None:
            for path in [self.link, *self.link.parent.glob(f"{self._id}.part*{SUFFIX}")]:
                path.unlink(missing_ok=True)
        elif self.path is not None and self.path != self.kept and (complete or self.kept is not None):
            try:
                keeping.leave_live_folder(self.path, self.kept)
            except OSError as error:
                self.not_kept = f"part of it stays in {self.path.parent}: {(error.strerror or str(error)).lower()}"
        if self.kept is not None and self._zip:
            try:
                self.kept = keeping.compress_parts(self.kept)
            except OSError as error:
                self.not_zipped = f"the recording is not compressed: {(error.strerror or str(error)).lower()}"
        if self.log is not None and (complete or _is_empty(self.log)):
            self.log.unlink(missing_ok=True)


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except OSError:
        return False


def _is_taken(path: Path) -> bool:
    """Whether something has that name. Raises `OSError` for one that no file can have: later Pythons' `exists` does not."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
