"""`phasetop replay --screenshot`: a picture without a terminal and without Textual, as of any moment, of any file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasetop import codec
from phasetop import events as ev
from phasetop.display import Display
from phasetop.faults import FormatError
from phasetop.live import screenshot
from phasetop.moments import Moment, moment_of
from phasetop.recording import load, settle
from phasetop.replay_command import size_of
from phasetop.session import Session
from phasetop.tui.svg import Cell, Style, svg
from tests.conftest import Home
from tests.tui.fabricate import HOSTILE, S, Turn, ask, opening, sample, session_of

SVG = "{http://www.w3.org/2000/svg}"


def lines_of(turn: Turn | None = None) -> list[bytes]:
    script = opening()
    ask(script, 0, turn or Turn(tokens=120, stall_at=60, logprobs=True))
    ask(script, 1, Turn(tokens=40, cached=300, prompt=700), at_ms=5000)
    script.add(ev.Bye(t=script.t + S, reason="done"))
    return [codec.encode(event) for event in sample(script).sorted()]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "two.phasetop"
    path.write_bytes(b"".join(lines_of()))
    return path


def phasetop(*arguments: str, home: Home) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "phasetop", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=home.env,
        timeout=60,
        check=False,
    )


def test_a_picture_as_of_a_moment(recording: Path, tmp_path: Path, state_home: Home) -> None:
    out = tmp_path / "out.svg"
    done = phasetop("replay", str(recording), "--screenshot", str(out), "--at", "1.5s", "--size", "100x30", home=state_home)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    root = ElementTree.fromstring(out.read_text(encoding="utf-8"))
    assert "white-space:pre" in (root.findtext(f"{SVG}style") or ""), (
        "browsers take blanks together, and stretch what is left"
    )
    texts = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
    assert any(text.startswith("SmolLM2-135M-Instruct") for text in texts)
    assert any("DECODE" in text for text in texts)
    assert any("of 8." in text for text in texts)
    assert root.get("viewBox") == f"0 0 {100 * 8.4 + 16:.0f} {30 * 18 + 16}"


def test_shapes_stand_where_their_characters_would() -> None:
    """By hand: cells of 8.4 × 18; a wide character has two, of which the second is empty."""
    plain, red = Style("#ffffff", "#000000"), Style("#ff0000", "#000000", bold=True)
    rows: list[list[Cell]] = [
        [("▂", red), ("日", plain), ("", plain), ("a", plain), (" ", plain), (" ", plain), ("b", plain)],
        [("⡀", plain), ("▌", red), (" ", plain), (" ", plain), (" ", plain), (" ", plain), (" ", plain)],
    ]
    root = ElementTree.fromstring(svg(rows, "#000000", "<t>"))
    words = [(node.get("x"), node.text) for node in root.iter(f"{SVG}tspan")]
    assert words == [("8.4", "日a"), ("50.4", "b")]
    shapes = [(node.get("fill") or node.get("stroke"), node.get("d")) for node in root.iter(f"{SVG}path")]
    quarter = "M0 13.5h8.4v4.5h-8.4z"  # a cell's lower two eighths
    half = "M8.4 18h4.2v18h-4.2z"
    assert shapes == [("#ff0000", quarter + half), ("#ffffff", "M2.1 33.8h0")]  # and the fourth of four dots, left
    assert root.findtext(f"{SVG}title") == "<t>"


def test_the_end_where_no_moment_is_given_and_characters_alone(recording: Path, tmp_path: Path, state_home: Home) -> None:
    out = tmp_path / "out.txt"
    assert phasetop("replay", str(recording), "--screenshot", str(out), home=state_home).returncode == 0
    rows = out.read_text(encoding="utf-8").split("\n")
    assert len(rows) == 37
    assert "two.phasetop   turn 2 of 2   replay" in rows[0]
    assert " DONE " in rows[2]
    shown = phasetop("replay", str(recording), "--screenshot", "-", home=state_home).stdout
    assert shown.startswith("<svg")
    ElementTree.fromstring(shown)


@pytest.mark.parametrize("command", [("replay", "--screenshot"), ("export", "-o")])
def test_never_over_the_recording_itself(
    command: tuple[str, str], recording: Path, tmp_path: Path, state_home: Home
) -> None:
    """Not by another name, nor over a further part of it."""
    further = tmp_path / "two.part2.phasetop"
    further.write_bytes(b"kept")
    for name, target in (("a.svg", recording), ("b.svg", further)):
        link = tmp_path / name
        link.symlink_to(target)
        was = target.read_bytes()
        more = ("--to", "json") if command[0] == "export" else ()
        done = phasetop(command[0], str(recording), command[1], str(link), *more, home=state_home)
        assert done.returncode == 1
        assert "is the recording itself: it is not written over" in done.stderr
        assert target.read_bytes() == was


def test_it_loads_no_textual(recording: Path, state_home: Home) -> None:
    code = (
        "import sys\nfrom phasetop.cli import main\n"
        f"status = main(['replay', {str(recording)!r}, '--screenshot', {str(recording) + '.svg'!r}])\n"
        "import json; print(json.dumps([status, sorted({n.partition('.')[0] for n in sys.modules} & {'textual', 'httpx'})]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=state_home.env, check=True)
    assert json.loads(done.stdout) == [0, []]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--screenshot", "out.png"), "a picture is an .svg"),
        (("--screenshot", "nowhere/at/all.svg"), "cannot write nowhere/at/all.svg"),
        (("--screenshot", "x.svg", "--at", "soon"), "'soon' is no moment"),
        (("--screenshot", "x.svg", "--speed", "nan"), "nan is no number"),
        (("--screenshot", "x.svg", "--fps", "nan"), "nan is no number"),
        (("--screenshot", "x.svg", "--size", "large"), "'large' is no size"),
        (("--screenshot", "x.svg", "--size", "9x9"), "too small or too large"),
        (
            (
                "--at",
                "3",
            ),
            "--at needs the view, at a terminal, or --screenshot",
        ),
        (("--speed", "1000"), "a number from 0.1 to 100 is expected"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(arguments: tuple[str, ...], words: str, recording: Path, state_home: Home) -> None:
    done = phasetop("replay", str(recording), *arguments, home=state_home)
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["120", "x", "120x", "-5x20", "5000x20", "20x4"])
def test_sizes(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|small"):
        size_of(text)
    assert size_of("200×60") == size_of(" 200X60".strip()) == (200, 60)


LOOKS = [
    Display(),
    Display(theme="light"),
    Display(colours="256"),
    Display(colours="16", theme="light"),
    Display(colours="none"),
    Display(ascii=True),
]


@pytest.mark.parametrize("display", LOOKS)
def test_any_look_is_a_whole_picture(display: Display) -> None:
    session = Session()
    for line in lines_of(Turn(tokens=60, texts=[HOSTILE[i : i + 3] for i in range(0, len(HOSTILE), 3)])):
        event = codec.decode(line)
        assert event is not None
        session.apply(event)
    for at in (None, Moment("s", 1.0), moment_of("0")):
        text = screenshot(session, "\x1b[2J<&>", display, at, (120, 36), svg=True)
        ElementTree.fromstring(text)  # what XML cannot hold is not in it
        if display.ascii:
            assert "".join(node for node in text.split("\n")[4:]).isascii()


AT = [None, Moment("s", 0.7), Moment("share", 0.5), Moment("token", 30)]


def pictured(path: Path) -> str:
    """What a replay shows of a file, at several moments; or why it does not open."""
    try:
        session = load(path)
    except FormatError as error:
        return str(error)
    if session.bye is None:
        settle(session, session.last_t, "collector-died")
    return "".join(screenshot(session, "x", Display(), at, (120, 36), svg=False) for at in AT)


def test_a_truncated_file_is_replayed_as_far_as_it_goes(tmp_path: Path) -> None:
    path, whole = tmp_path / "cut.phasetop", b"".join(lines_of())
    for cut in (*range(0, 3000, 211), *range(3000, len(whole), 2371)):
        path.write_bytes(whole[:cut])
        shown = pictured(path)
        assert "pane failed" not in shown
        assert cut < 400 or "SmolLM2" in shown or "phasetop" in shown


NUMBER: st.SearchStrategy[object] = st.sampled_from(
    [0, -1, 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**64, 10**30, 0.5, 1e308, -1e308, None, "x", [], {}]
)


@settings(max_examples=20)
@given(data=st.data())
def test_a_hostile_file_never_crashes_it(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = [json.loads(line) for line in lines_of(Turn(tokens=30, stall_at=20))]
    for _ in range(data.draw(st.integers(1, 6))):
        line = data.draw(st.sampled_from(lines))
        key = data.draw(st.sampled_from(sorted(line)))
        if key != "k":
            line[key] = data.draw(NUMBER)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(1, len(lines) - 1))
        lines.insert(at, dict(data.draw(st.sampled_from(lines))))
    path = tmp_path_factory.mktemp("hostile") / "x.phasetop"
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert "pane failed" not in pictured(path)


def test_a_session_without_a_request_has_a_picture() -> None:
    text = screenshot(session_of(opening().sorted()), "x", Display(), None, (120, 36), svg=False)
    assert "READY" in text
    text = screenshot(Session(), "x", Display(), Moment("token", 5), (80, 24), svg=False)
    assert "START" in text
