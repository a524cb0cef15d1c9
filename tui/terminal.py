"""What the terminal can do, found out before the app takes it over.

The ground's colour is asked for with OSC 11; a request for the device's attributes behind it (DA1), which every terminal
answers, tells when no answer will come, so nothing arrives late and is typed into the shell.
"""

from __future__ import annotations

import os
import re
import select
import termios
import time
import tty
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from phasetop.tui.theme import ROLES, Depth, Look, Theme

_ANSWER: Final = re.compile(rb"\x1b\]11;rgb:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
_ATTRIBUTES: Final = re.compile(rb"\x1b\[\?[0-9;]*c")
_SYNC: Final = re.compile(rb"\x1b\[\?2026;([0-4])\$y")
_LOCAL_S: Final = 0.5
_REMOTE_S: Final = 1.0
_LATE_S: Final = 2.0
"""Who has not answered so long after the question, will not."""
SAFE_CONTRAST: Final = 4.5
"""The terminal's own ground is kept where the faintest text has at least this contrast on it."""
_MODES_OFF: Final = "".join(f"\x1b[?{mode}l" for mode in (1000, 1002, 1003, 1006, 1015, 1016, 2004, 1004, 2048))
RESET: Final = _MODES_OFF + "\x1b[<u\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"
"""All modes that the app may have set, undone: for when it cannot do so itself."""

Rgb = tuple[float, float, float]


def depth_of(environ: Mapping[str, str]) -> Depth:
    """The colours to use: none where NO_COLOR is set, else by COLORTERM and TERM; over SSH at most 256, for the bytes."""
    if environ.get("NO_COLOR"):
        return "none"
    term = environ.get("TERM", "")
    many = environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit")
    if many or term.endswith(("-direct", "-truecolor")) or "kitty" in term:
        return "256" if is_remote(environ) else "truecolor"
    return "256" if "256color" in term else "16"


def is_remote(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is at the other end of an SSH link."""
    return any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))


def speaks_utf8(environ: Mapping[str, str]) -> bool:
    """Whether the locale says UTF-8; an unset locale is taken for one, as terminals are."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    name = locale.lower().replace("-", "")
    return not name or "utf8" in name or name in ("c", "posix")


def theme_by_environment(environ: Mapping[str, str]) -> Theme:
    """Dark or light by COLORFGBG (its last number is the ground), else dark."""
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if last in ("7", "15") else "dark"


def luminance(rgb: Rgb) -> float:
    """Relative luminance (WCAG 2) of a colour given as shares from 0 to 1."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: Rgb, other: Rgb) -> float:
    """The contrast (WCAG 2) of two colours, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def rgb_of(colour: str) -> Rgb:
    """``#rrggbb`` as shares."""
    return (int(colour[1:3], 16) / 255, int(colour[3:5], 16) / 255, int(colour[5:7], 16) / 255)


def look_for(
    environ: Mapping[str, str],
    ground: Rgb | None,
    *,
    theme: Theme | None = None,
    ascii_only: bool | None = None,
    depth: Depth | None = None,
) -> Look:
    """The look for a terminal whose ground is ``ground`` (None: it did not say).

    The ground stays the terminal's own where it is known, is of the wanted theme and leaves the faintest text readable.
    """
    depth = depth or depth_of(environ)
    if ascii_only is None:
        ascii_only = not speaks_utf8(environ)
    if ground is None:
        return Look(theme or theme_by_environment(environ), depth, painted=True, ascii=ascii_only)
    own: Theme = "light" if luminance(ground) > 0.18 else "dark"
    chosen = theme or own
    faint = ROLES["faint"]
    safe = chosen == own and contrast(rgb_of(faint.light if chosen == "light" else faint.dark), ground) >= SAFE_CONTRAST
    return Look(chosen, depth, painted=not safe, ascii=ascii_only)


def parse_ground(answer: bytes) -> Rgb | None:
    """The colour in an answer to OSC 11; None where there is none."""
    match = _ANSWER.search(answer)
    if match is None:
        return None
    r, g, b = (int(part, 16) / (16 ** len(part) - 1) for part in match.groups())
    return (r, g, b)


class Answer(Struct, frozen=True):
    """What a terminal said of itself: its ground, if it tells, and whether it answers questions at all.

    ``owed_until``: where it was asked and has not answered, until when (`time.monotonic`) an answer may still come.
    ``sync``: whether it has synchronized output (mode 2026); None: it was not asked.
    """

    ground: Rgb | None = None
    answers: bool = False
    sync: bool | None = None
    owed_until: float | None = None
    fd: int = -1

    def drain(self) -> None:
        """Wait for what is owed, without echo, and drop it: after the program it would be typed into the shell."""
        if self.owed_until is None or time.monotonic() >= self.owed_until:
            return
        try:
            before = termios.tcgetattr(self.fd)
            try:
                tty.setcbreak(self.fd, termios.TCSANOW)
                _read_until_attributes(self.fd, self.owed_until)
            finally:
                termios.tcsetattr(self.fd, termios.TCSAFLUSH, before)
        except (OSError, termios.error):
            pass


class Facts(Struct, frozen=True):
    """What was found of a terminal.

    Attributes:
        columns, rows: its size; 0: not told.
        told: what it answered.
        look: the colours and characters that are used.
        mouse: the mouse is taken.
        environ: the environment, of which only the presence and the well-known names of variables are told.

    """

    columns: int
    rows: int
    told: Answer
    look: Look
    mouse: bool
    environ: Mapping[str, str]


def ask_terminal(fd_in: int, fd_out: int, environ: Mapping[str, str], *, sync: bool = False) -> Answer:
    """Ask the terminal for its ground, and for ``sync`` (mode 2026); not where that is unsafe (dumb, GNU screen).

    Textual asks for the mode itself, so the view does not; Apple's terminal prints that question.
    """
    term = environ.get("TERM", "")
    if term in ("", "dumb") or (term.startswith("screen") and not environ.get("TMUX")):
        return Answer()
    try:
        before = termios.tcgetattr(fd_in)
    except termios.error:
        return Answer()
    try:
        tty.setcbreak(fd_in, termios.TCSANOW)
        sync = sync and environ.get("TERM_PROGRAM") != "Apple_Terminal"
        os.write(fd_out, b"\x1b]11;?\x1b\\" + (b"\x1b[?2026$p" if sync else b"") + b"\x1b[c")
        asked = time.monotonic()
        answer = _read_until_attributes(fd_in, asked + (_REMOTE_S if is_remote(environ) else _LOCAL_S))
    except OSError:
        return Answer()
    finally:
        termios.tcsetattr(fd_in, termios.TCSANOW, before)
    answers = _ATTRIBUTES.search(answer) is not None
    has_sync = parse_sync(answer) if sync and answers else None
    return Answer(parse_ground(answer), answers, has_sync, None if answers else asked + _LATE_S, fd_in)


def parse_sync(answer: bytes) -> bool:
    """Whether an answer says that mode 2026 is known (DECRPM: 0 not recognized, 4 permanently reset)."""
    match = _SYNC.search(answer)
    return match is not None and match[1] not in (b"0", b"4")


def _read_until_attributes(fd: int, end: float) -> bytes:
    """What comes until the device's attributes have come, or until ``end``. Raises `OSError`."""
    answer = b""
    while not _ATTRIBUTES.search(answer) and (left := end - time.monotonic()) > 0:
        if select.select([fd], [], [], left)[0]:
            part = os.read(fd, 1024)
            if not part:
                break
            answer += part
    return answer
