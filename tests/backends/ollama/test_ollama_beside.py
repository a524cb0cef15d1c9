"""What is seen beside a request, judged from recordings: models, runners, slots, cold or warm and why, cut prompts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import codec
from phasetop import events as ev
from phasetop.backends.ollama_gpu import claimed_percent, contradiction, gpu_busy_percent
from phasetop.backends.ollama_model import Loaded, OllamaModel, describe, is_listed, loaded_of, tags_of
from phasetop.backends.ollama_progress import Progress
from phasetop.backends.ollama_prompt import kept_of, looks_cut, prompt_limit
from phasetop.backends.ollama_runner import Runner, RunnerSlot, read_runner, read_slots, runner_of
from phasetop.backends.ollama_slots import SlotFinder, exact_total
from phasetop.backends.ollama_standing import Last, changed, said, standing

if TYPE_CHECKING:
    from tests.backends.ollama.conftest import CapturesFn

WIRE = Path(__file__).parents[2] / "data" / "wire" / "ollama"
BLOB = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MODEL = OllamaModel("smollm2", digest="d1", blob=BLOB, context_trained=8192)


# -- what Ollama tells ------------------------------------------------------------------------------------------------------


def test_a_model_as_show_and_tags_describe_it(captures: CapturesFn) -> None:
    tags = tags_of(captures()["tags"].json)
    assert [tag.name for tag in tags] == ["smolthink:latest", "smollm2:latest", "smollm2-native:latest"]
    model = describe("smollm2", captures()["show"].json, tags[1], local=False)
    assert (model.blob, model.digest) == (BLOB, tags[1].digest)
    assert (model.context_trained, model.adds_bos, model.bos) == (8192, False, 1)
    assert model.defaults == {"stop": ["<|im_start|>", "<|im_end|>"]}
    told = model.described
    assert (told["name"], told["arch"], told["params"], told["quant"]) == ("smollm2", "llama", 134515008, "Q4_1")
    assert told["hparams"]["llama.block_count"] == 30
    assert told["file_bytes"] == 98363007
    assert told["origin"]["file_bytes"].startswith("server")
    assert "file" not in told
    codec.encode(ev.Model(t=0, m=0, v=0, **told))


def test_a_model_that_thinks_does_so_unless_told_otherwise(captures: CapturesFn) -> None:
    tags = tags_of(captures()["tags"].json)
    assert describe("smolthink", {}, tags[0], local=False).defaults == {"think": True}


@pytest.mark.parametrize("name", ["ps-loaded", "ps-num-gpu-0", "ps-two", "ps-none", "ps-after-kill"])
def test_what_is_loaded(captures: CapturesFn, name: str) -> None:
    found = loaded_of(captures()[name].json)
    assert len(found) == {"ps-two": 2, "ps-none": 0, "ps-num-gpu-0": 2}.get(name, 1)
    if name == "ps-loaded":
        assert (found[0].context, found[0].size_bytes, found[0].vram_bytes) == (4096, None, 0)  # a size of 0 is none
        assert found[0].expires_s == pytest.approx(1796000000, abs=3_000_000)
    if name == "ps-num-gpu-0":
        assert found[0].size_bytes == 209_505_483


def test_names_that_share_a_gguf_share_a_line(captures: CapturesFn) -> None:
    lines = loaded_of(captures()["ps-same-file"].json)
    line = next(line for line in lines if line.name == "smollm2:latest")
    native = OllamaModel("smollm2-native", digest="other", blob=BLOB)
    assert is_listed(native, lines) is None  # the recording was made with it at work
    assert is_listed(native, [*lines, dataclasses.replace(line, blob=BLOB)]) is not None


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=4), lambda x: st.lists(x) | st.dictionaries(st.text(max_size=9), x)
    )
)
def test_odd_answers_are_no_models(value: Any) -> None:
    for answer in ({"models": value}, {"models": [value]}, {"models": [{"name": "x", "details": value, "size": value}]}):
        tags_of(answer)
        loaded_of({**answer, "expires_at": value})
    describe("x", {"model_info": value, "modelfile": value, "parameters": value, "capabilities": value}, None, local=False)


# -- the runner -------------------------------------------------------------------------------------------------------------


def side_channel() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (WIRE / "sidechannel.jsonl").read_text().splitlines()]


def argv() -> list[str]:
    return next(line["argv"] for line in side_channel() if "argv" in line)


def runner(**options: Any) -> Runner:
    usual = {"context": 4096, "parallel": 1, "batch": 512, "context_shift": True}
    return Runner(100, 1.0, 40000, BLOB, {**usual, **options})


def test_a_runners_options_come_from_an_allow_list() -> None:
    found = read_runner(7, 1.5, [*argv(), "--api-key", "hush", "--hf-token", "hush"], {"LLAMA_ARG_THREADS": "1"})
    assert found is not None
    assert (found.key, found.port, found.blob) == ((7, 1.5), 41287, BLOB)
    assert found.context == 8192
    options = found.sourced()
    assert options["context"] == ev.Sourced(8192, "argv: the runner's")
    assert options["batch"].value == 1024
    assert options["threads"].value == 1
    assert "LLAMA_ARG_THREADS" in options["threads"].source
    assert options["cache_type_k"] == ev.Sourced("f16", "default")
    assert "hush" not in repr(found)


def test_a_probe_without_a_model_is_no_runner() -> None:
    assert read_runner(1, 1.0, ["llama-server", "--list-devices", "--port", "50000"], {}) is None
    assert read_runner(1, 1.0, ["llama-server", "--model", "/x/sha256-" + BLOB, "--port", "zero"], {}) is None


def test_the_runner_of_a_model_is_the_newest_of_its_gguf() -> None:
    old, new = runner(), dataclasses.replace(runner(), pid=101, started=2.0)
    other = dataclasses.replace(runner(), pid=102, started=3.0, blob="f" * 64)
    assert runner_of([new, old, other], BLOB) == new
    assert runner_of([old, other], None) is None
    assert runner_of([other], None) == other


def slot(**values: Any) -> RunnerSlot:
    usual = {"index": 0, "ctx": 4096, "busy": True, "task": 7, "held": 0, "computed": 0, "cached": 0, "decoded": 0}
    return RunnerSlot(**{**usual, **values})


class Stage:
    """A scene that remembers."""

    def __init__(self) -> None:
        self.r, self.t, self.events, self.settings = 0, 0, [], {}  # type: ignore[var-annotated]

    def now(self) -> int:
        self.t += 1
        return self.t

    def emit(self, *events: ev.Event) -> None:
        self.events += events

    def new_task(self) -> int:
        return 0

    def server(self, **keys: Any) -> None:
        self.settings.update(keys)

    def applied(self, settings: Any) -> None:
        self.settings.update(settings)

    def prompt(self, pieces: Any) -> None:
        self.events.append(pieces)

    def works(self, pid: int) -> None:
        pass


def test_a_recorded_prefill_becomes_progress() -> None:
    """3172 tokens in batches of 1024: 0, 1024, 2048, 3072 computed, the total right in each; then 3251 cached."""
    lines = side_channel()
    head = lines[0]
    stage, finder = Stage(), SlotFinder({})
    progress = Progress(stage, 1024)
    progress.total = head["prompt_tokens_by_tokenize"]
    told: dict[int, list[ev.Event]] = {}
    task = None
    for line in lines:
        if "slot" not in line:
            continue
        slots = read_slots([line["slot"]])
        assert slots is not None
        if slots[0].busy and slots[0].task != task:  # a request of its own, with a watch of its own
            task = slots[0].task
            stage, finder = Stage(), SlotFinder({})
            total = progress.total if not told else head["final_turn2"]["prompt_eval_count"]
            progress = Progress(stage, 1024)
            progress.total = total
            told[len(told)] = stage.events
        finder.first_token = finder.first_token or slots[0].decoded > 0
        found = finder.mine(slots)
        if found is not None:
            progress.saw(found, 0, total_comes=lambda: False)
    first, second = ([event for event in events if isinstance(event, ev.Prog)] for events in told.values())
    assert [event.done for event in first] == [0, 1024, 2048, 3072]
    assert {event.total for event in first} == {3172}
    assert [event.cached for event in first] == [None, 0, 0, 0]  # while its first batch runs nobody can tell yet
    assert second[0].done == second[0].cached == 3251
    assert {event.total for event in second} == {4250}
    final = head["final_turn2"]
    timings = progress.complete(ev.Timings(t=0, r=0, total_n=final["prompt_eval_count"]))
    assert (timings.cached_n, timings.prompt_n) == (3251, 999)


def test_the_last_batch_shows_the_whole_prompt() -> None:
    assert exact_total(slot(held=515, cached=3), 512) is None  # a full batch: more may come
    assert exact_total(slot(held=610, cached=3, computed=512), 512) == 610
    assert exact_total(slot(held=641, cached=627), 512) == 641
    assert exact_total(slot(held=642, cached=627, computed=14, decoded=1), 512) is None
    assert exact_total(slot(held=641, cached=627), None) is None


def test_somebody_elses_request_is_not_ours() -> None:
    finder = SlotFinder({"temperature": 0.0, "max_tokens": 80}, kept=500)
    assert finder.before([slot(task=3, computed=100, held=600)])
    assert finder.mine([slot(task=3, computed=400, held=600)]) is None  # what was there before
    params = {"temperature": 0.0, "n_predict": 80}
    assert finder.mine([slot(task=9, held=900, params=params)]) is None  # holds more than our prompt
    assert finder.mine([slot(task=9, held=400, params={**params, "temperature": 0.7})]) is None
    ours = slot(task=9, held=400, params=params)
    assert finder.mine([ours]) == ours
    assert finder.mine([slot(task=9, held=500, computed=400)]) is not None
    assert finder.mine([slot(task=9, busy=False)]) is None  # it ended without a token for us: it was another's
    assert finder.mine([slot(task=9, held=400, params=params)]) is None


def test_two_requests_of_this_session_are_not_mixed_up() -> None:
    finder = SlotFinder({}, kept=500, alone=False)
    assert finder.mine([slot(task=4, held=300)]) is None
    assert finder.mine([slot(task=4, held=500)]) is not None
    unknown = SlotFinder({}, alone=False)
    assert unknown.mine([slot(task=4, held=300)]) is None
    unknown.first_token = True
    assert unknown.mine([slot(task=4, held=301, computed=300, decoded=1)]) is not None


def test_of_two_slots_neither_where_both_could_be() -> None:
    finder = SlotFinder({})
    assert finder.mine([slot(task=4), slot(index=1, task=5)]) is None
    finder.kept = 100
    assert finder.mine([slot(task=4, held=200), slot(index=1, task=5, held=60)]) == slot(index=1, task=5, held=60)


def test_figures_that_do_not_agree_are_left_alone() -> None:
    stage = Stage()
    progress = Progress(stage, 512)
    progress.saw(slot(held=101, cached=10, computed=90, decoded=1), 0, total_comes=lambda: False)
    timings = ev.Timings(t=0, r=0, total_n=250)
    assert progress.complete(timings) is timings
    assert progress.complete(ev.Timings(t=0, r=0, total_n=100)).cached_n == 10


def test_a_prefill_that_was_seen_to_begin_counts_where_its_total_fits() -> None:
    progress = Progress(Stage(), 512)
    progress.saw(slot(held=60, cached=10), 0, total_comes=lambda: False)  # the last batch: 60 in all
    assert progress.complete(ev.Timings(t=0, r=0, total_n=60)).cached_n == 10
    assert progress.complete(ev.Timings(t=0, r=0, total_n=61)).cached_n is None


def test_a_slot_that_has_only_begun_does_not_say_that_nothing_was_cached() -> None:
    """Seen once, before the runner had looked into its cache: all zero, and the prompt's length is known from elsewhere."""
    stage = Stage()
    progress = Progress(stage, 512)
    progress.total = 17
    progress.saw(slot(held=17), 0, total_comes=lambda: False)
    assert progress.complete(ev.Timings(t=0, r=0, total_n=17)).cached_n is None
    assert [event.cached for event in stage.events if isinstance(event, (ev.Prog, ev.Slot))] == [None, None]
    progress.saw(slot(held=17, cached=16), 0, total_comes=lambda: False)
    progress.saw(slot(held=18, cached=16, computed=1, decoded=1), 0, total_comes=lambda: False)
    assert progress.complete(ev.Timings(t=0, r=0, total_n=17)).cached_n == 16
    assert [event.cached for event in stage.events if isinstance(event, ev.Prompt)] == [16]


def test_progress_waits_for_its_total() -> None:
    stage = Stage()
    progress = Progress(stage, 512)
    progress.saw(slot(held=512), 0, total_comes=lambda: True)
    assert not any(isinstance(event, ev.Prog) for event in stage.events)
    progress.total = 1400
    progress.saw(slot(held=512), 0, total_comes=lambda: True)
    assert [(event.done, event.total) for event in stage.events if isinstance(event, ev.Prog)] == [(0, 1400)]


@given(
    st.recursive(st.none() | st.integers() | st.booleans(), lambda x: st.lists(x) | st.dictionaries(st.text(max_size=9), x))
)
def test_odd_slots_are_none(value: Any) -> None:
    read_slots(value)
    read_slots([{"id": value, "n_ctx": value, "is_processing": value, "next_token": value, "params": value}])


# -- cold or warm, and why --------------------------------------------------------------------------------------------------

LISTED = Loaded("smollm2:latest", digest="d1", context=4096)
HERE = Last((100, 1.0), {"context": 4096}, 1000.0)


def judge(
    wanted: dict[str, Any] | None = None,
    listed: list[Loaded] | None = None,
    runners: list[Runner] | None = None,
    last: Last | None = None,
    now_s: float = 500.0,
) -> tuple[bool | None, str | None]:
    found = standing(MODEL, wanted or {}, listed, runners, last, now_s)
    return found.loaded, found.why


def test_warm_is_listed_with_a_runner_of_these_options() -> None:
    assert judge({}, [LISTED], [runner()]) == (True, None)
    assert judge({"context": 4096, "threads": None}, [LISTED], [runner()]) == (True, None)
    assert judge({"context": 100_000}, [LISTED], [runner(context=8192)]) == (True, None)  # clamped to the trained size
    assert judge({}, [LISTED], None) == (True, None)


def test_nobody_can_tell_without_a_list() -> None:
    assert judge({}, None, None) == (None, None)


def test_cold_has_a_reason() -> None:
    assert judge({}, [], []) == (False, "it was not loaded")
    assert judge({}, [], [], HERE, 1001.0) == (False, "it was unloaded: its keep_alive was over")
    assert judge({}, [], [], HERE, 999.0) == (False, "it was unloaded since the last request")
    assert judge({}, [Loaded("qwen3:8b")], [], HERE, 999.0) == (False, "it was unloaded, qwen3:8b is loaded now")
    assert judge({}, [LISTED], []) == (False, "its runner had ended")  # still listed after a kill
    assert judge({}, [], [runner()]) == (False, "it was being loaded already")
    assert judge({}, [], [runner()], HERE, 999.0) == (False, "it was unloaded since the last request")  # it ends just now
    assert standing(MODEL, {}, [], [runner()], HERE, 999.0).gone == runner()
    assert judge({"context": 2048}, [LISTED], [runner()]) == (False, "num_ctx 4096 → 2048")
    assert judge({"context": 2048, "threads": 4}, [LISTED], [runner(threads=2)]) == (
        False,
        "num_ctx 4096 → 2048, num_thread 2 → 4",
    )
    assert judge({"shift": False}, [LISTED], [runner()]) == (False, "context_shift on → off")
    assert judge({"context": 2048}, [LISTED], None) == (False, "num_ctx 4096 → 2048")


def test_another_client_is_named_where_it_loaded_the_model_otherwise() -> None:
    other = Last((99, 0.5), {"context": 2048})
    found = standing(MODEL, {"context": 2048}, [LISTED], [runner()], other, 0.0)
    assert found.loaded is False
    assert found.why == "num_ctx 4096 → 2048, since another client had loaded it otherwise"
    assert found.other == {"context": (4096, 2048)}
    own = standing(MODEL, {"context": 2048}, [LISTED], [runner()], Last((100, 1.0), {}), 0.0)
    assert own.other is None


def test_two_runners_of_a_model_compared() -> None:
    assert said(changed({"context": 8192, "batch": 512}, {"context": 4096, "batch": 512})) == "num_ctx 8192 → 4096"
    assert said(changed({"threads": None}, {"threads": 4})) == "num_thread the usual → 4"


# -- prompts that were cut --------------------------------------------------------------------------------------------------


def test_what_a_cut_leaves_as_seen() -> None:
    """514 of 2299 at 1024, 2050 of 8736 at 4096, 4098 at 8192: keep and half of the rest."""
    assert prompt_limit(1024, 4) == 514
    assert prompt_limit(4096, 4) == 2050
    assert prompt_limit(8192, 4) == 4098
    assert prompt_limit(1, 4) == 0
    assert kept_of(2299, 1024) == 514
    assert kept_of(8736, 4096) == 2050
    assert kept_of(1023, 1024) == 1023  # fits
    assert kept_of(1024, 1024) == 514  # room for an answer is wanted
    assert kept_of(9000, 4096, adds_bos=True) == 2051


def test_recorded_cuts_are_seen_from_the_count_alone(captures: CapturesFn) -> None:
    for name, ctx, words in (
        ("truncated-chat-one", 1024, 2100),
        ("truncated-default", 4096, 8000),
        ("truncated-raw", 1024, 2100),
    ):
        assert looks_cut(captures()[name].expected["prompt_tokens"], words * 7, ctx)
    assert not looks_cut(514, 514 * 4, 1024)  # an ordinary prompt of just that length
    assert not looks_cut(867, 80_000, 1024)  # dropped messages have no such number


@given(st.integers(0, 20_000), st.integers(0, 9000), st.integers(-1, 50), st.booleans())
def test_a_cut_never_keeps_more_than_fits(asked: int, context: int, keep: int, adds_bos: bool) -> None:
    kept = kept_of(asked, context, keep, adds_bos=adds_bos)
    assert kept <= asked
    assert kept <= max(context, 0)


# -- on the GPU, says Ollama ------------------------------------------------------------------------------------------------


def test_a_claim_that_the_machine_contradicts() -> None:
    full = Loaded("x", size_bytes=5_000, vram_bytes=5_000)
    assert claimed_percent(full) == 100
    assert claimed_percent(Loaded("x", size_bytes=None, vram_bytes=0)) is None
    assert claimed_percent(Loaded("x", size_bytes=4, vram_bytes=1)) == 25
    text = contradiction(100, [], 7.9)
    assert text is not None
    assert "7.9 CPU cores" in text
    assert "no GPU is here" in text
    assert "the GPU idles" in str(contradiction(100, [0.0], 2.0))
    assert contradiction(100, [97.0], 2.0) is None
    assert contradiction(100, [0.0], 0.2) is None
    assert contradiction(100, None, 8.0) is None  # what cannot be measured contradicts nothing
    assert contradiction(50, [0.0], 8.0) is None


def test_gpus_by_the_kernels_files(tmp_path: Path) -> None:
    assert gpu_busy_percent(tmp_path) == []
    busy = tmp_path / "sys/class/drm/card1/device/gpu_busy_percent"
    busy.parent.mkdir(parents=True)
    busy.write_text("7\n")
    assert gpu_busy_percent(tmp_path) == [7.0]
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    assert gpu_busy_percent(tmp_path) is None
