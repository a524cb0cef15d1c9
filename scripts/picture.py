"""Take a picture of what a real terminal shows: run a command on a pty, read it with pyte, write SVG and plain text.

scripts/picture.py --size 120x36 --at 6 --out docs/live -- phasetop run …
"""

from __future__ import annotations

import argparse
import fcntl
import html
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyte

CELL_W, CELL_H, FONT = 8.4, 18, 14
INK, GROUND = "#dfe5ea", "#0f1419"
ANSI = {
    "black": "#1c1c1c", "red": "#d75f5f", "green": "#87af5f", "brown": "#d7af5f", "blue": "#5f87d7", "magenta": "#af87d7",
    "cyan": "#5fafaf", "white": "#c6c6c6", "brightblack": "#6c6c6c", "brightred": "#ff8787", "brightgreen": "#afd787",
    "brightbrown": "#ffd787", "brightyellow": "#ffd787", "brightblue": "#87afff", "brightmagenta": "#d7afff",
    "brightcyan": "#87d7d7", "brightwhite": "#eeeeee",
}  # fmt: skip


def colour(name: str, default: str) -> str:
    """A pyte colour as hex."""
    return default if name == "default" else ANSI.get(name, f"#{name}")


def runs(row: Any, columns: int) -> Iterator[tuple[int, str, Any]]:
    """Stretches of one style: (column, text, a cell of it)."""
    x = 0
    while x < columns:
        start, cell, text = x, row[x], ""
        style = (cell.fg, cell.bg, cell.bold, cell.italics, cell.underscore, cell.reverse)
        while x < columns:
            c = row[x]
            if (c.fg, c.bg, c.bold, c.italics, c.underscore, c.reverse) != style:
                break
            text += c.data or " "
            x += 1
        yield start, text, cell


def svg(screen: pyte.Screen) -> str:
    """The screen as SVG, a row of text a line, every run at its column."""
    width, height = screen.columns * CELL_W + 16, screen.lines * CELL_H + 16
    size = f'viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}"'
    font = f'font-family="ui-monospace, \'DejaVu Sans Mono\', Menlo, Consolas, monospace" font-size="{FONT}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f'<rect width="100%" height="100%" rx="6" fill="{GROUND}"/>',
        f'<g transform="translate(8,8)" {font} xml:space="preserve">',
    ]
    for y in range(screen.lines):
        for x, text, cell in runs(screen.buffer[y], screen.columns):
            fg, bg = colour(cell.fg, INK), colour(cell.bg, GROUND)
            if cell.reverse:
                fg, bg = bg, fg
            left, top, span = x * CELL_W, y * CELL_H, len(text) * CELL_W
            if bg != GROUND:
                out.append(f'<rect x="{left:.1f}" y="{top}" width="{span + 0.4:.1f}" height="{CELL_H + 0.4}" fill="{bg}"/>')
            if text.strip():
                style = ' font-weight="bold"' if cell.bold else ""
                style += ' font-style="italic"' if cell.italics else ""
                style += ' text-decoration="underline"' if cell.underscore else ""
                out.append(
                    f'<text x="{left:.1f}" y="{top + 13.5}" textLength="{span:.1f}" lengthAdjust="spacingAndGlyphs" '
                    f'fill="{fg}"{style}>{html.escape(text)}</text>'
                )
    return "\n".join([*out, "</g></svg>\n"])


def main() -> None:
    """Run, wait, draw, end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="120x36")
    parser.add_argument("--at", type=float, default=6.0, help="seconds after the start")
    parser.add_argument("--keys", action="append", default=[], metavar="SEC:TEXT")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    columns, lines = map(int, options.size.split("x"))
    keys = sorted((float(at), text) for at, _, text in (each.partition(":") for each in options.keys))
    command = [word for word in options.command if word != "--"]
    screen = pyte.Screen(columns, lines)
    stream = pyte.ByteStream(screen)
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.execvp(command[0], command)
    start = time.monotonic()
    while (passed := time.monotonic() - start) < options.at:
        while keys and keys[0][0] <= passed:
            os.write(fd, keys.pop(0)[1].encode().decode("unicode_escape").encode())
        if select.select([fd], [], [], 0.05)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if b"\x1b[6n" in data:
                os.write(fd, b"\x1b[1;1R")
            stream.feed(data)
    options.out.with_suffix(".svg").write_text(svg(screen), encoding="utf-8")
    options.out.with_suffix(".txt").write_text("\n".join(row.rstrip() for row in screen.display) + "\n", encoding="utf-8")
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
