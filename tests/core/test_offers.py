"""What the start screen offers, by what was found."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from phasetop import codec, nearby, places
from phasetop import events as ev
from phasetop.lifeline import Target
from phasetop.nearby import LiveSession, Recording
from phasetop.offers import ago, looked_at, offers
from phasetop.session import Session

NOW = 1_796_000_000.0


def found(*events: ev.Event) -> Session:
    session = Session()
    for event in events:
        session.apply(event)  # type: ignore[arg-type]
    return session


def a_server(v: int, backend: str, *models: ev.Model) -> list[ev.Event]:
    url = f"http://127.0.0.1:{8000 + v}"
    name = "ollama" if backend == "ollama" else "llama-server"
    return [
        ev.Server(t=1, v=v, backend=backend, url=url, version="0.32.5", local=True),
        *models,
        ev.Finding(t=2, name=name, state="ok", text=f"{url}: {len(models)} models", url=url, v=v),
    ]


EMBEDDED = ev.Finding(t=3, name="embedded", state="ok", text="SmolLM2-135M-Instruct")
LIVE = LiveSession(Path("/live/a.phasetop"), "m", int((NOW - 90) * 1e9))
KEPT = Recording(Path("/kept/one.phasetop"), "one", NOW - 7200, 48_000)


def test_what_is_loaded_comes_first_then_the_embedded_model_then_what_runs() -> None:
    session = found(
        *a_server(
            0,
            "ollama",
            ev.Model(t=1, m=0, v=0, name="cold"),
            ev.Model(t=1, m=1, v=0, name="warm", quant="Q4_K_M", loaded=True),
        ),
        EMBEDDED,
    )
    made = offers(session, [LIVE], [KEPT], NOW)
    assert [(one.kind, one.name) for one in made] == [
        ("model", "warm"),
        ("embedded", "SmolLM2-135M-Instruct"),
        ("live", "m"),
        ("model", "cold"),
        ("recording", "one"),
    ]
    assert made[0].target == Target("ollama", "http://127.0.0.1:8000", "warm")
    assert made[0].note == "Q4_K_M, loaded"
    assert made[1].engine == {"file": None, "settings": {}}
    assert made[2].note == "for 2 min"
    assert made[4].note == "48 kB, 2 h ago"


def test_a_server_that_went_away_offers_nothing_any_more() -> None:
    session = found(*a_server(0, "ollama", ev.Model(t=1, m=0, v=0, name="warm", loaded=True)))
    assert [one.name for one in offers(session, [], [], NOW)] == ["warm"]
    session.apply(ev.Finding(t=9, name="ollama", state="missing", text="not at 127.0.0.1:8000, not in PATH"))
    assert offers(session, [], [], NOW) == ()


def test_looked_at_again_a_model_is_offered_once() -> None:
    session = found(
        *a_server(0, "ollama", ev.Model(t=1, m=0, v=0, name="warm")),
        *a_server(1, "ollama", ev.Model(t=5, m=1, v=1, name="warm", loaded=True)),
    )
    assert [(one.name, one.loaded) for one in offers(session, [], [], NOW)] == [("warm", True)]


def test_where_the_model_is_missing_it_can_be_fetched_and_its_progress_is_told() -> None:
    session = found(ev.Finding(t=1, name="embedded", state="limited", text="its small model is not here yet"))
    assert [(one.kind, one.does) for one in offers(session, [], [], NOW)] == [("fetch", "fetches")]
    (row,) = looked_at(session)
    assert (row.found, row.key, row.does) == (True, "g", "fetches it")
    session.apply(ev.Task(t=2, task=0, state="run", title="get", done=49e6, total=98e6))
    (row,) = looked_at(session)
    assert (row.text, row.key, row.does) == ("fetching, 49.0 MB of 98.0 MB, 50 %", "esc", "ends it")
    assert offers(session, [], [], NOW)[0].note == "on its way"
    session.apply(ev.Task(t=3, task=0, state="failed", title="get", why="no route to host"))
    (row,) = looked_at(session)
    assert (row.text, row.key, row.does) == ("no route to host", "g", "tries again")
    session.apply(ev.Task(t=4, task=1, state="cancelled", title="get"))
    assert looked_at(session)[0].does == "fetches it"


def test_what_is_found_of_counters_is_no_place_to_look_for_models() -> None:
    session = found(ev.Finding(t=1, name="nvml", state="broken", text="the NVIDIA driver is not loaded"))
    assert looked_at(session) == ()


def test_gpus_are_named_those_of_one_kind_together() -> None:
    kinds = ("NVIDIA H100", "NVIDIA H100", "AMD Instinct MI300X")
    cards = [ev.Device(t=1, d=d, name=name, mem_bytes=80_000_000_000) for d, name in enumerate(kinds, 1)]
    (row,) = looked_at(found(ev.Device(t=1, d=0, name="EPYC"), *cards))
    assert (row.name, row.text) == ("GPU", "2 × NVIDIA H100, 74.5 GiB; AMD Instinct MI300X, 74.5 GiB")


def test_a_key_is_taken_from_the_finding_and_words_for_a_shell_are_none() -> None:
    session = found(
        ev.Finding(t=1, name="ollama", state="off", text="installed, but not running", todo="o starts it"),
        ev.Finding(t=1, name="llama-server", state="missing", text="not in PATH", todo="phasetop doctor"),
    )
    assert [(row.name, row.found, row.key, row.does) for row in looked_at(session)] == [
        ("Ollama", True, "o", "starts it"),
        ("llama-server", False, "", ""),
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s ago"),
        (59, "59 s ago"),
        (60, "1 min ago"),
        (3599, "60 min ago"),
        (3600, "1 h ago"),
        (200_000, "2 days ago"),
        (-5, "0 s ago"),
    ],
)
def test_ago(seconds: float, words: str) -> None:
    assert ago(seconds) == words


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(places, "state_folder", lambda: tmp_path)
    places.make_private(places.live_folder())
    places.make_private(places.recordings_folder())
    return tmp_path


def a_file(path: Path, *events: ev.Event, kind: str = "run") -> Path:
    host = ev.Host(name="box", os="Linux", cpu="EPYC", cores=2, ram_bytes=1)
    hello = ev.Hello(
        t=0, format=1, session=path.stem, anchor=ev.Anchor(mono=1, wall=7), by="phasetop 0", host=host, kind=kind
    )
    path.write_bytes(codec.encode_all([hello, *events]) + b'{"k":"tok","torn')
    return path


def test_live_are_those_whose_lock_is_held_and_that_have_a_server(state: Path) -> None:
    server, model = ev.Server(t=1, v=0, backend="ollama", url="http://x"), ev.Model(t=1, m=0, v=0, name="warm")
    held = [
        a_file(places.live_path("held"), server, model),
        a_file(places.live_path("own"), server, model),
        a_file(places.live_path("looking"), server, model, kind="observe"),
        a_file(places.live_path("starting")),
    ]
    a_file(places.live_path("dead"), server, model)
    places.live_path("broken").write_bytes(b"\xff\n")
    locks = [os.open(path, os.O_RDWR) for path in held]
    try:
        for fd in locks:
            fcntl.flock(fd, fcntl.LOCK_EX)
        assert nearby.live_sessions(but="own") == [LiveSession(held[0], "warm", 7)]
    finally:
        for fd in locks:
            os.close(fd)
    assert nearby.live_sessions() == []


def test_recordings_newest_first(state: Path) -> None:
    for age, name in ((3, "old.phasetop"), (1, "new.phasetop.gz"), (2, "mid.phasetop")):
        path = places.recordings_folder() / name
        path.write_bytes(b"x")
        os.utime(path, (1000 - age, 1000 - age))
    assert [(one.name, one.when_s) for one in nearby.recordings()] == [("new", 999.0), ("mid", 998.0), ("old", 997.0)]
    assert len(nearby.recordings(limit=1)) == 1


def test_without_folders_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "state_folder", lambda: tmp_path / "none")
    assert nearby.live_sessions() == []
    assert nearby.recordings() == []
