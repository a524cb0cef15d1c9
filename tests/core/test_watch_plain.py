"""A watched session without a view: texts in their order, summaries, JSON, exit statuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from phasetop import events as ev
from phasetop.session import Session
from phasetop.standing import Standing
from phasetop.watch_plain import follow
from tests.core.small_session import HELLO


class Source:
    """A session that grows by one batch a poll."""

    def __init__(self, *batches: list[Any]) -> None:
        self.session = Session()
        self._batches: Iterator[list[Any]] = iter(batches)
        self.live = True
        self.standing: Standing | None = None

    def poll(self) -> bool:
        batch = next(self._batches, None)
        if batch is None:
            self.live = False
            return False
        for event in batch:
            if isinstance(event, (Standing, type(None))):
                self.standing = event
            elif isinstance(event, Session):
                self.session = event
            else:
                self.session.apply(event)
        return True


def asked(r: int, t: int) -> list[Any]:
    return [ev.Request(t=t, r=r, api="chat"), ev.State(t=t, r=r, s="sent", at=t)]


def tok(r: int, t: int, x: str, **more: Any) -> ev.Tok:
    return ev.Tok(t=t, r=r, x=x, **more)


def end(r: int, t: int, finish: str = "stop", **more: Any) -> ev.End:
    return ev.End(t=t, r=r, finish=finish, **more)


def plain(source: Source, **how: Any) -> int:
    return follow(source, **{"kept_as": None, "as_json": None, "show_thinking": False, **how})


def test_replies_come_in_their_order_each_with_its_summary(capfd: pytest.CaptureFixture[str]) -> None:
    source = Source(
        [HELLO, *asked(0, 1), tok(0, 5, "one"), *asked(1, 6), tok(1, 7, "two ")],
        [tok(0, 8, " more"), tok(0, 9, "hm", c="think")],
        [end(0, 10), tok(1, 11, "three")],
        [end(1, 12)],
    )
    assert plain(source) == 0
    out, err = capfd.readouterr()
    assert out == "one moretwo three"
    assert err.startswith("hm")
    assert err.count("prompt   ") == 2
    assert "not kept" not in err
    assert err.rstrip().endswith("finish   stop")


def test_what_was_read_before_is_told_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    source = Source([HELLO, *asked(0, 1), tok(0, 2, "there already")])
    source.poll()
    told: list[str] = []
    grow = source.poll

    def poll() -> bool:
        told.append(capfd.readouterr().out)
        return grow()

    source.poll = poll  # type: ignore[method-assign]
    assert plain(source) == 0
    assert told[0] == "there already"


def test_thinking_goes_where_it_is_wanted(capfd: pytest.CaptureFixture[str]) -> None:
    assert plain(Source([HELLO, *asked(0, 1), tok(0, 2, "hm", c="think"), end(0, 3)]), show_thinking=True) == 0
    assert capfd.readouterr().out == "hm"


@pytest.mark.parametrize(
    ("ends", "status", "words"),
    [
        (end(0, 9, "cut", detail="link-lost"), 1, "the reply was cut"),
        (end(0, 9, "error", error=ev.Fault(text="no memory", status=500)), 1, "no memory"),
        (end(0, 9, "cancelled"), 0, "finish   cancelled"),
        (end(0, 9, "length"), 0, "finish   length"),
    ],
)
def test_exit_statuses(ends: ev.End, status: int, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert plain(Source([HELLO, *asked(0, 1), tok(0, 2, "x"), ends])) == status
    assert words in capfd.readouterr().err


def test_json_is_one_object_at_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    source = Source([HELLO, *asked(0, 1), tok(0, 2, "a"), end(0, 3), *asked(1, 4), tok(1, 5, "b")])
    assert plain(source, as_json="compact") == 0
    out, err = capfd.readouterr()
    printed = json.loads(out)
    assert out.count("\n") == 1
    assert [one["text"] for one in printed["requests"]] == ["a", "b"]
    assert printed["session"] is None
    assert err == "a\nb"  # each reply that ended has ended its line


def test_the_link_is_told_once_when_it_is_lost_and_once_when_it_is_back(capfd: pytest.CaptureFixture[str]) -> None:
    lost = [Standing(f"link lost {s} s", f"link lost {s} s, trying again: no route") for s in (1, 2, 3)]
    assert plain(Source([HELLO], *([one] for one in lost), [Standing("connecting", "c")], [None], [None])) == 0
    assert capfd.readouterr().err == "phasetop: link lost 1 s, trying again: no route\nphasetop: the link is back\n"


def test_another_session_in_its_place_is_told_from_its_beginning(capfd: pytest.CaptureFixture[str]) -> None:
    other = Session()
    for event in (HELLO, *asked(0, 1), tok(0, 2, "new")):
        other.apply(event)
    assert plain(Source([HELLO, *asked(0, 1), tok(0, 2, "old")], [other], [end(0, 9)])) == 0
    assert capfd.readouterr().out == "oldnew"
