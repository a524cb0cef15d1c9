"""`phasetop watch`: find the session that a person means, here or on another machine, and show it as it grows."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from phasetop import far, places, priority, ssh
from phasetop.display import Display, has_terminal
from phasetop.faults import EXIT_FAILED, EXIT_OK, PhasetopError, UsageError
from phasetop.nearby import LiveSession, live_sessions, told_by
from phasetop.output import say, tell
from phasetop.parts import last_part, split_stem, stem_of
from phasetop.ssh import Address
from phasetop.visible import harmless

if TYPE_CHECKING:
    from phasetop.afar import FarSession
    from phasetop.link import Connection
    from phasetop.live import Watched
    from phasetop.piped import Piped

    Source = FarSession | Piped | Watched

LOOK_S: Final = 0.3
FAR_LOOK_S: Final = 2.0
"""While nothing runs, it is looked for so often."""
_PAUSE_S: Final = 0.01
_TELL_S: Final = 1.5
"""Who waits longer for a connection is told so."""


class Wanted(Struct, frozen=True):
    """How to show it.

    Attributes:
        json: None, "" or "compact": print the requests as JSON at the end.
        plain: no view.
        show_thinking: thinking on stdout, too.
        wait: where nothing runs, wait for it.
        display: how the view looks.

    """

    json: str | None = None
    plain: bool = False
    show_thinking: bool = False
    wait: bool = False
    display: Display = Display()

    @property
    def view(self) -> bool:
        """Whether the view is wanted, if there is a terminal for it."""
        return self.json is None and not self.plain


def watch(name: str | None, wanted: Wanted) -> int:
    """Follow a session; returns the exit status: 1 where its last request failed or was cut, or the link is lost for good.

    Raises:
        UsageError: there is none of that name, or several could be meant.
        PhasetopError: it cannot be followed.
    """
    if name == "-":
        return _watch_piped(wanted)
    view = wanted.view and has_terminal()
    if name is not None and (there := far_name(name)) is not None:
        return _watch_far(*there, wanted, view=view)
    priority.step_back(priority.STARTING)  # the run that is watched has this machine's CPU, perhaps
    path = _find(name) if name is not None else _find_here(wanted, view=view)
    from phasetop.live import Watched

    source = Watched(path)
    title = path.stem[:8] if path.parent == places.live_folder() else path.name
    return _show(source, title, wanted, view=view, kept=_kept(path), here=places.is_live(last_part(path)))


def _show(source: Source, title: str, wanted: Wanted, *, view: bool, kept: str | None, here: bool = False) -> int:
    if view:
        from phasetop.live import watch_view

        return watch_view(source, wanted.display, title, here=here)
    from phasetop.watch_plain import follow

    if here:
        priority.step_back(priority.DRAWING)
    return follow(source, kept_as=kept, as_json=wanted.json, show_thinking=wanted.show_thinking)


def _kept(path: Path) -> str | None:
    """What the recording is called; None for a live session that goes at its end."""
    if path.parent == places.live_folder():
        return None
    return places.kept_name(path)


def _find(name: str) -> Path:
    """The file of this machine that is meant."""
    if re.match(r"https?://", name):
        raise UsageError("watch follows phasetop's own sessions: `phasetop run URL` asks a server")
    try:
        return places.find_recording(name)
    except FileNotFoundError as error:
        raise UsageError(str(error)) from None


def _find_here(wanted: Wanted, *, view: bool) -> Path:
    """The session that runs on this machine; of several the one that is chosen."""
    found = live_sessions()
    if not found:
        if not view and not wanted.wait:
            raise PhasetopError("nothing is running on this machine (--wait waits for a run)")
        say("nothing is running on this machine: waiting for a run (ctrl-c ends)")
        while not found:
            time.sleep(LOOK_S)
            found = live_sessions()
    return choose(found, "this machine").path


def choose(found: Sequence[LiveSession], where: str) -> LiveSession:
    """The only one, or the one that is chosen at the terminal.

    Raises:
        UsageError: there are several, and no terminal to choose at.
    """
    if len(found) == 1:
        return found[0]
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        ids = ", ".join(harmless(f"{one.path.stem[:8]} ({one.model or 'no model yet'})", newlines=False) for one in found)
        raise UsageError(f"{len(found)} sessions run on {where}; name one: {ids}")
    from phasetop.offers import ago

    tell(f"{len(found)} sessions run on {where}:")
    for i, one in enumerate(found, 1):
        since = "" if one.began_ns is None else f"for {ago(time.time() - one.began_ns / 1e9, plain=True)}"
        tell(harmless(f"  {i}  {one.model or 'no model yet'}  {since}  {one.path.stem[:8]}", newlines=False))
    while True:
        print("which one? [1] ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise KeyboardInterrupt
        answer = line.strip() or "1"
        if answer.isascii() and answer.isdecimal() and 1 <= int(answer[:6]) <= len(found):
            return found[int(answer[:6]) - 1]


# ---- from stdin


def _watch_piped(wanted: Wanted) -> int:
    """What comes on stdin; the view then takes its keys from the terminal itself."""
    from phasetop.piped import Piped

    if sys.stdin.isatty():
        raise UsageError("stdin is a terminal: `ssh HOST tail -c +1 -f FILE | phasetop watch -`")
    fd, view = 0, False
    if wanted.view and sys.stdout.isatty() and sys.stderr.isatty():
        keyboard = _keyboard()
        if keyboard is not None:
            fd = os.dup(0)
            os.dup2(keyboard, 0)
            os.close(keyboard)
            view = has_terminal()
    return _show(Piped(fd), "stdin", wanted, view=view, kept=None)


def _keyboard() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return None


# ---- from another machine


def far_name(text: str) -> tuple[Address, str | None] | None:
    """``USER@HOST[:FILE]``, ``HOST:FILE`` or ``ssh://[USER@]HOST[:PORT][/FILE]``; None where it means this machine.

    As `scp` reads it: what stands before a colon is a machine unless there is a slash in it. A file that is here is meant.

    Raises:
        UsageError: it holds a password, or is no address.
    """
    if text.startswith("ssh://"):
        host, _, path = text.removeprefix("ssh://").partition("/")
        return ssh.parse_address(host), path or None
    if text.startswith(("@", "http://", "https://")) or os.path.exists(text):
        return None
    match = re.match(r"((?:[^/:\[\]]*@)?(?:\[[^/\]]*\]|[^/:]*))(:(.*))?\Z", text, re.DOTALL)
    if match is None or (match[2] is None and "@" not in match[1]):
        return None
    host, rest = match[1], match[3] or None
    if rest is not None and "@" in rest[1:] and "/" not in rest and "@" not in host:
        raise UsageError("an ssh address holds no password: ssh has its keys and its agent")
    address = ssh.parse_address(host)
    if rest is not None and rest.isdecimal():
        raise UsageError(f"a port is written in a URL: ssh://{host}:{rest[:5]}")
    return address, rest


def _watch_far(address: Address, name: str | None, wanted: Wanted, *, view: bool) -> int:
    from phasetop.afar import FarSession

    source: FarSession | None = None
    link = _connect(address)
    try:
        if name is None:
            name = _find_there(link, wanted, view=view)
        source = FarSession(address, os.fsencode(name), link)
        while source.live and source.session.hello is None:  # so that what is wrong is said before the view opens
            source.poll()
            time.sleep(_PAUSE_S)
        short = re.split(r"[/\\]", name)[-1]
        title = str(address) if stem_of(short) == _id(source) else f"{address}:{short}"
        status = _show(source, title, wanted, view=view, kept=None)
    finally:
        (source or link).close()
    if source.lost is not None:
        say(f"the link to {address} is lost: {source.lost}")
        return status if status != EXIT_OK else EXIT_FAILED
    return status


def _id(source: FarSession) -> str | None:
    return source.session.hello.session if source.session.hello is not None else None


def _connect(address: Address) -> Connection:
    """A connection whose far side is ready. Raises `PhasetopError`."""
    from phasetop.link import Connection

    link = Connection(address)
    began, told = time.monotonic(), False
    try:
        while not link.ready:
            link.read()
            if link.failure is not None:
                raise PhasetopError(link.failure.text)
            if not told and time.monotonic() - began > _TELL_S:
                say(f"connecting to {address} …")
                told = True
            time.sleep(_PAUSE_S)
    except BaseException:
        link.close()
        raise
    return link


def _find_there(link: Connection, wanted: Wanted, *, view: bool) -> str:
    """The id of the session that runs on the far machine; of several the one that is chosen."""
    told = False
    while True:
        heads: dict[str, bytes] = {}
        for name, head in _listed(link):
            heads.setdefault(split_stem(stem_of(name))[0], head)  # of a session in parts the newest's, which comes first
        found = [one for session, head in heads.items() if (one := told_by(Path(session), head)) is not None]
        if found:
            return choose(found, str(link.address)).path.name
        if not view and not wanted.wait:
            raise PhasetopError(f"nothing is running on {link.address} (--wait waits for a run)")
        if not told:
            say(f"nothing is running on {link.address}: waiting for a run (ctrl-c ends)")
            told = True
        time.sleep(FAR_LOOK_S)


def _listed(link: Connection) -> tuple[tuple[str, bytes], ...]:
    link.send(far.list_line())
    while True:
        for said in link.read():
            if isinstance(said, far.Listed):
                return said.sessions
        if link.failure is not None:
            raise PhasetopError(link.failure.text)
        time.sleep(_PAUSE_S)
