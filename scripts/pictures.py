"""Take the pictures of docs/pictures: real runs of the embedded model on a pty, each as SVG of what the terminal shows.

python scripts/pictures.py [--png DIR] [NAME …]
python scripts/pictures.py --size 120x36 --at 6 [--keys SEC:TEXT] --out docs/x -- phasetop run …

The first takes those of `SHOTS` (all, or by name); ``--png`` makes pixels of them, too, where rsvg-convert is installed.
The second takes one of any command.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyte

from phasetop.tui.svg import Cell, Style, svg

ANSI: Final = {
    "black": "#1c1c1c", "red": "#d75f5f", "green": "#87af5f", "brown": "#d7af5f", "blue": "#5f87d7", "magenta": "#af87d7",
    "cyan": "#5fafaf", "white": "#c6c6c6", "brightblack": "#6c6c6c", "brightred": "#ff8787", "brightgreen": "#afd787",
    "brightbrown": "#ffd787", "brightyellow": "#ffd787", "brightblue": "#87afff", "brightmagenta": "#d7afff",
    "bfightmagenta": "#d7afff", "brightcyan": "#87d7d7", "brightwhite": "#eeeeee",
}  # fmt: skip
"""pyte's names (and its misspelt one) of a terminal's sixteen colours."""
ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "docs" / "pictures"
MAX_BYTES: Final = 60_000
PATIENCE_S: Final = 90.0
ASK: Final = "Explain how a hash table works, and what happens when it grows. Give an example in Python."


@dataclass(frozen=True)
class Ground:
    """The terminal's own colours."""

    colour: str
    ink: str


DARK: Final = Ground("#0f1419", "#dfe5ea")
LIGHT: Final = Ground("#fbfaf7", "#1c2126")


def drawn(screen: pyte.Screen, ground: Ground) -> str:
    """A terminal's screen as SVG."""
    rows = [[_cell(screen.buffer[y][x], ground) for x in range(screen.columns)] for y in range(screen.lines)]
    return svg(rows, ground.colour)


def _cell(cell: Any, ground: Ground) -> Cell:
    colours = [ANSI.get(name, f"#{name}") for name in (cell.fg, cell.bg)]
    fg, bg = ground.ink if cell.fg == "default" else colours[0], ground.colour if cell.bg == "default" else colours[1]
    if cell.reverse:
        fg, bg = bg, fg
    return cell.data, Style(fg, bg, cell.bold, cell.italics, cell.underscore)


@dataclass(frozen=True)
class Shot:
    """One picture: a command on a terminal, what is typed when, and how the terminal looks.

    ``steps`` are words to wait for (``chip:`` on the headline's row), seconds to wait, or ``keys:`` with what is typed;
    ``now`` takes the picture before what follows, else it is taken at the end.
    """

    name: str
    size: str
    command: tuple[str, ...]
    steps: tuple[str | float, ...] = ()
    ground: Ground = DARK
    env: Mapping[str, str] = field(default_factory=dict)


RUN: Final = ("run", "-p", ASK, "-n", "500", "--seed", "5", "--temperature", "0.6")
LONG: Final = ("run", "-f", "PROMPT", "-n", "300", "--seed", "5", "--temperature", "0.6", "-b", "96")
DECODE: Final = ("chip:DECODE", 6.0)
SHOTS: Final = (
    Shot("live-120x36", "120x36", RUN, DECODE),
    Shot("live-80x24", "80x24", RUN, DECODE),
    Shot("live-200x60", "200x60", RUN, DECODE),
    Shot("live-60x40", "60x40", RUN, DECODE),
    Shot("prefill-120x36", "120x36", (*LONG, "--record=picture"), ("chip:PREFILL", "3 batches", "now", "chip:DONE")),
    Shot("light-120x36", "120x36", (*RUN, "--theme", "light"), DECODE, LIGHT),
    Shot("sixteen-120x36", "120x36", (*RUN, "--colours", "16"), DECODE),
    Shot("no-colour-120x36", "120x36", RUN, DECODE, env={"NO_COLOR": "1"}),
    Shot("help-80x24", "80x24", (*RUN, "-n", "60"), ("chip:DONE", "keys:?", "this page")),
    Shot("start-80x24", "80x24", (), ("ENTER", "machine", 1.0)),
    Shot(
        "charts-120x36",
        "120x36",
        ("replay", "picture"),
        ("first token", "keys:l", "chip:DONE", "keys:p", "KV cache over time", 0.5),
    ),
    Shot(
        "roofline-120x36", "120x36", ("replay", "picture"), ("first token", "keys:l", "chip:DONE", "keys:r", "what if", 0.5)
    ),
    Shot("roofline-80x24", "80x24", ("replay", "picture"), ("first token", "keys:l", "chip:DONE", "keys:r", "what if", 0.5)),
    Shot("replay-120x36", "120x36", ("replay", "picture"), ("first token", "keys:7", "chip:DECODE", 0.5)),
    Shot("doctor-120x36", "120x36", ("replay", "picture"), ("first token", "keys:l", "chip:DONE", "keys:d", 1.0)),
)


class Terminal:
    """A command on a pty, and the screen that its bytes make; it answers as a terminal does."""

    def __init__(self, command: Sequence[str], size: str, ground: Ground, env: Mapping[str, str]) -> None:
        columns, lines = map(int, size.split("x"))
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._ground = ground
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            os.execvpe(command[0], list(command), {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **env})

    def pump(self, seconds: float) -> bool:
        """Take what comes for so long; False when the command has ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._fd], [], [], min(left, 0.05))[0]:
                continue
            try:
                data = os.read(self._fd, 65536)
            except OSError:
                return False
            self._answer(data)
            self._stream.feed(data)
        return True

    def _answer(self, data: bytes) -> None:
        ground = self._ground.colour
        part = "/".join(2 * ground[i : i + 2] for i in (1, 3, 5))
        if b"\x1b]11;?" in data:
            self.type(f"\x1b]11;rgb:{part}\x1b\\")
        if b"\x1b[c" in data:
            self.type("\x1b[?62;22c")
        if b"\x1b[6n" in data:
            self.type("\x1b[1;1R")

    def type(self, text: str) -> None:
        """Type."""
        os.write(self._fd, text.encode())

    def until(self, words: str) -> None:
        """Wait until the words are on the screen; with ``chip:`` before them, on the headline's first row."""
        chip = words.startswith("chip:")
        end = time.monotonic() + PATIENCE_S
        while words.removeprefix("chip:") not in (self.screen.display[2] if chip else "\n".join(self.screen.display)):
            if time.monotonic() > end or not self.pump(0.05):
                sys.exit(f"{words!r} did not come:\n" + "\n".join(self.screen.display))

    def end(self) -> None:
        """End the command, and wait for it."""
        os.kill(self._pid, signal.SIGTERM)
        while self.pump(0.2):
            pass
        os.waitpid(self._pid, 0)
        os.close(self._fd)


def take(shot: Shot, command: Sequence[str], env: Mapping[str, str]) -> str:
    """The picture as SVG."""
    terminal = Terminal(command, shot.size, shot.ground, {**env, **shot.env})
    picture: str | None = None
    try:
        for step in shot.steps:
            if isinstance(step, float):
                terminal.pump(step)
            elif step.startswith("keys:"):
                terminal.type(step.removeprefix("keys:"))
            elif step == "now":
                picture = drawn(terminal.screen, shot.ground)
            else:
                terminal.until(step)
        if picture is None:
            picture = drawn(terminal.screen, shot.ground)
        return picture
    finally:
        terminal.end()


def take_all(names: Sequence[str], folder: Path, png: Path | None) -> None:
    """Take pictures by name (none: all) in a home of their own, with the machine's bandwidth measured first."""
    wanted = [shot for shot in SHOTS if not names or shot.name in names]
    if unknown := set(names) - {shot.name for shot in SHOTS}:
        sys.exit(f"no such picture: {', '.join(sorted(unknown))} (there are: {', '.join(shot.name for shot in SHOTS)})")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="phasetop-pictures-") as home:
        env = {f"XDG_{kind}_HOME": f"{home}/{kind.lower()}" for kind in ("STATE", "CACHE", "CONFIG")}
        prompt = Path(home, "prompt.txt")
        prompt.write_text(_prompt(), encoding="utf-8")
        program = shutil.which("phasetop") or sys.exit("phasetop is not in PATH: make setup, then .venv/bin")
        subprocess.run(
            [program, "doctor", "--measure-bandwidth"], env={**os.environ, **env}, stdout=subprocess.DEVNULL, check=False
        )
        recorded = next(shot for shot in SHOTS if "--record=picture" in shot.command)
        if any("replay" in shot.command for shot in wanted) and recorded not in wanted:
            wanted.insert(0, recorded)
        for shot in wanted:
            command = [program, *(str(prompt) if word == "PROMPT" else word for word in shot.command)]
            _keep(shot.name, take(shot, command, env), folder, png)


def _prompt() -> str:
    """A question, and some text that it is about: enough tokens for several batches."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return f"{text[:2600]}\n\n{ASK}"


def _keep(name: str, picture: str, folder: Path, png: Path | None) -> None:
    file = folder / f"{name}.svg"
    file.write_text(picture, encoding="utf-8")
    size = file.stat().st_size
    print(f"{file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}  {size:,} B")
    if size > MAX_BYTES:
        print(f"  larger than {MAX_BYTES:,} B", file=sys.stderr)
    if png is not None:
        png.mkdir(parents=True, exist_ok=True)
        subprocess.run(["rsvg-convert", "-z", "1.5", "-o", str(png / f"{name}.png"), str(file)], check=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--png", type=Path, metavar="DIR", help="pixels, too")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the SVGs go (docs/pictures)")
    parser.add_argument("--size", default="120x36", help="of one picture")
    parser.add_argument("--at", type=float, default=6.0, help="seconds after its start")
    parser.add_argument("--keys", action="append", default=[], metavar="SEC:TEXT", help="typed meanwhile")
    parser.add_argument("--out", type=Path, help="its file, without .svg")
    parser.add_argument("words", nargs="*", metavar="NAME | -- COMMAND")
    options = parser.parse_args()
    if options.out is None:
        take_all(options.words, options.folder, options.png)
        return
    typed = sorted((float(at), text) for at, _, text in (each.partition(":") for each in options.keys))
    steps: list[str | float] = []
    passed = 0.0
    for at, text in typed:
        steps += [max(0.01, at - passed), "keys:" + text.encode().decode("unicode_escape")]
        passed = at
    shot = Shot(options.out.name, options.size, (), (*steps, max(0.01, options.at - passed)))
    _keep(options.out.name, take(shot, options.words, {}), options.out.parent, options.png)


if __name__ == "__main__":
    main()
