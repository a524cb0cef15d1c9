"""What is said with the far side of a watched session: a script for any POSIX sh there, and the reader of its answers.

Nothing of phasetop's has to be on the far machine: a shell, `head` and `tail` do. The script comes as the first line of its
own stdin, so that no shell on the way reads it, and obeys the lines after it:

    list                        the live sessions there
    follow N NAME SESSION       the file NAME from byte N on (the first is 1), as it grows; SESSION: its id, where known

The end of its stdin ends it and all that it started: nothing is left there when the watcher goes or the link is cut. Its own
lines begin with a word that nobody else knows; what comes before the first of them is somebody else's (a login file's
banner). When the writer lets go of the file's lock, the file's size comes on stderr: where `flock` is there, that tells a
session that was cut off from one that is silent.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from phasetop.ssh import sh

JUNK_BYTES: Final = 1 << 20
"""So much may be printed before the script's first line."""
HELLO: Final = b'{"k":"hello"'
_LINE_BYTES: Final = 1 << 16
"""No line but the session's own is longer."""
_NAME: Final = re.compile(rb"[A-Za-z0-9_./@~+,:=-]")

_SCRIPT: Final = r"""
n=$1; t=; w=; set -f; cd 2> /dev/null;
s=${XDG_STATE_HOME:-$HOME/.local/state}/phasetop;
[ -d "$s" ] || s="$HOME/Library/Application Support/phasetop";
held() {
 if command -v flock > /dev/null; then
  flock -s -n "$1" true 2> /dev/null;
  case $? in 0) echo free;; 1) echo held;; *) echo unknown;; esac;
 elif [ "$(find -L "$1" -mmin -1)" ]; then echo fresh; else echo unknown; fi;
};
list() {
 for g in $(ls -t "$s/live" 2> /dev/null); do
  case $g in *.phasetop) ;; *) continue;; esac;
   case $(held "$s/live/$g") in held|fresh) echo "$n session $g"; head -c 65536 "$s/live/$g"; echo;; esac;
 done;
 echo "$n listed";
};
oldest() {
 m=; set +f;
 for h in "$1".part*.phasetop; do
  k=${h##*.part}; k=${k%.phasetop};
  case $k in ''|*[!0-9]*) continue;; esac;
  if [ -f "$h" ] && { [ -z "$m" ] || [ "$k" -lt "$m" ]; }; then m=$k; g=$h; fi;
 done; set -f;
 [ "$m" ];
};
kept() {
 r="$s/recordings/$1";
 for g in "$r" "$r.phasetop"; do [ -f "$g" ] && return; done;
 oldest "$r" && return;
 for g in "$r.phasetop.gz" "$r.part2.phasetop.gz"; do [ -f "$g" ] && return; done;
 g=; return 1;
};
live() {
 g="$s/live/$1.phasetop"; [ -f "$g" ] && return;
 set +f;
 for g in "$s/live/$1"*.phasetop; do case $g in *.part*) ;; *) [ -f "$g" ] && { set -f; return; };; esac; done;
 set -f;
 oldest "$s/live/$1" && return;
 set +f;
 for g in "$s/live/$1"*.part*.phasetop; do [ -f "$g" ] && { oldest "${g%.part*}"; return; }; done;
 set -f; g=; return 1;
};
search() {
 g=; [ "$1" ] || return;
 g=$1; [ -f "$g" ] && return;
 kept "$1" && return;
 live "$1" && return;
 if [ "$2" ]; then
  set +f;
  for g in "$s"/recordings/*.phasetop; do
   case $g in *.part*) ;; *) head -c 1024 "$g" 2> /dev/null | grep -qF "$2" && { set -f; return; };; esac;
  done;
  for g in "$s"/recordings/*.part*.phasetop; do
   head -c 1024 "$g" 2> /dev/null | grep -qF "$2" && { oldest "${g%.part*}"; set -f; return; };
  done;
  set -f;
 fi;
 g=;
};
newest() {
 f=$(ls -t "$s/recordings" 2> /dev/null | grep '\.phasetop\(\.gz\)\{0,1\}$' | head -n 1);
 f=${f%.gz}; f=${f%.phasetop};
 k=${f##*.part};
 case $k in ''|*[!0-9]*) ;; *) f=${f%.part*};; esac;
 g=; [ "$f" ] && kept "$f";
};
follow() {
 f=$(printf %b "$2."); f=${f%.};
 case $f in @last) newest;; "~/"*) search "$HOME/${f#??}" "$3";; *) search "$f" "$3";; esac;
 case $g in "") echo "$n none"; return;; /*) ;; *) g=$PWD/$g;; esac;
 if [ ! -r "$g" ]; then echo "$n unreadable"; return; fi;
 o=; p=0; h=$(held "$g");
 case $(tail --version 2>&1 < /dev/null) in *GNU*) o="-s 0.1";; *[Bb]usy[Bb]ox*) p=1;; esac;
 echo "$n file" $(wc -c < "$g") $h $p;
 printf '%s\n' "$g" "$(head -c 4096 "$g" | head -n 1)"; printf '%s\n' "$n opened" >&2;
 set -- $1 $o; k=$1; shift;
 tail -c "+$k" -f "$@" "$g" & t=$!;
 case $h in held|free) flock -s "$g" wc -c < "$g" >&2 & w=$!;; esac;
};
printf '\n%s\n' "$n ready";
while read -r c a b d; do case $c in list) list;; follow) follow "$a" "$b" "$d";; esac; done;
kill $t $w 2> /dev/null
"""
LOADER: Final = 'read -r x && eval "$x"'
"""All that stands on ssh's command line: a sh that reads the script."""


def words(nonce: str) -> tuple[str, ...]:
    """What ssh has run there."""
    return (sh(LOADER), "phasetop", nonce)


def new_nonce() -> str:
    """The word that the script's own lines begin with."""
    return f"phasetop-{secrets.token_hex(16)}"


def script_line() -> bytes:
    """The script, as the first line of its own stdin."""
    return " ".join(_SCRIPT.split("\n")).strip().encode() + b"\n"


def list_line() -> bytes:
    """Ask for the live sessions."""
    return b"list\n"


def follow_line(offset: int, name: bytes, session: str | None = None) -> bytes:
    """Ask for a file from ``offset`` bytes on. Whatever bytes its name has, this is one line of plain words."""
    plain = b"".join(c if _NAME.match(c) else b"\\0%03o" % c[0] for c in (name[i : i + 1] for i in range(len(name))))
    known = session if session is not None and re.fullmatch(r"[0-9A-Za-z-]{8,64}", session) else ""
    return b"follow %d %s %s\n" % (offset + 1, plain, known.encode())


class Ready(Struct, frozen=True):
    """The script runs."""


class Listed(Struct, frozen=True):
    """The live sessions: each file's name, and how it begins."""

    sessions: tuple[tuple[str, bytes], ...]


class Opened(Struct, frozen=True):
    """A file is followed; its bytes come from now on.

    Attributes:
        size: its bytes when it was opened.
        held: "held" its writer has the lock, "free" nobody has, "unknown" nobody can tell there.
        polls_s: the far `tail` looks so often; 0: it is told.
        path: where it lies, to be asked for again.
        first: its first line, without the newline, at most 4096 bytes.

    """

    size: int
    held: str
    polls_s: int
    path: bytes
    first: bytes


class Refused(Struct, frozen=True):
    """The file cannot be followed: "none" of that name, or "unreadable"."""

    why: str


class Data(Struct, frozen=True):
    """Bytes of the file, in order."""

    data: bytes


class Broken(Struct, frozen=True):
    """What came cannot be the script's."""

    why: str


Said = Ready | Listed | Opened | Refused | Data | Broken


class FarReader:
    """The script's stdout, cut wherever it is cut, as what it says."""

    def __init__(self, nonce: str) -> None:
        self._own = nonce.encode() + b" "
        self._buffer = b""
        self._junk = 0
        self._ready = False
        self._data = False
        self._broken = False
        self._sessions: list[tuple[str, bytes]] = []
        self._opening: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[Said]:
        """Take bytes; what they say, in order."""
        if self._data:
            if data:
                yield Data(data)
            return
        self._buffer += data
        while not self._broken and not self._data and (end := self._buffer.find(b"\n")) >= 0:
            line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
            yield from self._line(line)
        if self._data and self._buffer:
            rest, self._buffer = self._buffer, b""
            yield Data(rest)
        if not self._broken and len(self._buffer) > (_LINE_BYTES if self._ready else JUNK_BYTES):
            yield self._break("a line without an end came instead of an answer")

    def _line(self, line: bytes) -> Iterator[Said]:
        if not self._ready:
            self._junk += len(line) + 1
            if line == self._own + b"ready":
                self._ready = True
                yield Ready()
            elif self._junk > JUNK_BYTES:
                yield self._break("its login files print without an end")
        elif self._opening:
            self._opening.append(line)
            if len(self._opening) == 3:
                yield self._opened()
        elif line.startswith(self._own):
            yield from self._answer(line[len(self._own) :])
        elif self._sessions:
            name, head = self._sessions[-1]
            self._sessions[-1] = (name, head + line + b"\n")

    def _answer(self, line: bytes) -> Iterator[Said]:
        word, _, rest = line.partition(b" ")
        if word == b"session":
            self._sessions.append((rest.decode("utf-8", "replace"), b""))
        elif word == b"listed":
            sessions, self._sessions = tuple(self._sessions), []
            yield Listed(sessions)
        elif word == b"file":
            self._opening = [rest]
        elif word in (b"none", b"unreadable"):
            yield Refused(word.decode())

    def _opened(self) -> Said:
        facts, path, first = self._opening
        self._opening = []
        parts = facts.split()
        if len(parts) != 3 or not (parts[0].isdigit() and parts[2].isdigit()) or len(parts[0]) > 18:
            return self._break("it answers what nobody understands")
        self._data = True
        held = parts[1].decode("ascii", "replace")
        return Opened(int(parts[0]), held if held in ("held", "free") else "unknown", int(parts[2]), path, first)

    def _break(self, why: str) -> Broken:
        self._broken = True
        return Broken(why)


def freed_at(stderr: bytes, nonce: str) -> int | None:
    """The file's size when its writer let go of it, where the script's stderr tells."""
    _, opened, rest = stderr.rpartition(nonce.encode() + b" opened\n")
    for line in rest.split(b"\n")[:-1] if opened else ():
        if re.fullmatch(rb"\s*\d{1,18}\s*", line):
            return int(line)
    return None
