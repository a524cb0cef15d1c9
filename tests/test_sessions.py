"""`phasetop sessions` as a process: real recordings, running ones, hostile names, and what is never removed."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phasetop import codec
from phasetop import events as ev
from phasetop.cli import main
from phasetop.lifeline import Start, Target
from phasetop.recording import load
from tests.tui.ptyterm import Terminal

if TYPE_CHECKING:
    from tests.conftest import Collected, Home, Metronome

Beat = Callable[..., "Metronome"]
RUN = [sys.executable, "-m", "phasetop"]


def call(home: Home, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(
        [*RUN, *arguments], capture_output=True, text=True, timeout=60, check=False, env=home.env, **options
    )


def told(home: Home, *arguments: str) -> Any:
    done = call(home, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write(
    home: Home, name: str, *, tokens: int = 3, folder: str = "recordings", session: str = "", bye: bool = True
) -> Path:
    """A small session of one request."""
    anchor = ev.Anchor(mono=1, wall=1_796_000_000_000_000_000)
    events: list[ev.Event] = [
        ev.Hello(t=0, format=1, session=session or name, anchor=anchor, by="phasetop 0"),
        ev.Server(t=1, v=0, backend="llamacpp"),
        ev.Model(t=2, m=0, v=0, name="tiny"),
        ev.Request(t=10, r=0, v=0, m=0, api="chat", messages=[{"role": "user", "content": "why"}]),
        ev.State(t=20, r=0, s="sent", at=20),
        *(ev.Tok(t=1_000_000 * (i + 1), r=0, x=" a") for i in range(tokens)),
        ev.Timings(t=9_000_000, r=0, prompt_n=7, cached_n=0, prompt_ms=1.0, gen_n=tokens, gen_ms=2.0),
        ev.End(t=9_000_000, r=0, finish="stop"),
        *([ev.Bye(t=9_500_000, reason="done", lines=9)] if bye else []),
    ]
    path = home.state / "phasetop" / folder / f"{name}.phasetop"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(codec.encode_all(events))
    return path


def test_recordings_are_listed_shown_renamed_and_removed(state_home: Home, metronome: Beat) -> None:
    url = metronome(rate=1000, tokens=4, prefill_ms=1, prompt=20).url
    assert call(state_home, "run", url, "-p", "hi", "--record=one").returncode == 0
    assert call(state_home, "run", url, "-p", "hi again", "--record=two", "--redact").returncode == 0
    first, second = told(state_home, "sessions", "--json=compact")["sessions"]
    assert (first["name"], first["requests"], first["model"], first["redacted"]) == ("two", 1, "llama3.1:8b", True)
    assert (second["name"], second["complete"], second["live"], second["kept"]) == ("one", True, False, True)
    whole = load(Path(second["file"]))
    assert whole.hello is not None
    assert (second["session_id"], second["duration_s"]) == (whole.hello.session, round(whole.last_t / 1e9, 6))

    shown = told(state_home, "sessions", "show", "@2", "--json")
    assert shown["session"] == second
    assert [request["text"] for request in shown["requests"]] == [" the model reads every"]
    assert shown["requests"][0]["session"] == "one"
    text = call(state_home, "sessions", "show", "one").stdout
    assert "request 0: hi\n" in text
    assert "prompt   20 tok " in text
    assert "finish   stop\n" in text

    done = call(state_home, "sessions", "rename", "one", "../my first")
    assert (done.returncode, done.stderr) == (0, "phasetop: one is now my-first\n")
    assert call(state_home, "sessions", "rename", "two", "my-first").returncode == 1
    refused = call(state_home, "sessions", "rm", "my-first")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert call(state_home, "sessions", "rm", "my-first", "@1", "--yes").returncode == 0
    assert told(state_home, "sessions", "--json")["sessions"] == []
    assert not list((state_home.state / "phasetop" / "recordings").iterdir())


def test_the_table_fits_80_columns_and_marks_what_was_cut(state_home: Home) -> None:
    write(state_home, "x" * 120)
    write(state_home, "short", bye=False)
    write(state_home, "évil\x1b[2J")
    whole = write(state_home, "x" * 100)
    whole.rename(os.fsdecode(os.fsencode(whole.parent) + b"/\xff\xfe.phasetop"))
    (state_home.state / "phasetop" / "recordings" / "nonsense.phasetop").write_text("hello\n")
    done = call(state_home, "sessions")
    lines = done.stdout.splitlines()
    assert len(lines) == 1 + 4 + 2
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in done.stdout + done.stderr
    (cut,) = (line for line in lines if "short" in line)
    assert cut.startswith("◌ @")
    assert "tiny" in cut
    assert "nonsense.phasetop: this is no phasetop recording" in done.stderr
    names = [one["name"] for one in told(state_home, "sessions", "--json=compact")["sessions"]]
    assert "\ufffd" in "".join(names)
    assert "évil\x1b[2J" in names
    assert all(request["requests"] for request in [told(state_home, "sessions", "show", f"@{i}", "--json") for i in (2, 3)])


def test_one_that_runs_is_marked_reached_by_its_id_and_never_removed(
    state_home: Home, metronome: Beat, collect: Callable[..., Collected]
) -> None:
    one = collect(Start(target=Target(None, metronome(rate=200, tokens=100_000, prefill_ms=1).url)))
    r = one.ask()
    one.until(lambda s: len(s.runs[r].tokens) > 3)
    cut = write(state_home, "0000cafe-1111", folder="live", session="0000cafe-1111", bye=False)
    running, left = told(state_home, "sessions", "--json")["sessions"]
    assert (running["live"], running["complete"], running["kept"]) == (True, False, False)
    assert running["name"] == one.lifeline.session_id[:8]
    assert (left["name"], left["live"], left["complete"]) == ("0000cafe", False, False)
    done = call(state_home, "sessions", "rm", running["name"], "0000cafe", "--yes")
    assert (done.returncode, "running" in done.stderr) == (1, True)
    assert cut.exists()
    assert call(state_home, "sessions", "rename", running["name"], "x").returncode == 1
    assert "the model reads" in call(state_home, "replay", running["name"]).stdout
    assert call(state_home, "sessions", "rename", "0000cafe", "saved").returncode == 0
    assert not cut.exists()
    assert call(state_home, "replay", "saved", "--plain").stdout == " a a a"


def test_a_named_one_that_runs_stands_there_once(
    state_home: Home, metronome: Beat, collect: Callable[..., Collected]
) -> None:
    one = collect(metronome(rate=200, tokens=100_000, prefill_ms=1).url)
    one.until(lambda s: s.models)
    one.lifeline.keep("kept-early")
    assert [(s["name"], s["live"]) for s in told(state_home, "sessions", "--json")["sessions"]] == [("kept-early", True)]
    assert call(state_home, "sessions", "rm", "kept-early", "--yes").returncode == 1
    assert one.lifeline.kept is not None
    assert one.lifeline.kept.exists()


def test_one_that_was_kept_and_killed_is_removed_under_both_names(state_home: Home) -> None:
    path = write(state_home, "precious", bye=False)
    live = state_home.state / "phasetop" / "live"
    live.mkdir()
    os.link(path, live / "0000cafe-1111.phasetop")
    (live / "0000cafe-1111.log").touch()
    assert main(["sessions", "rm", "precious", "--yes"]) == 0
    assert not path.exists()
    assert not list(live.iterdir())


def test_what_is_no_session_is_said_with_where_it_lies(state_home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(state_home, "broken")
    file.write_text("hello\n")
    os.mkfifo(file.with_name("pipe.phasetop"))
    said = f"phasetop: broken: this is no phasetop recording: its first line is no session's; the file is {file}\n"
    for words in (["rm", "broken", "--yes"], ["rename", "broken", "x"]):
        assert main(["sessions", *words]) == 1
        assert capsys.readouterr().err == said
    for words in (["sessions", "show"], ["sessions", "rm", "--yes"], ["replay"], ["export", "--to", "md"]):
        assert main([*words, "pipe"]) == 2
        assert "pipe is a pipe or a device" in capsys.readouterr().err


def test_a_further_part_that_is_named_is_called_by_its_own_name(
    state_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = (write(state_home, name, session="s") for name in ("a", "a.part2", "a.part3"))
    assert main(["sessions", "rm", "a.part2", "--yes"]) == 0
    assert capsys.readouterr().err == "phasetop: removed a.part2\n"
    assert (first.exists(), second.exists(), third.exists()) == (True, False, False)


def test_of_one_that_lies_elsewhere_the_name_goes_and_the_file_stays(
    state_home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a run with --record=PATH leaves it that was killed."""
    mine = tmp_path / "mine.phasetop"
    write(state_home, "x", session="0000cafe-1111", bye=False).rename(mine)
    live = state_home.state / "phasetop" / "live"
    live.mkdir()
    (live / "0000cafe-1111.phasetop").symlink_to(mine)
    (live / "0000cafe-1111.log").touch()
    assert main(["sessions", "show", "0000cafe"]) == 0
    assert f"file     {mine}\n" in capsys.readouterr().out
    assert main(["sessions", "rename", "0000cafe", "other"]) == 2
    assert capsys.readouterr().err == f"phasetop: 0000cafe is a file of your own, {mine}: use mv\n"
    assert main(["sessions", "rm", "0000cafe", "--yes"]) == 0
    assert capsys.readouterr().err == f"phasetop: 0000cafe is off the list; its file is yours and stays: {mine}\n"
    assert list(live.iterdir()) == []
    assert load(mine).runs


def test_what_is_asked_before_one_that_lies_elsewhere_is_taken_off(state_home: Home, tmp_path: Path) -> None:
    mine = tmp_path / "mine.phasetop"
    write(state_home, "x", session="0000cafe-1111", bye=False).rename(mine)
    live = state_home.state / "phasetop" / "live"
    live.mkdir()
    (live / "0000cafe-1111.phasetop").symlink_to(mine)
    with Terminal([*RUN, "sessions", "rm", "0000cafe"], size=(300, 20), env=state_home.env) as asked:
        asked.until_shown(f"its file is yours and stays: {mine}", 30)
        asked.until_shown("take it off the list? [y/N]")
        asked.send("n\n")
        assert asked.wait() == 1
    assert (live / "0000cafe-1111.phasetop").is_symlink()


def test_totals(state_home: Home) -> None:
    write(state_home, "a", tokens=3)
    write(state_home, "b", tokens=5)
    copy = write(state_home, "b-copy", tokens=5, session="b")
    copy.with_suffix(".phasetop.gz").write_bytes(gzip.compress(copy.read_bytes()))
    for _ in range(2):  # then from the index
        told_now = told(state_home, "sessions", "totals", "--json=compact")
        (row,) = told_now["rows"]
        assert (row["key"], row["requests"], row["prompt_tokens"], row["output_tokens"]) == ("tiny", 2, 14, 8)
        assert row["wall_s"] == round(2 * (9_000_000 - 20) / 1e9, 6)
        assert row["energy_j"] is None
        assert "rows.energy_j" in told_now["unknown"]
    text = call(state_home, "sessions", "totals", "--by", "day").stdout
    assert text.splitlines()[0].split() == ["day", "requests", "prompt", "cached", "output", "energy", "wall", "time"]
    assert "≥" not in text


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["show", "nowhere"], 2, "no recording 'nowhere'"),
        (["show", "."], 2, "is a folder"),
        (["show", "/etc/hostname"], 1, "no phasetop recording"),
        (["rm", "/etc/hostname", "--yes"], 2, "outside the recordings"),
        (["rename", "a", "@last"], 2, "no name for a recording"),
        (["rename", "a", "x.part2"], 2, "belongs to a part"),
        (["show", "newer"], 1, "written by phasetop 2.0, format 2; this one reads 1"),
        (["show", "ab"], 2, "no recording 'ab'"),
        (["show", "abcd"], 2, "2 sessions of the live folder begin so"),
    ],
)
def test_errors_are_one_line(
    state_home: Home, arguments: list[str], status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(state_home, "a")
    hello = ev.Hello(t=0, format=2, session="s", anchor=ev.Anchor(0, 0), by="phasetop 2.0")
    path.with_name("newer.phasetop").write_bytes(codec.encode(hello))
    for name in ("abcd1", "abcd2"):
        write(state_home, name, folder="live")
    assert main(["sessions", *arguments]) == status
    done = capsys.readouterr()
    assert says in done.err
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert path.exists()


def test_at_a_terminal_it_asks(state_home: Home) -> None:
    import pty

    path = write(state_home, "precious")
    for answer, gone in (("\n", False), ("n\n", False), ("y\n", True)):
        mine, theirs = pty.openpty()
        try:
            os.write(mine, answer.encode())
            done = call(state_home, "sessions", "rm", "precious", stdin=theirs)
        finally:
            os.close(mine)
            os.close(theirs)
        assert "precious: 1 request" in done.stderr
        assert "remove it for ever? [y/N]" in done.stderr
        assert path.exists() is not gone


def test_names_are_completed(state_home: Home) -> None:
    write(state_home, "morning")
    env = {
        **state_home.env,
        "_PHASETOP_COMPLETE": "bash_complete",
        "COMP_WORDS": "phasetop sessions show mo",
        "COMP_CWORD": "3",
    }
    done = subprocess.run(RUN, capture_output=True, text=True, env=env, check=False, timeout=30)
    assert done.stdout.split() == ["plain,morning"]
