"""A view that is open all day: what is kept of a request after it ended is the session's, and nothing else grows."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from phasetop import events as ev
from phasetop import lately
from phasetop.lately import lately as keep
from phasetop.session import Session
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout
from phasetop.tui.view import View
from tests.tui.fabricate import MS, S

LLAMA = {
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 2,
    "llama.attention.head_count_kv": 2,
    "llama.context_length": 4096,
}
OURS = ("phasetop.tui", "phasetop.tally", "phasetop.gaporder", "phasetop.pace", "phasetop.hostphases", "phasetop.metrics")


def one_more(session: Session, r: int) -> None:
    """A request on a CPU whose bandwidth is known, so that the lane of what flows has something to keep, too."""
    if not r:
        peak = ev.Sourced(4e10, "given")
        options = {"context": ev.Sourced(4096, "argv"), "cache_type_k": ev.Sourced("f16", "default")}
        session.apply(ev.Server(t=1, v=0, backend="llamacpp", url="http://127.0.0.1:1", local=True, options=options))
        session.apply(
            ev.Model(t=1, m=0, v=0, name="x", arch="llama", params=10**9, hparams=LLAMA, weights={"layers": 10**8})
        )
        session.apply(ev.Device(t=1, d=0, vendor="host", peak_bytes_per_s=peak))
        session.apply(ev.Series(t=1, s=0, name="cpu_cores_used", unit="cores"))
    t = session.last_t + S
    session.apply(ev.Request(t=t, r=r, v=0, m=0, api="chat"))
    session.apply(ev.State(t=t, r=r, s="sent", at=t))
    for i in range(40):
        session.apply(ev.Tok(t=t + i * 20 * MS, r=r, x=" a"))
        if i % 10 == 0:
            session.apply(ev.Timings(t=t + i * 20 * MS, r=r, prompt_n=5, cached_n=0, prompt_ms=3.0, gen_n=i + 1))
            session.apply(ev.Smp(t=t + i * 20 * MS, t0=t + i * 20 * MS - 200 * MS, v={"0": 1.5}))
    session.apply(ev.End(t=t + 800 * MS, r=r, finish="stop"))


def tracked() -> Counter[str]:
    """Objects of ours that are no session's, by their type."""
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    return Counter(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds if str(kind.__module__).startswith(OURS))


@pytest.mark.parametrize("size", [(120, 36), (200, 60)])
def test_what_is_drawn_of_a_request_goes_when_others_are_drawn(size: tuple[int, int]) -> None:
    plan = layout(*size)
    assert plan is not None
    session = Session()
    maker = FrameMaker(session)

    def live(first: int, last: int) -> Counter[str]:
        for r in range(first, last):
            one_more(session, r)
            for ago in (500 * MS, 0):
                assert not maker.frame(session.last_t - ago, plan, View()).failed
        maker._measured.clear()  # of a few hundred moments, whosesoever they are
        return tracked()

    before = live(0, 30)
    after = live(30, 60)
    assert {kind: n - before[kind] for kind, n in after.items() if n - before[kind] > 2} == {}
    assert before["phasetop.tui.lanes.GapLane"] == before["phasetop.tui.machine.TokenRate"] == lately.REQUESTS


def test_what_was_used_longest_ago_goes_first() -> None:
    kept: dict[str, list[str]] = {}
    made = [keep(kept, name, lambda name=name: [name], 2) for name in ("a", "b", "a", "c", "a", "b")]  # type: ignore[misc]
    assert made == [["a"], ["b"], ["a"], ["c"], ["a"], ["b"]]
    assert made[0] is made[2] is made[4]
    assert made[1] is not made[5]
    assert list(kept) == ["a", "b"]
