"""What a lane says when its samples are missing, old, or were given up."""

from __future__ import annotations

from phasetop import events as ev
from phasetop.session import Session
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout
from phasetop.tui.machine import Lane, read
from phasetop.tui.machinepane import beside
from phasetop.tui.painter import paint
from phasetop.tui.theme import Look, ink
from phasetop.tui.view import View
from tests.tui.fabricate import MS, S, Script, Turn, ask, opening, sample, session_of


def lanes(session: Session, at: int) -> tuple[Lane, ...]:
    plan = layout(120, 36)
    assert plan is not None
    return FrameMaker(session).frame(at, plan, View()).lanes


def run_with_samples_until(end_ms: int) -> Script:
    script = sample(ask(opening(), 0, Turn(tokens=600)))
    script.events = [event for event in script.events if not isinstance(event, ev.Smp) or event.t <= end_ms * MS]
    return script


def test_two_seconds_without_a_sample_make_a_figure_stale() -> None:
    session = session_of(run_with_samples_until(3000).sorted())
    newest = max(session.samples[0].t)
    fresh, old = lanes(session, newest + 1500 * MS)[0], lanes(session, newest + 4100 * MS)[0]
    assert not fresh.stale
    assert fresh.note.startswith("server 1.")
    assert old.stale
    assert old.note.endswith("s ago")
    assert old.note[0] in "34"
    assert old.number == fresh.number  # the last known, in faint
    drawn = [level for level in old.levels if level is not None]
    assert len(drawn) < len(old.levels) // 2  # the area stops: it is not drawn on
    plan = layout(120, 36)
    assert plan is not None
    canvas = Canvas(120, 36, Look())
    paint(canvas, FrameMaker(session).frame(newest + 4100 * MS, plan, View()), plan)
    row = plan.lanes["machine"].y
    assert canvas.inks[row][canvas.text().split("\n")[row].index(old.number)] is ink("faint")


def test_a_counter_that_was_given_up_says_why() -> None:
    script = run_with_samples_until(0)
    script.add(ev.Series(t=100 * MS, s=0, name="cpu_cores_used", unit="cores", source="psutil", off="not allowed here"))
    lane = lanes(session_of(script.sorted()), 3 * S)[0]
    assert (lane.number, lane.note) == ("—", "not allowed here")


def test_no_counters_at_all() -> None:
    script = run_with_samples_until(0)
    script.events = [event for event in script.events if not isinstance(event, ev.Series)]
    for lane in lanes(session_of(script.sorted()), 3 * S):
        assert (lane.number, lane.note) == ("—", "no sample")


def test_a_mean_on_the_border_is_rounded_alike_by_every_python() -> None:
    """Ten readings whose mean is 22.5 in decimals: a sum that rounds at each step makes 22.500000000000004 of it."""
    tenths = (225, 227, 221, 222, 228, 225, 224, 223, 229, 226)
    series = ev.Series(t=0, s=0, d=1, name="dram_percent", unit="%")
    session = session_of([series, *(ev.Smp(t=i * 100 * MS, t0=0, v={"0": n / 10}) for i, n in enumerate(tenths, 1))])
    assert sum(tenths) == 2250
    assert read(session.series("dram_percent", d=1), 1000 * MS).value == 22.5


def test_a_bar_is_never_drawn_beside_no_samples() -> None:
    """Areas move at 5 Hz and figures at 1 Hz: the first second has the first sample's figure, which stands till the beat."""
    script = sample(ask(opening(), 0, Turn(tokens=300)))
    session = session_of(script.sorted())
    first = session.samples[0]
    numbers = set()
    for at in range(0, 2000 * MS, 20 * MS):
        cpu = lanes(session, at)[0]
        drawn = any(level is not None for level in cpu.levels)
        assert not (drawn and cpu.number == "—"), at
        if drawn and at < S:
            numbers.add(cpu.number)
    assert numbers == {f"{first.value[0]:.2f}"}


def test_a_lane_of_one_row_says_where_its_figure_is_from_as_far_as_there_is_room() -> None:
    def lane(number: str, unit: str, note: str, *, stale: bool = False) -> Lane:
        return Lane("x", "", (), number, unit, note, stale)

    assert beside(lane("611", "GB/s", "61 % est."), 20) == ("GB/s", "61 % est.")
    assert beside(lane("611", "GB/s", "61 % est."), 9) == ("GB/s", "est.")
    assert beside(lane("1.95", "cores", "server 1.90"), 12) == ("cores", "")  # a number alone would say nothing
    assert beside(lane("—", "GB/s", "not begun"), 9) == ("", "not begun")  # the reason is worth more than the unit
    assert beside(lane("96", "%", "3 s ago", stale=True), 9) == ("%", "3 s ago")


def test_a_machines_use_is_a_share_of_the_machine_not_of_a_containers_quota() -> None:
    """Two cores and 4 GiB may be used of 16 and 32: the samples are of all that run beside the container, too."""
    events = run_with_samples_until(3000).sorted()
    hello = next(event for event in events if isinstance(event, ev.Hello))
    hello.host.cores, hello.host.cpu_quota_cores = 16, 2.0
    hello.host.ram_bytes, hello.host.memory_limit_bytes = 32 << 30, 4 << 30
    found = {lane.label: lane for lane in lanes(session_of(events), 3 * S)}
    assert found["CPU"].full == "of 16"
    assert found["RAM"].full == "of 32.0"
