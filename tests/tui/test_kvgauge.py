"""The KV gauge: what it says at each stage of what is known."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from phasetop import events as ev
from phasetop.counts import CacheUse, Kv
from phasetop.tui import kvgauge
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import Frame, FrameMaker
from phasetop.tui.layout import layout
from phasetop.tui.painter import paint
from phasetop.tui.theme import Look
from phasetop.tui.view import View
from tests.tui.cards import with_weights
from tests.tui.fabricate import S, Turn, ask, scripted, session_of

SESSION = session_of(scripted("run", Turn(tokens=400, prompt=512, cached=128)))
MIB = 1 << 20


def frame_with(**keys: object) -> Frame:
    plan = layout(120, 36)
    assert plan is not None
    frame = FrameMaker(SESSION).frame(4 * S, plan, View())
    assert frame.measures is not None
    kv = replace(frame.measures.kv, **keys)
    return replace(frame, measures=replace(frame.measures, kv=kv))


def block(frame: Frame, width: int = 39, height: int = 8) -> tuple[list[str], Canvas]:
    canvas = Canvas(width, height, Look())
    rows = kvgauge.paint_block(canvas.area(0, 0, width, height), frame)
    return canvas.text().split("\n")[:rows], canvas


def test_bytes_stand_at_the_right_edge_and_without_them_a_dash() -> None:
    rows, _ = block(frame_with(used_bytes=219 * MIB))
    assert rows[0].endswith(" 219 MiB")
    assert len(rows[0]) == 39
    assert block(frame_with(used_bytes=None))[0][0].endswith("— MiB")


def test_two_caches_have_a_bar_each() -> None:
    caches = (
        CacheUse("base", 8192, 1, 2300, 160 * MIB, 160 * MIB // 8192, None),
        CacheUse("swa", 1024, 1, 1024, 174 * MIB, 174 * MIB // 1024, 512),
        CacheUse("state", 1, 1, 1, 4 * MIB, 4 * MIB, None),
    )
    rows, canvas = block(frame_with(context=8192, caches=caches))
    assert [row.split(" ")[0] for row in rows[1:3]] == ["all", "window"]
    assert rows[1].endswith("44.9 of 160")
    assert rows[2].endswith("174 reused")
    assert "·" in rows[1]
    assert "·" not in rows[2]
    assert len(rows) == 5
    assert all(len(row) <= 39 for row in rows)
    del canvas


def test_one_cache_has_the_one_bar() -> None:
    cache = CacheUse("kv", 4096, 1, 900, 90 * MIB, 90 * MIB // 4096, None)
    assert len(block(frame_with(caches=(cache,)))[0]) == 4


@pytest.mark.parametrize(("left", "bold"), [(12.0, True), (29.9, True), (31.0, False), (800.0, False)])
def test_soon_full_is_bold(left: float, bold: bool) -> None:
    frame = frame_with(full_in_s=left)
    rows, canvas = block(frame)
    assert "full in" in rows[3]
    assert ("b" in canvas.inks[3][36].style) is bold


@pytest.mark.parametrize(
    ("does", "words"), [("stops", "full: the reply ends"), ("shifts", "full: the oldest go"), (None, "full")]
)
def test_full_says_what_the_server_will_do(does: str | None, words: str) -> None:
    assert block(frame_with(full_in_s=0.0, when_full=does))[0][3].endswith(words)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"slots": 4, "shared": True}, "4 slots share it"),
        ({"slots": 4, "shared": False}, "one of 4 slots"),
        ({"slots": 1}, ""),
    ],
)
def test_slots_are_named_where_there_are_several(keys: dict[str, object], words: str) -> None:
    frame = frame_with(**keys)
    rows, _ = block(replace(frame, state="done"))
    assert rows[3].removeprefix("■ reply").split("  ")[-1].strip().endswith(words)


def test_nothing_known_is_a_dash_and_free_cells() -> None:
    unknown = frame_with(**dict.fromkeys(("tokens", "context", "used_bytes")))
    rows, _ = block(unknown)
    assert rows[0].startswith("KV cache        — tokens")
    assert rows[1] == "·" * 39
    assert Kv(None, None).caches == ()


def test_while_the_model_loads_it_is_not_yet_and_a_long_reason_has_the_row_below() -> None:
    why = "the server does not tell its context"
    unknown = frame_with(**dict.fromkeys(("tokens", "context", "used_bytes")))
    assert unknown.measures is not None
    unknown = replace(unknown, measures=replace(unknown.measures, unknown={"kv.context": why}))
    rows, _ = block(unknown)
    assert rows[0].rstrip() == "KV cache        — tokens"
    assert rows[1].rstrip() == why
    assert block(replace(unknown, state="load"))[0][0].endswith("not yet")


@pytest.mark.parametrize("width", [58, 60, 78, 80, 100])
def test_the_row_fits_with_and_without_bytes(width: int) -> None:
    for held in (None, 514 * MIB, 21 * 1024 * MIB):
        canvas = Canvas(width, 1, Look())
        kvgauge.paint_row(canvas.area(0, 0, width, 1), frame_with(used_bytes=held, full_in_s=34.0))
        row = canvas.text().rstrip("\n")
        assert len(row) < width
        assert row.endswith("full in 34 s")


def at_once(*, shared: bool | None = True) -> list[ev.Event]:
    """Two requests on a server of four slots: the second began while the first wrote."""
    script = with_weights(gpus=0, peak=None)
    server = next(event for event in script.events if isinstance(event, ev.Server))
    server.options = {"context": ev.Sourced(32_768, "argv"), "parallel": ev.Sourced(4, "argv")}
    if shared is not None:
        server.options["kv_unified"] = ev.Sourced(shared, "argv")
    ask(script, 0, Turn(tokens=300, gap_ms=15, prompt=1210, finish=None))
    ask(script, 1, Turn(tokens=200, gap_ms=15, prompt=5578, cached=3918, seed=2, finish=None), at_ms=-3500)
    return script.sorted()


def view_of(events: list[ev.Event], size: tuple[int, int] = (200, 60)) -> tuple[str, Frame]:
    session = session_of(events)
    plan = layout(*size)
    assert plan is not None
    frame = FrameMaker(session).frame(session.last_t, plan, View())
    canvas = Canvas(*size, Look())
    assert paint(canvas, frame, plan) == {}
    return canvas.text(), frame


def test_requests_that_run_at_once_have_a_row_each() -> None:
    text, frame = view_of(at_once())
    assert [(number, one.r) for number, one in frame.beside] == [(1, 0)]
    assert "slots  one pool of 32,768 for 4" in text
    lines = text.split("\n")
    at = next(y for y, row in enumerate(lines) if "slots  one pool" in row)
    this, other = (row[104:146].rstrip() for row in lines[at + 1 : at + 3])
    assert this.startswith("2  ▒")  # what was cached
    assert this.endswith("5,774 this turn")
    assert other.startswith("1  ")
    assert other.endswith("decode")
    assert "slots share it" not in text
    own = view_of(at_once(shared=False))[0]
    assert "slots  4 of 8,192 each" in own


def test_alone_or_where_there_is_no_room_there_are_no_rows() -> None:
    assert "one pool" not in view_of(at_once(), (120, 36))[0]
    done = [event for event in at_once() if getattr(event, "r", None) != 0]
    assert view_of(done)[1].beside == ()


def test_what_has_no_room_beside_the_forecast_is_said_in_fewer_words_never_cut() -> None:
    rows, _ = block(frame_with(slots=4, shared=True, full_in_s=7200.0))
    assert rows[-1].split()[3:] == ["4", "slots", "full", "in", "2", "h"]
    rows, _ = block(frame_with(slots=4, shared=True, full_in_s=None))
    assert rows[-1].endswith("4 slots share it")
