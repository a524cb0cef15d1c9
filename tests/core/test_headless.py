"""The text of a reply as it is streamed: bytes as they came into a pipe, each on the stream where it belongs."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64encode

import pytest

from phasetop import events as ev
from phasetop.headless import TextOut
from phasetop.session import Run


def line(text: str | bytes, c: str = "answer") -> ev.Tok:
    if isinstance(text, bytes):
        return ev.Tok(t=0, r=0, x="", b=b64encode(text).decode(), c=c)
    return ev.Tok(t=0, r=0, x=text, c=c)


def said(*lines: ev.Tok, show_thinking: bool = False, run_json: bool = False) -> None:
    run = Run(0)
    out = TextOut(run_json, show_thinking)
    for each in lines:
        run.tokens.append(each)
        out.write_new(run)
        out.write_new(run)
    out.end()


def test_each_piece_is_written_once_and_nothing_is_added(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    said(line("hmm", "think"), line("a\x1b[31m"), line('{"x":1}', "tool"), line(" b"))
    assert capfdbinary.readouterr() == (b"a\x1b[31m b", b"hmm\n")


def test_thinking_and_json(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    said(line("hmm", "think"), line("a"), show_thinking=True)
    assert capfdbinary.readouterr() == (b"hmma", b"")
    said(line("hmm", "think"), line("a"), run_json=True)
    assert capfdbinary.readouterr() == (b"", b"hmma\n")


def test_a_character_in_pieces_waits_until_it_is_whole(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    llama = "🦙".encode()
    said(line("a"), line(llama[:1]), line(llama[1:3]), line(llama[3:]), line("b"))
    assert capfdbinary.readouterr().out == b"a" + llama + b"b"


def test_one_that_never_gets_whole_is_shown_at_the_end(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """As in `--json`, where the same bytes are one U+FFFD."""
    said(line("a"), line("🦙".encode()[:3]))
    assert capfdbinary.readouterr().out == "a\ufffd".encode()


@pytest.mark.parametrize("together", [True, False])
def test_a_summary_in_the_same_pipe_begins_a_line(together: bool) -> None:
    """As `2>&1` has it; a stdout of its own holds the text and nothing else."""
    code = (
        "import sys; from phasetop import events as ev; from phasetop.session import Run\n"
        "from phasetop.headless import TextOut; run = Run(0); run.tokens.append(ev.Tok(t=0, r=0, x='end.'))\n"
        "out = TextOut(False, False); out.write_new(run); out.end(); print('prompt 1', file=sys.stderr)"
    )
    stderr = subprocess.STDOUT if together else subprocess.PIPE
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=stderr, timeout=60, check=True)
    assert done.stdout == (b"end.\nprompt 1\n" if together else b"end.")


@pytest.mark.parametrize(
    ("lines", "run_json", "expected"),
    [
        ([line("tok18")], True, (b"", b"tok18\n")),  # with --json the text goes to stderr, and an error after it
        ([line("tok18\n")], True, (b"", b"tok18\n")),
        ([line("hmm", "think"), line("a")], False, (b"a", b"hmm\n")),
        ([line("a")], False, (b"a", b"")),
        ([line("a"), line("hmm", "think")], False, (b"a", b"hmm\n")),
    ],
)
def test_what_follows_on_stderr_begins_a_line_and_stdout_gets_nothing(
    capfdbinary: pytest.CaptureFixture[bytes], lines: list[ev.Tok], run_json: bool, expected: tuple[bytes, bytes]
) -> None:
    """Also in a file or a pipe of its own, as a log of a build has it."""
    said(*lines, run_json=run_json)
    assert capfdbinary.readouterr() == expected
