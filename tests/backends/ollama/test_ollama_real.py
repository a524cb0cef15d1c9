"""A real Ollama 0.32.5 over a real llama-server: loads and their reasons, prefill, cache, cuts, cancels, deaths, pulls."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from phasetop import tasks
from phasetop.lifeline import Start, Target
from phasetop.metrics import measure
from phasetop.session import Run, Session

if TYPE_CHECKING:
    from tests.backends.ollama.conftest import RealOllama
    from tests.conftest import Collected, Held, Home, Spawn

Collect = Callable[..., "Collected"]
REGISTRY = Path(__file__).parents[2] / "tools" / "registry.py"
WORDS = (
    "memory",
    "bridge",
    "music",
    "planet",
    "winter",
    "market",
    "silent",
    "orange",
    "doctor",
    "kitchen",
    "paper",
    "garden",
    "yellow",
    "engine",
    "forest",
)


def long_prompt(words: int, seed: int = 1) -> str:
    return " ".join(WORDS[(i * i * 7 + i * seed) % len(WORDS)] for i in range(words)) + f" {seed}."


def settings(**more: Any) -> dict[str, Any]:
    return {"temperature": 0, "max_tokens": 8, **more}


def on(ollama: RealOllama) -> Start:
    return Start(target=Target("ollama", ollama.url, "smollm2"))


def text_of(run: Run) -> str:
    return "".join(part for part in run.tokens.text if isinstance(part, str))


def states(run: Run) -> list[tuple[str, str | None]]:
    return [(state.s, state.why) for state in run.states.items]


def notices(session: Session) -> list[str]:
    return [notice.code for notice in session.notices.items]


def test_cold_then_warm(collect: Collect, ollama: RealOllama) -> None:
    """Counts, times and rates are the server's own; what differs is the cached part, which only its runner tells."""
    ollama.unload()
    one = collect(on(ollama))
    run = one.ended(one.ask("Write a long story about a ship.", settings=settings(max_tokens=80)))
    session = one.session
    found = measure(session, run)
    assert found.phases.load == "cold"
    assert ("loading", "it was not loaded") in states(run)
    timings = run.timings.last()
    assert timings is not None
    assert timings.load_ms is not None
    assert found.phases.ns("load") == pytest.approx(timings.load_ms * 1e6, abs=1000)
    assert found.phases.ns("prefill") == pytest.approx((timings.prompt_ms or 0) * 1e6, abs=1000)
    assert sum(band.t1 - band.t0 for band in found.phases.bands) == found.phases.wall_ns
    assert found.phases.wall_ns == pytest.approx((timings.total_ms or 0) * 1e6, abs=1e9)
    assert (found.tokens.output, found.tokens.cached) == (80, 0)
    apart = abs((found.rates.decode_per_s or 0) / (found.rates.server_decode_per_s or 1) - 1)
    assert apart <= 0.01 or "server's own clock" in found.sources["rates.decode_tok_per_s"]  # a busy machine delays a read
    assert apart < 0.5
    assert found.rates.prefill_per_s == pytest.approx(found.rates.server_prefill_per_s, rel=0.001)
    load = next(task for task in session.tasks.items if (task.title or "").startswith("load "))
    assert tasks.newest(session.tasks.items, load.task).state == "ok"  # type: ignore[union-attr]
    assert load.total == ollama.model.stat().st_size
    server = session.server_of(run)
    assert server is not None
    assert (server.backend, server.version, server.local, server.pid) == ("ollama", "0.32.5", True, ollama.pid)
    options = {name: option.value for name, option in (server.options or {}).items()}
    assert options.items() >= {"context": 4096, "parallel": 1, "batch": 512, "threads": 1, "flash_attention": "auto"}.items()
    model = session.model_of(run)
    assert model is not None
    assert (model.name, model.arch, model.params, model.quant) == ("smollm2", "llama", 134515008, "Q4_1")
    assert model.file_bytes == ollama.model.stat().st_size
    rss = session.series("server_rss_bytes")
    assert rss is None or max(rss.value, default=0) < 4e9

    again = one.ended(one.ask("Write a long story about a ship.", settings=settings(max_tokens=80)))
    found = measure(session, again)
    assert found.phases.load == "warm"
    assert "loading" not in [state for state, _ in states(again)]
    assert found.phases.ns("load") == 0
    prompt = found.tokens.prompt
    assert prompt is not None
    assert (found.tokens.cached, found.tokens.prefilled) == (prompt - 1, 1)
    truth = ollama.last_truth(prompt)
    assert truth == {"computed": 1, "cached": prompt - 1}
    assert text_of(again) == text_of(run)
    info = again.info.at()
    assert info is not None
    assert (info.applied or {}).items() >= {"temperature": 0.0, "top_k": 40, "context": 4096}.items()


def test_a_long_prefill_shows_how_far_it_is(collect: Collect, ollama: RealOllama) -> None:
    ollama.chat("Hi.", num_predict=1, num_batch=128)
    one = collect(on(ollama))
    run = one.ended(one.ask(long_prompt(420, seed=3), settings=settings(batch=128)))
    found = measure(one.session, run)
    progress = run.progress.items
    assert found.phases.load == "warm"
    assert [prog.done - (prog.cached or 0) for prog in progress] == [0, 128, 256, 384]
    assert {prog.total for prog in progress} == {found.tokens.prompt}
    assert {prog.source for prog in progress} == {"slots"}
    assert progress[0].t < run.tokens.t[0]
    truth = ollama.last_truth(found.tokens.prompt)
    assert (found.tokens.cached, found.tokens.prefilled) == (truth["cached"], truth["computed"])
    prompt = run.prompt.at()
    assert prompt is not None
    assert prompt.n == found.tokens.prompt
    assert prompt.rendered is not None
    assert str(prompt.rendered).startswith("<|im_start|>user\nmemory")
    assert run.slots.items[-1].ctx == 4096
    second = one.ended(one.ask("And the second word?", parent=run.r, settings=settings(max_tokens=30, batch=128)))
    found = measure(one.session, second)
    assert (found.tokens.cached or 0) > 420
    assert found.tokens.cached == ollama.last_truth(found.tokens.prompt)["cached"]
    assert found.rates.prefill_per_s is not None
    assert found.rates.prefill_per_s < 1000  # over what was computed, not over what was cached


def test_another_context_loads_again_and_says_why(collect: Collect, ollama: RealOllama) -> None:
    ollama.chat("Hi.", num_predict=1)
    one = collect(on(ollama))
    run = one.ended(one.ask("Hi.", settings=settings(context=2048)))
    assert ("loading", "num_ctx 4096 → 2048") in states(run)
    found = measure(one.session, run)
    assert found.phases.load == "cold"
    assert found.kv.context == 2048
    info = run.info.at()
    assert info is not None
    assert (info.applied or {})["context"] == 2048
    too_much = one.ended(one.ask("Hi.", settings=settings(context=100_000)))
    assert ("loading", "num_ctx 2048 → 8192") in states(too_much)  # all that the model was trained for
    assert (too_much.info.at().applied or {})["context"] == 8192  # type: ignore[union-attr]
    ollama.chat("Hi.", num_predict=1)  # another client, with the default: the model loads again for it
    last = one.ended(one.ask("Hi.", settings=settings(context=8192)))
    assert [why for state, why in states(last) if state == "loading"] == [
        "num_ctx 4096 → 8192, since another client had loaded it otherwise"
    ]


def test_a_prompt_that_is_cut_is_told(collect: Collect, ollama: RealOllama) -> None:
    one = collect(on(ollama))
    run = one.ended(one.ask(long_prompt(600, seed=5), settings=settings(context=512)))
    found = measure(one.session, run)
    asked = found.tokens.prompt_sent
    assert found.tokens.prompt == 258  # 4 and half of the rest
    assert asked is not None
    assert asked > 600
    cut = next(notice for notice in one.session.notices.items if notice.code == "prompt-cut")
    assert cut.about == {"asked": asked, "kept": 258}
    assert f"{asked:,} tokens became 258" in cut.text
    assert {prog.total for prog in run.progress.items} <= {258}
    raw = one.ended(one.ask(long_prompt(600, seed=5), api="raw", settings=settings(context=512)))
    assert measure(one.session, raw).tokens.prompt_sent is not None
    messages = [{"role": "user", "content": long_prompt(150, seed=i)} for i in range(4)]
    command = one.lifeline.ask(messages=[*messages, {"role": "user", "content": "Which?"}], settings=settings(context=512))
    control = one.until(lambda s: next((c for c in s.controls.items if c.id == command), None))
    many = one.ended(control.r)
    found = measure(one.session, many)
    assert found.tokens.prompt_sent is not None
    assert found.tokens.prompt is not None
    assert found.tokens.prompt < 512 < found.tokens.prompt_sent  # whole messages were dropped
    assert found.tokens.prompt != 258
    whole = one.ended(one.ask("Hi.", settings=settings(context=512)))
    assert measure(one.session, whole).tokens.prompt_sent is None


def test_two_clients_at_once(collect: Collect, ollama: RealOllama) -> None:
    """The slot works for somebody else: the wait is queue, and no progress of theirs is shown as ours."""
    ollama.chat("Hi.", num_predict=1)
    other = threading.Thread(target=ollama.chat, args=(long_prompt(250, seed=8),), kwargs={"num_predict": 30})
    other.start()
    try:
        busy = f"http://127.0.0.1:{ollama.runners()[0].cmdline()[ollama.runners()[0].cmdline().index('--port') + 1]}"
        wait_for(lambda: slots(busy)[0]["is_processing"])
        one = collect(on(ollama))
        run = one.ended(one.ask("Name three rivers.", settings=settings(max_tokens=20)))
    finally:
        other.join()
    assert ("queued", "another request is running") in states(run)
    found = measure(one.session, run)
    assert found.phases.load == "warm"
    timings = run.timings.last()
    assert timings is not None
    wait = (timings.total_ms or 0) - (timings.prompt_ms or 0) - (timings.gen_ms or 0)
    assert found.phases.ns("queue") == pytest.approx(wait * 1e6, rel=0.02, abs=10e6)
    assert (found.phases.ns("queue") or 0) > 1e9
    assert all((prog.total or 0) < 50 for prog in run.progress.items)
    assert found.tokens.cached is None or found.tokens.cached == ollama.last_truth(found.tokens.prompt)["cached"]


def slots(url: str) -> list[dict[str, Any]]:
    import urllib.request

    with urllib.request.urlopen(f"{url}/slots", timeout=5) as answer:
        return list(json.loads(answer.read()))


def wait_for(what: Callable[[], Any], limit_s: float = 20.0) -> Any:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.01)
    return pytest.fail("it did not come")


def test_a_cancel_in_the_prefill_and_the_next_request(collect: Collect, ollama: RealOllama) -> None:
    """The runner finishes the batch under way, for nobody; the next request waits for it, and that wait is queue."""
    ollama.chat("Hi.", num_predict=1)
    one = collect(on(ollama))
    r = one.ask(long_prompt(1700, seed=11), settings=settings())
    one.until(lambda s: s.runs[r].progress.items)
    one.lifeline.cancel(r)
    run = one.ended(r, 10)
    end = run.ends.last()
    assert end is not None
    assert end.finish == "cancelled"
    assert len(run.tokens) == 0
    after = one.ended(one.ask("Hi.", settings=settings()))
    found = measure(one.session, after)
    assert after.ends.last().finish == "length"  # type: ignore[union-attr]
    queued = [why for state, why in states(after) if state == "queued"]
    assert queued == [f"the server still works on request {r}, which was cancelled"]
    assert (found.phases.ns("queue") or 0) > (found.phases.ns("prefill") or 0)
    assert all(each["computed"] < 1700 for each in ollama.truth()[-2:])  # the abandoned one was not read whole


def test_a_cancel_in_the_answer_keeps_it(collect: Collect, ollama: RealOllama) -> None:
    one = collect(on(ollama))
    r = one.ask("Write a long story about a ship.", settings=settings(max_tokens=2000))
    one.until(lambda s: len(s.runs[r].tokens) >= 5)
    one.lifeline.cancel(r)
    run = one.ended(r, 10)
    assert run.ends.last().finish == "cancelled"  # type: ignore[union-attr]
    assert len(run.tokens) >= 5
    again = one.ended(one.ask("Hi.", parent=r, settings=settings()))
    assert measure(one.session, again).phases.load == "warm"


def test_the_runner_is_killed_in_the_answer(collect: Collect, ollama: RealOllama) -> None:
    one = collect(on(ollama))
    r = one.ask("Write a long story about a ship.", settings=settings(max_tokens=2000))
    one.until(lambda s: len(s.runs[r].tokens) >= 5)
    for runner in ollama.runners():
        runner.kill()
    run = one.ended(r, 20)
    end = run.ends.last()
    assert end is not None
    assert end.finish == "error"
    assert end.error is not None
    assert end.error.code == "runner-died"
    assert len(run.tokens) >= 5
    found = measure(one.session, run)
    assert found.latency.ttft_ns is not None
    after = one.ended(one.ask("Hi.", settings=settings()))
    assert after.ends.last().finish == "length"  # type: ignore[union-attr]
    found = measure(one.session, after)
    assert found.phases.load == "cold"
    assert [why for state, why in states(after) if state == "loading"] in (["its runner had ended"], ["it was not loaded"])


def test_unloaded_between_turns(collect: Collect, ollama: RealOllama) -> None:
    one = collect(on(ollama))
    one.ended(one.ask("Hi.", settings=settings()))
    ollama.unload()
    run = one.ended(one.ask("Hi.", settings=settings(keep_alive=0)))
    assert ("loading", "it was unloaded since the last request") in states(run)
    assert measure(one.session, run).phases.load == "cold"


def test_a_server_that_is_restarted_while_the_view_is_open(collect: Collect, ollama: RealOllama) -> None:
    one = collect(on(ollama))
    first = one.ended(one.ask("Hi.", settings=settings()))
    ollama.stop()
    gone = one.ended(one.ask("Hi.", parent=first.r, settings=settings()))
    end = gone.ends.last()
    assert end is not None
    assert end.finish == "error"
    assert end.error is not None
    assert "nothing listens" in str(end.error.text)
    ollama.start()
    back = one.ended(one.ask("Hi.", parent=first.r, settings=settings()))
    assert back.ends.last().finish == "length"  # type: ignore[union-attr]
    assert measure(one.session, back).phases.load == "cold"


def test_an_ollama_that_starts_after_the_view(collect: Collect, ollama: RealOllama) -> None:
    ollama.stop()
    one = collect(on(ollama))
    failed = one.ended(one.ask("Hi.", settings=settings()))
    assert failed.ends.last().finish == "error"  # type: ignore[union-attr]
    ollama.start()
    run = one.ended(one.ask("Hi.", settings=settings()))
    assert run.ends.last().finish == "length"  # type: ignore[union-attr]


def test_two_names_of_one_gguf_share_a_runner(collect: Collect, ollama: RealOllama) -> None:
    """/api/ps lists the first name alone: the other is warm all the same, and its runner applies the GGUF's own template."""
    ollama.write_native("smolnative")
    ollama.chat("Hi.", num_predict=1)
    one = collect(Start(target=Target("ollama", ollama.url, "smolnative")))
    run = one.ended(one.ask("Name three rivers in Europe, and a mountain.", settings=settings(max_tokens=30)))
    found = measure(one.session, run)
    assert found.phases.load == "warm"
    assert "loading" not in [state for state, _ in states(run)]
    truth = ollama.last_truth(found.tokens.prompt)
    assert (found.tokens.cached, found.tokens.prefilled) == (truth["cached"], truth["computed"])
    prompt = run.prompt.at()
    assert prompt is not None
    assert prompt.n == found.tokens.prompt


def test_raw_logprobs_and_what_is_not_ollamas(collect: Collect, ollama: RealOllama) -> None:
    one = collect(on(ollama))
    asked = settings(max_tokens=6, logprobs=2, cache_type_k="q8_0", min_p=0.1)
    run = one.ended(one.ask("The capital of France is", api="raw", settings=asked))
    assert text_of(run)
    assert all(p <= 0 for p in run.tokens.logp[:6])
    ignored = next(notice for notice in one.session.notices.items if notice.code == "settings-ignored")
    assert "cache_type_k" in ignored.text
    assert "OLLAMA_KV_CACHE_TYPE" in ignored.text
    applied = run.info.at().applied  # type: ignore[union-attr]
    assert applied is not None
    assert "cache_type_k" not in applied
    assert applied["min_p"] == 0.1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"think": True}, "cannot think"),
        ({"context": "many"}, "-o num_ctx: Ollama wants a whole number"),
        ({"keep_alive": "soon"}, "--keep-alive soon"),
        ({"format": "xml"}, "json, or a JSON schema"),
    ],
)
def test_errors_before_the_stream(collect: Collect, ollama: RealOllama, given: dict[str, Any], says: str) -> None:
    one = collect(on(ollama))
    end = one.ended(one.ask("Hi.", settings=given)).ends.last()
    assert end is not None
    assert end.finish == "error"
    assert end.error is not None
    assert says in str(end.error.text)


def test_thinking_is_its_own_channel(collect: Collect, ollama: RealOllama) -> None:
    template = (
        "{{- range .Messages }}<|im_start|>{{ .Role }}\n{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}"
        "{{ .Content }}<|im_end|>\n{{ end }}<|im_start|>assistant\n"
        "{{ if $.IsThinkSet }}{{ if $.Think }}<think>{{ end }}{{ end }}"
    )
    ollama.create("smolthink", **{"from": "smollm2", "template": template})
    one = collect(Start(target=Target(None, ollama.url, "smolthink")))
    run = one.ended(one.ask("Name a fruit.", settings=settings(think=True, max_tokens=12)))
    found = measure(one.session, run)
    assert found.tokens.thinking
    assert found.latency.ttft_ns is not None
    assert run.info.at().applied["think"] is True  # type: ignore[union-attr,index]
    one.ended(one.ask("Name a fruit.", settings=settings(think=False)))


# -- the command line -------------------------------------------------------------------------------------------------------


def phasetop(home: Home, ollama: RealOllama, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    env = {**home.env, "OLLAMA_HOST": f"127.0.0.1:{ollama.port}"}
    argv = [sys.executable, "-m", "phasetop", *words]
    return subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, **more
    )


def test_run_by_name(state_home: Home, ollama: RealOllama, held_to_schema: Held, tmp_path: Path) -> None:
    kept = tmp_path / "kept.phasetop"
    asked = ["-p", "Name a river.", "-n", "8", "-o", "num_ctx=4096", "--json", f"--record={kept}"]
    done = phasetop(state_home, ollama, "run", "smollm2", *asked)
    assert done.returncode == 0, done.stderr
    assert {"server", "model", "request", "prompt", "tok", "timings", "end"} <= held_to_schema(kept).keys()
    found = json.loads(done.stdout)
    assert found["server"] == {"kind": "ollama", "version": "0.32.5", "url": ollama.url, "local": True, "link": "none"}
    assert found["server_timings"]["eval_count"] == found["tokens"]["output"] == 8
    assert found["server_timings"]["prompt_eval_count"] == found["tokens"]["prompt"]
    assert found["tokens"]["cached"] + found["tokens"]["prefilled"] == found["tokens"]["prompt"]
    assert found["settings"]["context"] == 4096
    assert found["phases"]["prefill_s"] == pytest.approx(found["server_timings"]["prompt_eval_duration"] / 1e9, abs=1e-5)
    named = phasetop(state_home, ollama, "run", "-p", "Name a river.", "-n", "2", "--plain")
    assert named.returncode == 0
    assert f"took smollm2 at {ollama.url}" in named.stderr.replace(":latest", "")  # what is loaded


def test_a_name_that_is_not_there_is_one_line(state_home: Home, ollama: RealOllama) -> None:
    done = phasetop(state_home, ollama, "run", "smolm2:1b", "-p", "x")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert "closest: smollm2" in lines[0]
    assert "--pull" in lines[0]


def test_models_lists_what_is_installed(state_home: Home, ollama: RealOllama) -> None:
    ollama.chat("Hi.", num_predict=1)
    found = json.loads(phasetop(state_home, ollama, "models", "--json").stdout)["models"]
    mine = next(model for model in found if model["name"] == "smollm2")
    assert (mine["backend"], mine["url"], mine["loaded"]) == ("ollama", ollama.url, True)
    assert (mine["quantisation"], mine["context_trained"]) == ("Q4_1", 8192)
    assert mine["file_bytes"] >= ollama.model.stat().st_size


# -- pulls ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def registry(spawn: Spawn, tmp_path: Path) -> Callable[..., tuple[str, Path]]:
    """Start a registry with one invented model; gives the name to pull, and the log of what was asked of it."""

    def start(**options: Any) -> tuple[str, Path]:
        log = tmp_path / "registry.jsonl"
        argv = [sys.executable, str(REGISTRY), "--port", "0", "--log", str(log)]
        for name, value in options.items():
            argv += [f"--{name.replace('_', '-')}", str(value)]
        process = spawn(argv, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        url = process.stdout.readline().split()[2].rstrip(":")
        return f"{url.removeprefix('http://')}/library/tiny", log

    return start


def asked(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_a_pull_shows_its_bytes_can_be_cancelled_and_goes_on(
    collect: Collect, ollama: RealOllama, registry: Callable[..., tuple[str, Path]]
) -> None:
    name, log = registry(make="library/tiny:latest", size=6_000_000, rate=4_000_000)
    start = Start(target=Target("ollama", ollama.url, name), insecure=True)
    one = collect(start)
    failed = one.ended(one.ask("Hi."))
    end = failed.ends.last()
    assert end is not None
    assert end.error is not None
    assert end.error.code == "no-such-model"
    offer = next(notice for notice in one.session.notices.items if notice.code == "not-installed")
    assert offer.about is not None
    assert offer.about["model"] == name
    command = one.lifeline.get(name)
    control = one.until(lambda s: next((c for c in s.controls.items if c.id == command), None))
    assert control.ok
    layer = f"pull {name}: "

    def of_layers(session: Session) -> list[Any]:
        return [task for task in session.tasks.items if (task.title or "").startswith(layer) and (task.total or 0) > 1e6]

    one.until(lambda s: [task for task in of_layers(s) if 1e6 < (task.done or 0) < 6e6])
    one.lifeline.cancel_task(control.task)
    cancelled = one.until(lambda s: next((t for t in s.tasks.items if t.task == control.task and t.state != "run"), None))
    assert cancelled.state == "cancelled"
    done = max(task.done for task in of_layers(one.session))
    rate = tasks.rate_per_s(one.session.tasks.items, of_layers(one.session)[-1].task)
    assert rate is not None
    assert 1e6 < rate < 16e6
    command = one.lifeline.get(name)
    again = one.until(lambda s: next((c for c in s.controls.items if c.id == command), None))
    ended = one.until(lambda s: next((t for t in s.tasks.items if t.task == again.task and t.state != "run"), None))
    assert ended.state == "ok"
    assert ended.done == ended.total >= 6_000_000  # the small layers mostly have no line
    ranges = [entry["range"] for entry in asked(log) if entry["range"] and entry["length"] > 1e6]
    assert int(ranges[-1].removeprefix("bytes=").partition("-")[0]) > 0.5 * done  # it did not begin again
    one.until(lambda s: [state for state in s.server_states.items if state.s == "ready"])  # and the session goes on with it


def test_run_pulls_what_is_not_there(
    state_home: Home, ollama: RealOllama, registry: Callable[..., tuple[str, Path]]
) -> None:
    name, log = registry(make="library/tiny:latest", size=200_000)
    done = phasetop(state_home, ollama, "run", name, "--pull", "--insecure", "-p", "x", "--json=compact")
    assert done.returncode == 1  # it was pulled; that noise is no model, and Ollama says so
    assert any(entry["range"] for entry in asked(log))
    assert json.loads(done.stdout)["finish"]["reason"] == "error"
    missing = phasetop(state_home, ollama, "models", "get", name.replace("tiny", "huge"), "--insecure")
    assert missing.returncode == 1
    assert "no such model" in missing.stderr
    secure = phasetop(state_home, ollama, "models", "get", name.replace("tiny", "tiny2"))
    assert "--insecure" in secure.stderr


def test_zz_no_runner_is_left_behind(ollama: RealOllama) -> None:
    """A server that ends takes its runners along; they are taken by pid where it was killed."""
    ollama.chat("Hi.", num_predict=1)
    runners = ollama.runners()
    ollama.stop(signal.SIGKILL)
    assert psutil.wait_procs(runners, timeout=5)[1] == []
    ollama.start()


def test_bench(state_home: Home, ollama: RealOllama) -> None:
    """Bare prompts, whose length is put right by what Ollama counted of the warm-up; its cache finds nothing in them."""
    asked = ["-P", "40", "-G", "6", "-r", "2", "--precision", "none", "--backend", "ollama", "--json"]
    done = phasetop(state_home, ollama, "bench", "smollm2", *asked)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (point,) = found["points"]
    assert found["server"]["kind"] == "ollama"
    assert found["plan"]["api"] == "raw"
    assert (point["prompt_tokens"], point["runs"]) == (40, 2)
    assert point["cached"] in (0, None)
    assert point["output_tokens"] <= 6
