"""`phasetop export`: every format of a recording, from hand-made events with figures worked out by hand."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import pytest

from phasetop import events as ev
from phasetop import places
from phasetop.cli import main
from phasetop.cli.export import export
from phasetop.export import FORMATS, Exported, writer_of
from phasetop.export.facts import VARIES, settings_of, setup_of
from phasetop.recording import load
from phasetop.session import Session

MS = 1_000_000
HOSTILE = "=1+1 <script>alert(1)</script> | \x1b[31m `x`"
EVENTS: list[dict[str, Any]] = [
    {"k": "hello", "t": 0, "format": 1, "session": "s", "anchor": {"mono": 5, "wall": 9}, "by": "p 1"},
    {"k": "server", "t": 1, "v": 0, "backend": "llamacpp", "url": "http://127.0.0.1:1"},
    {"k": "model", "t": 2, "m": 0, "v": 0, "name": "<b>m</b>|x", "quant": "Q4_0"},
    {"k": "series", "t": 3, "s": 0, "d": 0, "name": "cpu_cores_used", "unit": "cores", "source": "psutil"},
    {"k": "request", "t": 4, "r": 0, "v": 0, "m": 0, "api": "chat", "messages": [{"role": "user", "content": "hi"}]},
    {"k": "state", "t": 10 * MS, "r": 0, "s": "sent"},
    {"k": "state", "t": 12 * MS, "r": 0, "s": "headers"},
    {"k": "smp", "t": 50 * MS, "t0": 0, "v": {"0": 1.5}},
    {"k": "tok", "t": 110 * MS, "r": 0, "x": HOSTILE, "p": -0.5, "i": 7},
    {"k": "tok", "t": 120 * MS, "r": 0, "x": " two", "c": "think"},
    {"k": "tok", "t": 135 * MS, "r": 0, "x": "@three"},
    {"k": "timings", "t": 140 * MS, "r": 0, "prompt_n": 5, "cached_n": 0, "prompt_ms": 98.0, "gen_n": 3, "gen_ms": 25.0},
    {"k": "end", "t": 140 * MS, "r": 0, "finish": "stop"},
    {"k": "mark", "t": 141 * MS, "at": 130 * MS, "label": "here"},
    {"k": "bye", "t": 142 * MS, "reason": "done", "lines": 14},
]  # fmt: skip


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """The events as a file, with damaged lines in the middle: no JSON, no event, and one with a number that none has."""
    lines = [json.dumps(event, separators=(",", ":")) for event in EVENTS]
    lines[5:5] = ['{"k":"state","t":', '{"zz":"state","t":5}', '{"k":"smp","t":9,"t0":1,"v":{"0":1e308}}']
    path = tmp_path / "a.phasetop"
    path.write_text("\n".join(lines) + "\n")
    return path


def text_of(recording: Path, form: str, **how: Any) -> str:
    exported = Exported(load(recording), recording, places.kept_name(recording), **how)
    return "".join(writer_of(form)(exported))


def test_json_has_the_session_the_requests_and_every_whole_event(recording: Path) -> None:
    told = json.loads(text_of(recording, "json"))
    assert told["events"] == EVENTS
    assert told["requests"][0]["tokens"]["output"] == 3
    session = told["session"]
    assert (session["file"], session["session_id"], session["by"]) == (str(recording), "s", "p 1")
    assert (session["requests"], session["duration_s"], session["complete"], session["redacted"]) == (1, 0.142, True, False)


def test_csv_has_a_row_a_token_and_no_formula(recording: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(text_of(recording, "csv"))))
    assert [row["text"] for row in rows] == [f"'{HOSTILE}", " two", "'@three"]
    assert [row["gap_ms"] for row in rows] == ["", "10.0", "15.0"]
    assert [row["at_s"] for row in rows] == ["0.1", "0.11", "0.125"]
    assert [row["channel"] for row in rows] == ["answer", "think", "answer"]
    assert [row["phase"] for row in rows] == ["decode"] * 3
    assert rows[0]["logprob"] == "-0.5"
    assert (rows[0]["id"], rows[1]["id"], rows[1]["logprob"]) == ("7", "", "")


def test_csv_of_requests_and_of_samples(recording: Path) -> None:
    (request,) = csv.DictReader(io.StringIO(text_of(recording, "csv", what="requests")))
    assert request["tokens.output"] == "3"
    assert float(request["rates.decode_tok_per_s"]) == pytest.approx(2 / 0.025)
    assert request["model.name"] == "<b>m</b>|x"
    (sample,) = csv.DictReader(io.StringIO(text_of(recording, "csv", what="samples")))
    assert (sample["series"], sample["from_s"], sample["to_s"], sample["value"]) == ("cpu_cores_used", "0.0", "0.05", "1.5")


def test_perfetto_has_the_phases_the_tokens_and_the_counter(recording: Path) -> None:
    events = json.loads(text_of(recording, "perfetto"))["traceEvents"]
    phases = {e["name"]: (e["ts"], e["dur"]) for e in events if e.get("cat") == "phase"}
    assert phases["decode"] == (110_000, 25_000)
    assert sum(took for _, took in phases.values()) == 130_000  # sent to the last byte
    tokens = [(e["name"], e["ts"], e["dur"]) for e in events if e.get("cat") == "token"]
    assert tokens == [(HOSTILE, 110_000, 0), (" two", 110_000, 10_000), ("@three", 120_000, 15_000)]
    assert [e["args"] for e in events if e["ph"] == "C"] == [{"cpu_cores_used": 1.5}]
    assert [e["ts"] for e in events if e.get("cat") == "mark"] == [130_000]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_escapes_what_is_not_ours_and_loads_nothing(recording: Path) -> None:
    page = _Page()
    written = text_of(recording, "html")
    page.feed(written)
    assert page.tags <= {"html", "meta", "title", "style", "h1", "h2", "dl", "dt", "dd", "div", "pre", "span"}
    assert "<script>alert(1)</script>" in page.text
    assert "\x1b" not in written
    assert "http" not in written


def test_markdown_cells_hold_no_markup(recording: Path) -> None:
    lines = text_of(recording, "md").splitlines()
    assert "- model: \\<b\\>m\\</b\\>\\|x, Q4\\_0" in lines
    header, rule, row = (line for line in lines if line.startswith("|"))
    assert header.count("|") == rule.count("|") == row.count("|")
    assert "| 3 | 80.0 |" in row


def test_settings_that_hold_a_persons_own_text_stay_out(recording: Path) -> None:
    asked = {"temperature": 0.5, "flash_attention": "on", "grammar": "root ::= mine", "logit_bias": [["mine", -1]]}
    recording.write_text(recording.read_text().replace('"api":"chat"', f'"api":"chat","asked":{json.dumps(asked)}'))
    for form in ("md", "html"):
        text = text_of(recording, form)
        assert "mine" not in text
        assert "0.5" in text


def test_redacted_text_stays_out(recording: Path) -> None:
    lines = recording.read_text().replace('" two"', "4").replace('"@three"', "6").replace(json.dumps(HOSTILE), "47")
    recording.write_text(lines)
    assert "two" not in text_of(recording, "csv") + text_of(recording, "html") + text_of(recording, "perfetto")
    assert "····" in text_of(recording, "html")


def test_ending_chooses_and_the_file_is_whole(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(recording), "-o", str(tmp_path / "x.csv")]) == 0
    assert (tmp_path / "x.csv").read_text() == text_of(recording, "csv")
    assert (tmp_path / "x.csv").stat().st_mode & 0o777 == 0o600
    (tmp_path / "x.csv").chmod(0o644)
    assert main(["export", str(recording), "-o", str(tmp_path / "x.csv")]) == 0
    assert (tmp_path / "x.csv").stat().st_mode & 0o777 == 0o644
    assert main(["export", str(recording), "--to", "json", "-o", str(recording)]) == 1
    assert "the recording itself" in capsys.readouterr().err
    assert main(["export", str(recording), "--to", "tsv"]) == 2
    assert "json, csv, md, html, perfetto" in capsys.readouterr().err
    assert main(["export", str(recording), "--to", "csv", "-o", str(tmp_path / "no" / "x.csv")]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.phasetop", "x.csv"]


def test_json_leaves_out_a_file_that_has_only_a_part_s_name(recording: Path) -> None:
    stranger = [{**EVENTS[0], "session": "other", "part": 2}, {"k": "part", "t": 1, "part": 2}, *EVENTS[4:]]
    lines = (json.dumps(event, separators=(",", ":")) for event in stranger)
    recording.with_name("a.part2.phasetop").write_text("\n".join(lines) + "\n")
    assert json.loads(text_of(recording, "json"))["events"] == EVENTS


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_whose_name_is_no_text(recording: Path, form: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    named = recording.rename(os.fsdecode(os.fsencode(recording.parent) + b"/\xff.phasetop"))
    assert main(["export", str(named), "--to", form]) == 0


def test_a_terminal_gets_no_escapes_and_a_pipe_all_as_it_is(
    recording: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["export", str(recording), "--to", "csv"]) == 0
    assert HOSTILE in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["export", str(recording), "--to", "csv"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "=1+1 <script>" in out
    recording.write_text(recording.read_text().replace("[31m", "[31m\u009b2J"))
    assert main(["replay", str(recording), "--json=compact"]) == 0
    assert "\x9b" not in capsys.readouterr().out


@pytest.mark.parametrize(("form", "ending"), [("html", "html"), ("perfetto", "json")])
def test_what_only_a_program_reads_is_not_poured_over_a_terminal(
    recording: Path, form: str, ending: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["export", str(recording), "--to", form]) == 0  # a pipe gets it
    assert capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["export", str(recording), "--to", form]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"-o {recording.name.partition('.')[0]}.{ending}" in told.err
    assert main(["export", str(recording), "--to", form, "-o", "-"]) == 0  # asked for


def test_what_is_no_plain_file_is_written_to_not_replaced(recording: Path, tmp_path: Path) -> None:
    (tmp_path / "real.csv").touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    assert main(["export", str(recording), "-o", str(tmp_path / "link.csv")]) == 0
    assert (tmp_path / "link.csv").is_symlink()
    os.mkfifo(tmp_path / "fifo")
    fd = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main(["export", str(recording), "--to", "csv", "-o", str(tmp_path / "fifo")]) == 0
        assert os.read(fd, 1 << 16).decode() == (tmp_path / "real.csv").read_text() == text_of(recording, "csv")
    finally:
        os.close(fd)


def test_a_format_from_outside_the_tree(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = tmp_path / "site"
    (plugin / "shout-1.dist-info").mkdir(parents=True)
    (plugin / "shout-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: shout\nVersion: 1\n")
    (plugin / "shout-1.dist-info" / "entry_points.txt").write_text("[phasetop.exporters]\nshout = shout_export:write\n")
    (plugin / "shout_export.py").write_text("def write(exported):\n    yield f'{len(exported.runs)} REQUEST'\n")
    monkeypatch.syspath_prepend(str(plugin))
    try:
        assert text_of(recording, "shout") == "1 REQUEST"
    finally:
        sys.modules.pop("shout_export", None)


def test_help_names_every_format() -> None:
    option = next(each for each in export.params if each.name == "to")
    told = option.get_help_record(click.Context(export))
    assert told is not None
    assert [name for name in FORMATS if f"{name}," not in told[1]] == []


def test_the_facts_are_of_all_requests() -> None:
    """When it began is when the first one was asked; a setting that differs between them is none of the recording's."""
    session = Session()
    anchor = ev.Anchor(mono=1, wall=1_796_000_000_000_000_000)
    session.apply(ev.Hello(t=0, format=1, session="s", anchor=anchor, by="phasetop", host=ev.Host(name="box")))
    for r, seed in enumerate((7, 8)):
        asked = {"seed": seed, "temperature": 0.5}
        session.apply(ev.Request(t=60_000_000_000 * r, r=r, api="chat", asked=asked))
        session.apply(ev.State(t=60_000_000_000 * r, r=r, s="sent"))
    runs = list(session.runs.values())
    assert dict(settings_of(session, runs)) == {"seed": VARIES, "temperature": 0.5}
    assert dict(settings_of(session, runs[1:])) == {"seed": 8, "temperature": 0.5}
    first, second = (dict(setup_of(session, some))["started"] for some in (runs[:1], runs[1:]))
    assert first != second
    assert dict(setup_of(session, runs))["started"] == first
