"""A request with some of its values changed: what it was, what it would take, and how values move."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop.knobs import DTYPES, NAMES, RANGES, Name, Values, stepped
from phasetop.metrics import Measures, measure
from phasetop.session import Session
from phasetop.what_if import Own, answer, in_force, moved, own_of
from tests.tui.cards import counted, on_a_card, on_a_cpu, with_weights
from tests.tui.fabricate import MS, Script, Turn, ask, session_of

CARD = session_of(on_a_card(Turn(tokens=500, gap_ms=8.3, prompt=700, cached=188)))


def own(session: Session) -> tuple[Own, Measures]:
    measures = measure(session, session.runs[0])
    return own_of(session, session.runs[0], measures), measures


def worked_example(**model: Any) -> Session:
    """6,607,077,376 parameters at FP16 on 312 TFLOP/s and 2.0 TB/s; 512 tokens in, 512 out (DESIGN)."""
    script = with_weights(peak=2.0e12)
    for event in script.events:
        if isinstance(event, ev.Model):
            event.params, event.hparams, event.weights, event.arch = 6_607_077_376, None, None, None
            event.quant = "F16"
            for name, value in model.items():
                setattr(event, name, value)
        if isinstance(event, ev.Device) and event.d:
            event.peak_flops = {"fp16": ev.Sourced(312e12, "given")}
    return session_of(ask(script, 0, Turn(tokens=512, prompt=512)).sorted())


def test_unchanged_it_predicts_what_the_request_s_own_figures_do() -> None:
    mine, measures = own(CARD)
    found = answer(mine, Values()).study
    assert found is not None
    assert (mine.values.prompt, mine.values.output, mine.values.context, mine.cached) == (512, 500, 700, 188)
    assert found.at_peak.prefill_s == pytest.approx(measures.roofline.predicted_prefill_s)
    assert found.at_peak.tok_per_s == pytest.approx(measures.roofline.predicted_decode_per_s, rel=1e-3)


def test_the_worked_example_and_its_quarter() -> None:
    mine, _ = own(worked_example())
    fp16 = answer(mine, Values()).study
    int4 = answer(mine, Values(dtype="int4")).study
    assert fp16 is not None
    assert int4 is not None
    assert fp16.at_peak.prefill_s == pytest.approx(512 * 4.235e-5, rel=1e-3)
    assert fp16.at_peak.step_s == pytest.approx(6.607e-3, rel=1e-3)
    assert fp16.at_peak.decode_s == pytest.approx(3.383, rel=1e-3)
    assert fp16.at_peak.decode_s is not None
    assert int4.at_peak.decode_s == pytest.approx(fp16.at_peak.decode_s / 4)
    assert int4.at_peak.prefill_s == fp16.at_peak.prefill_s


def test_a_longer_reply_swallows_the_timeline() -> None:
    mine, _ = own(worked_example())
    shares = []
    for output in (16, 256, 4096):
        found = answer(mine, Values(output=output)).study
        assert found is not None
        assert found.at_peak.prefill_s is not None
        assert found.at_peak.decode_s is not None
        shares.append(found.at_peak.prefill_s / (found.at_peak.prefill_s + found.at_peak.decode_s))
    assert shares == pytest.approx([0.170, 0.0127, 0.0008], abs=5e-4)


def test_the_context_is_the_prompt_with_what_was_cached_and_never_less_than_the_prompt() -> None:
    mine, _ = own(CARD)
    assert in_force(mine, Values()).context == 700
    assert in_force(mine, Values(prompt=1024)).context == 1024 + 188
    assert in_force(mine, Values(context=4096)).context == 4096
    assert in_force(mine, Values(context=100)).context == 512
    assert moved(mine, Values(context=512), "context", -1).context == 512


def test_what_is_not_known_says_why_and_can_be_set() -> None:
    mine, _ = own(session_of(on_a_cpu(Turn(tokens=60, gap_ms=300), peak=None)))
    done = answer(mine, Values())
    assert "--measure-bandwidth" in mine.unknown["bandwidth"]
    assert done.study is not None
    assert done.study.at_peak.step_s is None
    changed = moved(mine, Values(), "bandwidth", 1)
    assert changed.bandwidth == 100e9
    step = answer(mine, changed).study
    assert step is not None
    assert step.at_peak.step_s == pytest.approx(4_617_396_480 / 100e9, rel=0.03)  # the weights, and a little cache
    assert step.at_peak.prefill_s is None  # the FLOP/s are still not known


def test_without_its_weights_a_model_has_the_bits_of_its_name_or_none() -> None:
    named, _ = own(worked_example(quant="Q4_K_M"))
    assert named.values.dtype == "Q4_K_M"
    nameless, _ = own(worked_example(quant=None))
    assert answer(nameless, Values()).study is None
    assert "how its weights are stored" in answer(nameless, Values()).why
    assert moved(nameless, Values(), "dtype", 1).dtype == "fp16"
    unknown, _ = own(worked_example(params=None))
    assert "parameters" in answer(unknown, Values(dtype="fp16")).why


def test_experts_of_which_nobody_tells_how_many_are_used_are_not_guessed() -> None:
    mixed = worked_example(arch="qwen3moe", hparams={"qwen3moe.expert_count": 128})
    assert "how many of its parameters a token uses" in answer(own(mixed)[0], Values()).why


def test_before_the_prompt_is_counted_there_is_no_prediction() -> None:
    script: Script = with_weights()
    script.add(ev.Request(t=script.t + MS, r=0, v=0, m=0, api="chat"), ev.State(t=script.t + 2 * MS, r=0, s="sent"))
    done = answer(own(session_of(counted(script, sm=1, memory=1).sorted()))[0], Values())
    assert done.study is None
    assert done.why


def test_a_prompt_of_which_nobody_tells_what_was_cached_is_no_scenario_until_it_is_set() -> None:
    """The whole prompt would be a guess: most of a chat's prompt is cached."""
    script = with_weights(peak=2.0e12)
    script.add(ev.Request(t=script.t + MS, r=0, v=0, m=0, api="chat"), ev.State(t=script.t + 2 * MS, r=0, s="sent"))
    script.add(*(ev.Tok(t=script.t + (10 + 9 * i) * MS, r=0, x="a") for i in range(20)))
    script.add(ev.Timings(t=script.t + 400 * MS, r=0, total_n=700, gen_n=20))
    script.add(ev.End(t=script.t + 400 * MS, r=0, finish="stop"))
    mine, measures = own(session_of(script.sorted()))
    assert (measures.tokens.prompt, measures.tokens.cached) == (700, None)
    assert mine.values.prompt is None
    assert "cached is not told" in answer(mine, Values()).why
    assert answer(mine, Values(prompt=512)).study is not None


def test_types_go_from_few_bits_to_many_and_start_beside_the_file_s() -> None:
    mine, _ = own(CARD)  # 4.6 bits a weight
    assert moved(mine, Values(), "dtype", 1).dtype == "q4_k_m"
    assert moved(mine, Values(), "dtype", -1).dtype == "int4"
    assert moved(mine, Values(dtype="fp16"), "dtype", 9).dtype == DTYPES[-1]
    assert moved(mine, Values(dtype="int2"), "dtype", -9).dtype == DTYPES[0]


@given(st.sampled_from([name for name in NAMES if name != "dtype"]), st.floats(0, 1), st.integers(1, 6))
def test_a_step_up_goes_up_and_a_step_down_comes_back_to_the_grid(name: Name, place: float, steps: int) -> None:
    low, high = RANGES[name]
    value = low * (high / low) ** place
    if name not in ("bandwidth", "flops"):
        value = round(value)
    up, down = stepped(name, value, steps), stepped(name, value, -steps)
    assert low <= down <= value <= up <= high
    assert up > value or value == high
    assert down < value or value == low
    there = stepped(name, stepped(name, up, -1), 1)
    assert there == pytest.approx(up) or up in (low, high)
