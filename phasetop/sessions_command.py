"""`phasetop sessions`: the recordings listed, shown, renamed, removed, and summed up."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from phasetop import codec, places
from phasetop.catalogue_index import Index, shape_of
from phasetop.faults import EXIT_FAILED, EXIT_OK, FormatError, PhasetopError, UsageError
from phasetop.output import print_json, print_utf8, say, tell
from phasetop.parts import part_name, split_stem, stem_of, suffixes_of
from phasetop.sessions_list import Listed, listed, names_in_live_folder, sessions


def list_sessions(as_json: str | None) -> int:
    """Print the sessions that are kept, run, or were cut off; returns the exit status."""
    index = Index()
    found, bad = sessions(index)
    index.save()
    if as_json is not None:
        rows = [one.json() for one in found]
        whys = {"model": "no request named one", "started": "the clock in it cannot be"}
        unknown = {f"sessions.{key}": why for key, why in whys.items() if any(row[key] is None for row in rows)}
        unreadable = [{"file": str(one.file), "why": one.why} for one in bad]
        _print_json({"sessions": rows, "unreadable": unreadable, "unknown": unknown}, as_json)
        return EXIT_OK
    from phasetop.sessions_text import table

    if found:
        print_utf8("\n".join(table(found, _width())))
    else:
        tell("nothing is kept yet: `phasetop run --record` keeps a run, `s` in the view does, too")
    for one in bad:
        say(f"{one.file.name}: {one.why}")
    return EXIT_OK


def show(name: str, as_json: str | None) -> int:
    """Print what a session holds; returns the exit status.

    Raises:
        UsageError: there is none of that name.
        PhasetopError: it cannot be read.
    """
    from phasetop import report
    from phasetop.opening import open_recording

    session, path = open_recording(name)
    one = _listed(path, name)
    runs = [run for run in session.runs.values() if run.info.at() is not None]
    if as_json is not None:
        kept = one.name if one.kept else None
        requests = [report.request_object(session, run, kept_as=kept) for run in runs]
        unknown = {} if one.row.models else {"session.model": "no request named one"}
        _print_json({"session": one.json(), "requests": requests, "unknown": unknown}, as_json)
        return EXIT_OK
    from phasetop.sessions_show import contents

    print_utf8("\n".join(contents(one, session, _width())))
    return EXIT_OK


def rename(old: str, new: str) -> int:
    """Give a recording another name; one of the live folder that was cut off is kept by it. Returns the exit status.

    Raises:
        UsageError: there is none, it lies elsewhere, or the new name is none.
        PhasetopError: it is running, the name is taken, or it cannot be renamed.
    """
    one = _own(old)
    if one.live:
        raise PhasetopError(f"{one.name} is running: it can be renamed when it has ended")
    if one.elsewhere and not one.kept:
        raise UsageError(f"{one.name} is a file of your own, {one.elsewhere[0]}: use mv")
    if not new.strip() or new.startswith("@"):
        raise UsageError(f"{new!r} is no name for a recording")
    name = places.safe_stem(new)
    if split_stem(name)[1] != 1:
        raise UsageError(f"{name}: a name that ends so belongs to a part of a session")
    folder = places.recordings_folder()
    taken = [files[0] for files in places.kept_files() if split_stem(stem_of(files[0].name))[0] == name]
    if taken:
        raise PhasetopError(f"{name} exists: choose another name, or remove it first")
    try:
        places.make_private(folder)
        for path in one.files:
            target = folder / f"{part_name(name, split_stem(stem_of(path.name))[1])}{suffixes_of(path.name)}"
            path.rename(target)
    except OSError as error:
        raise PhasetopError(f"cannot rename {one.name}: {(error.strerror or str(error)).lower()}") from None
    if not one.kept:
        _log_of(one.files[0]).unlink(missing_ok=True)
    say(f"{one.name} is now {name}")
    return EXIT_OK


def remove(names: Sequence[str], *, yes: bool) -> int:
    """Remove recordings for ever, after asking at a terminal; returns the exit status. None goes where one cannot.

    Of one that lies elsewhere (a run with ``--record=PATH`` that was killed) the name goes, and its file stays.

    Raises:
        UsageError: there is one of no such name, one lies elsewhere, or nobody can be asked.
        PhasetopError: one is running, or cannot be removed.
    """
    chosen = {one.files: one for one in map(_own, names)}.values()
    running = [one.name for one in chosen if one.live]
    if running:
        raise PhasetopError(f"{', '.join(running)}: running, so nothing is removed")
    if not yes:
        if not (sys.stdin is not None and sys.stdin.isatty()):
            raise UsageError("nobody is there to be asked: --yes removes without a question")
        from phasetop.sessions_text import in_short

        for one in chosen:
            tell(in_short(one) + (f"; its file is yours and stays: {_where(one)}" if one.elsewhere else ""))
        them = "it" if len(chosen) == 1 else f"these {len(chosen)}"
        how = f"take {them} off the list?" if all(one.elsewhere for one in chosen) else f"remove {them} for ever?"
        print(f"{how} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            say("nothing is removed")
            return EXIT_FAILED
    for one in chosen:
        stays = f"{one.name} is off the list; its file is yours and stays: {_where(one)}" if one.elsewhere else None
        try:
            left = names_in_live_folder(one.files)  # what is removed must not be there under another name
            for path in (*one.files, *left):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise PhasetopError(f"cannot remove {one.name}: {(error.strerror or str(error)).lower()}") from None
        for path in left if one.kept else one.files[:1]:
            _log_of(path).unlink(missing_ok=True)
        say(stays or f"removed {one.name}")
    return EXIT_OK


def _where(one: Listed) -> str:
    """Where its files lie that are not removed with its name."""
    first, *more = one.elsewhere
    return str(first) + (f" and {len(more)} further part{'' if len(more) == 1 else 's'}" if more else "")


def totals(by: str, as_json: str | None) -> int:
    """Print the sums over all sessions by model or day; returns the exit status."""
    from phasetop.sessions_text import totals_table
    from phasetop.totals import SUMMED, By, sums

    which: By = "day" if by == "day" else "model"
    index = Index()
    found, bad = sessions(index)
    requests = list(_spent(found, index))
    index.save()
    rows = sums(requests, which)
    if as_json is not None:
        names = ("key", "requests", *SUMMED, "wall_s", "missing")
        told = [{name: getattr(row, name) for name in names} for row in rows]
        unknown = {
            f"rows.{name}": "none of these requests tells it" for name in SUMMED if any(r[name] is None for r in told)
        }
        if any(row.key is None for row in rows):
            unknown["rows.key"] = f"these requests tell no {which}"
        _print_json({"by": which, "rows": told, "unknown": unknown}, as_json)
        return EXIT_OK
    if rows:
        print_utf8("\n".join(totals_table(which, rows, _width())))
    else:
        tell("no request is kept yet")
    for one in bad:
        say(f"{one.file.name}: {one.why}")
    return EXIT_OK


def _spent(found: Sequence[Listed], index: Index) -> Iterator[Any]:
    """What the requests took: of finished sessions from the index where it has them. A copy of a session counts once."""
    from phasetop.recording import load
    from phasetop.totals import Spent, spent

    shape = f"{shape_of(Spent)} {time.tzname}"  # a day is one of this time zone
    newest = {one.row.session: one for one in sorted(found, key=lambda one: one.bytes)}
    progress = sys.stderr is not None and sys.stderr.isatty()
    for i, one in enumerate(newest.values(), 1):
        files = list(one.files)
        rows = index.totals(files, shape)
        if rows is None:
            if progress:
                print(f"\rreading {i} of {len(newest)}", end="", file=sys.stderr, flush=True)
            try:
                rows = [msgspec.structs.astuple(each) for each in spent(load(files[0]))]
            except (OSError, FormatError) as error:
                say(f"{one.name}: {error}")
                continue
            if not one.live:
                index.keep_totals(files, rows, shape)
        yield from (Spent(*row) for row in rows)
    if progress:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _own(name: str) -> Listed:
    """A session of the recordings or the live folder, by its name."""
    try:
        path = places.find_recording(name)
    except FileNotFoundError as error:
        raise UsageError(str(error)) from None
    if path.parent not in (places.recordings_folder(), places.live_folder()):
        raise UsageError(f"{name} is a file of your own, outside the recordings: use mv or rm")
    return _listed(path, name)


def _listed(path: Path, name: str) -> Listed:
    index = Index()
    try:
        return listed(path, index)
    except FormatError as error:
        raise PhasetopError(f"{name}: {error}; the file is {path}") from None
    except OSError as error:
        raise PhasetopError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _log_of(path: Path) -> Path:
    """The log of the collector that wrote a file of the live folder."""
    return path.with_name(f"{split_stem(stem_of(path.name))[0]}.log")


def _width() -> int:
    """Columns to fit: the terminal's, else 80."""
    return max(40, shutil.get_terminal_size((80, 24)).columns) if sys.stdout is not None and sys.stdout.isatty() else 80


def _print_json(value: Any, as_json: str) -> None:
    print_json(codec.valid(value), as_json)
