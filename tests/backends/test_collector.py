"""The collector as a process: what it writes for a server's every mood, its commands, its life and death."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from phasetop import events as ev
from phasetop.backends.collector import Collector
from phasetop.backends.recorder import Recorder
from phasetop.lifeline import Lifeline, Start, Target
from phasetop.places import is_live
from phasetop.recording import load
from phasetop.session import Session

if TYPE_CHECKING:
    from tests.conftest import Collected, Home, Metronome

Collect = Callable[..., "Collected"]
Beat = Callable[..., "Metronome"]


def joined(session: Session, r: int = 0) -> str:
    return "".join(part for part in session.runs[r].tokens.text if isinstance(part, str))


def sse(*objects: Any) -> str:
    return "".join(f"data: {json.dumps(each)}\n\n" for each in objects)


def chunk(text: str | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {} if text is None else {"content": text}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "object": "chat.completion.chunk", **more}


# -- what it writes -------------------------------------------------------------------------------------------------------


def test_a_session_in_order(collect: Collect, metronome: Beat) -> None:
    beat = metronome(rate=500, tokens=40, prefill_ms=40, prompt=100)
    one = collect(beat.url)
    one.ask()
    run = one.ended()
    session = one.session
    assert session.hello is not None
    assert session.hello.by.startswith("phasetop ")
    assert session.hello.argv == []
    assert [s.s for s in run.states.items] == ["sent", "headers"]
    sent, headers = run.states.items
    assert sent.at is not None
    assert sent.at <= sent.t <= run.tokens.t[0]
    assert sent.at <= headers.t
    assert [(p.done, p.total) for p in run.progress.items] == [(0, 100), (25, 100), (50, 100), (75, 100), (100, 100)]
    assert run.tokens.count[-1] == 40
    assert run.tokens.uncounted == -1
    end = run.ends.last()
    assert end is not None
    assert (end.finish, end.detail) == ("stop", "eos")
    timings = run.timings.last()
    assert timings is not None
    assert (timings.prompt_n, timings.cached_n, timings.gen_n) == (100, 0, 40)
    server = session.server_of(run)
    assert server is not None
    assert (server.backend, server.url, server.local, server.pid) == ("llamacpp", beat.url, True, beat.process.pid)
    model = session.model_of(run)
    assert model is not None
    assert (model.name, model.params, model.context_trained) == ("llama3.1:8b", 8030261312, 131072)
    one.lifeline.close()
    assert session.bye is not None
    assert (session.bye.reason, session.bye.lines) == ("done", session.lines - 1)


@pytest.mark.skipif(sys.platform != "linux", reason="kernel receive stamps: Linux has them")
def test_arrivals_are_when_the_tokens_came(collect: Collect, metronome: Beat) -> None:
    """Every stamp lies after its sending, and (loopback, kernel stamps) hardly later where the sender was not held up."""
    beat = metronome(rate=200, tokens=60, prefill_ms=5)
    one = collect(beat.url)
    one.ask()
    run = one.ended()
    assert one.session.hello is not None
    anchor = one.session.hello.anchor.mono
    late = sorted(t + anchor - sent for t, sent in zip(run.tokens.t, beat.sent(), strict=True))
    assert late[0] > -200_000
    assert late[len(late) // 10] < 5_000_000


def test_a_chat_goes_on_with_its_history(collect: Collect, recording_server: RecordingServer) -> None:
    one = collect(recording_server.url)
    first = one.ask("one")
    one.ended(first)
    second = one.ask("two", parent=first)
    one.ended(second)
    fresh = one.ask("three")
    one.ended(fresh)
    asked = [body["messages"] for body in recording_server.bodies]
    assert asked[0] == [{"role": "user", "content": "one"}]
    assert asked[1] == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "é🦙 fine"},
        {"role": "user", "content": "two"},
    ]
    assert asked[2] == [{"role": "user", "content": "three"}]
    info = one.session.runs[second].info.at()
    assert info is not None
    assert info.messages == [{"role": "user", "content": "two"}]  # new ones only
    assert info.parent == first


def test_a_queued_ask_waits_for_the_one_before_and_sees_its_reply(
    collect: Collect, recording_server: RecordingServer
) -> None:
    recording_server.hold.clear()
    one = collect(recording_server.url)
    first = one.ask("one")
    second = one.ask("two", parent=first, after=first)
    one.until(lambda s: any(state.s == "queued" for state in s.runs[second].states.items))
    assert len(recording_server.bodies) <= 1
    recording_server.hold.set()
    one.ended(second)
    assert recording_server.bodies[1]["messages"][1] == {"role": "assistant", "content": "é🦙 fine"}


def test_an_ask_waits_for_its_history_whatever_it_is_queued_after(
    collect: Collect, recording_server: RecordingServer
) -> None:
    recording_server.hold.clear()
    one = collect(recording_server.url)
    first = one.ask("one")
    aside = one.ask("aside")
    one.lifeline.cancel(aside)
    one.ended(aside)
    second = one.ask("two", parent=first, after=aside)
    one.until(lambda s: any(state.after == first for state in s.runs[second].states.items))
    recording_server.hold.set()
    one.ended(second)
    assert [message["content"] for message in recording_server.bodies[-1]["messages"]] == ["one", "é🦙 fine", "two"]


def test_keys_of_llama_cpp_go_only_to_llama_cpp(collect: Collect, recording_server: RecordingServer) -> None:
    one = collect(recording_server.url)
    one.ended(one.ask("x", settings={"temperature": 0.5, "max_tokens": 7, "top_k": 3, "stop": "END", "logprobs": 2}))
    body = recording_server.bodies[0]
    assert body["return_progress"] is True
    assert body["timings_per_token"] is True
    assert (body["temperature"], body["max_tokens"], body["top_k"]) == (0.5, 7, 3)
    assert (body["stop"], body["logprobs"], body["top_logprobs"]) == (["END"], True, 2)
    recording_server.props = False
    other = collect(recording_server.url)
    other.ended(other.ask("x", settings={"temperature": 0.5}))
    body = recording_server.bodies[-1]
    assert not {"return_progress", "timings_per_token", "cache_prompt"} & body.keys()
    assert other.session.servers[0].at().backend == "openai"  # type: ignore[union-attr]
    assert "no-props" in [notice.code for notice in other.session.notices.items]


def test_a_raw_prompt_goes_to_completion(collect: Collect, metronome: Beat) -> None:
    one = collect(metronome(rate=2000, tokens=5, prefill_ms=1).url)
    run = one.ended(one.ask("2+2=", api="raw"))
    assert run.tokens.count[-1] == 5
    assert list(run.tokens.ids) == [0, 1, 2, 3, 4]
    end = run.ends.last()
    assert end is not None
    assert (end.finish, end.detail) == ("stop", "eos")


def test_a_generic_server_counts_by_lines_until_the_usage_comes(collect: Collect, metronome: Beat) -> None:
    one = collect(metronome(rate=2000, tokens=12, prefill_ms=1, no_props=True).url)
    run = one.ended(one.ask())
    assert run.tokens.uncounted == 0
    assert run.tokens.count[-1] == 12
    assert [s.s for s in run.states.items] == ["sent"]
    assert one.session.servers[0].at().backend == "openai"  # type: ignore[union-attr]


def test_redacted_sessions_hold_lengths_only(collect: Collect, metronome: Beat) -> None:
    beat = metronome(rate=2000, tokens=6, prefill_ms=1)
    one = collect(Start(target=Target(None, beat.url), redact=True))
    one.ended(one.ask("my SECRET prompt", settings={"logprobs": 2, "stop": ["SECRET"]}))
    path = one.lifeline.path
    assert path is not None
    data = path.read_text()
    assert "SECRET" not in data
    assert " the" not in data
    tokens = one.session.runs[0].tokens
    assert tokens.text == [len(" the"), len(" model"), len(" reads"), len(" every"), len(" weight"), len(" again")]
    assert tokens.logp[0] == pytest.approx(-0.1)


def test_the_key_is_in_no_file(
    collect: Collect, state_home: Home, metronome: Beat, recording_server: RecordingServer
) -> None:
    key = "sk-phasetop-hush-4711"
    recording_server.key = key
    good = collect(Start(target=Target(None, recording_server.url), api_key=key))
    good.ended(good.ask())
    assert good.session.runs[0].ends.last().finish == "stop"  # type: ignore[union-attr]
    bad = collect(Start(target=Target(None, recording_server.url.replace("//", "//u:wrong-hush@") + "?k=hush")))
    end = bad.ended(bad.ask()).ends.last()
    assert end is not None
    assert end.finish == "error"
    assert end.error is not None
    assert end.error.code == "key-needed"
    assert "--api-key" in str(end.error.text)
    bad.lifeline.set(api_key=key)
    bad.until(lambda s: any(c.op == "set" and c.ok for c in s.controls.items))
    written = b"".join(path.read_bytes() for path in state_home.path.rglob("*") if path.is_file())
    assert b"hush" not in written
    assert b"hello" in written  # it did look at the sessions


# -- commands -------------------------------------------------------------------------------------------------------------


def test_cancel_keeps_what_came_and_the_next_request_is_fine(collect: Collect, metronome: Beat) -> None:
    one = collect(metronome(rate=100, tokens=100_000, prefill_ms=1).url)
    r = one.ask()
    one.until(lambda s: len(s.runs[r].tokens) >= 5)
    one.lifeline.cancel(r)
    run = one.ended(r, 10)
    assert run.ends.last().finish == "cancelled"  # type: ignore[union-attr]
    assert len(run.tokens) >= 5
    again = one.ask()
    one.until(lambda s: again in s.runs and len(s.runs[again].tokens) >= 2)
    one.lifeline.cancel(again)
    one.ended(again, 10)


def test_cancel_before_the_headers(collect: Collect, recording_server: RecordingServer) -> None:
    recording_server.hold.clear()
    one = collect(recording_server.url)
    r = one.ask()
    one.until(lambda s: any(state.s == "sent" for state in s.runs[r].states.items))
    one.lifeline.cancel(r)
    assert one.ended(r, 10).ends.last().finish == "cancelled"  # type: ignore[union-attr]
    recording_server.hold.set()


def test_commands_that_make_no_sense_are_answered(collect: Collect, metronome: Beat) -> None:
    one = collect(metronome(rate=2000, tokens=2, prefill_ms=1).url)
    line = one.lifeline
    numbers = [
        line.cancel(99),
        line._send(op="cancel"),
        line._send(op="dance"),
        line._send(op="ask", parent=7),
        line._send(op="mark", at="never"),
        line.mark(12, "here"),
        line.set(sample_hz=9, logprobs=3),
    ]
    answers = one.until(
        lambda s: {c.id: c for c in s.controls.items if c.id in numbers} if len(s.controls.items) > 7 else None
    )
    assert [answers[n].ok for n in numbers] == [False, False, False, False, False, True, True]
    assert all(answers[n].why for n in numbers[:5])
    assert [(m.at, m.label) for m in one.session.marks.items] == [(12, "here")]
    one.ended(one.ask())
    assert one.session.runs[0].info.at().asked == {"logprobs": 3}  # type: ignore[union-attr]


def test_a_stop_in_mid_stream_ends_everything_in_order(collect: Collect, metronome: Beat) -> None:
    one = collect(metronome(rate=100, tokens=100_000, prefill_ms=1).url)
    r = one.ask()
    one.until(lambda s: len(s.runs[r].tokens) >= 3)
    assert one.lifeline.close() == 0
    assert one.session.runs[r].ends.last().finish == "cancelled"  # type: ignore[union-attr]
    assert one.session.bye is not None
    assert one.session.bye.reason == "stopped"


# -- servers in trouble ---------------------------------------------------------------------------------------------------


def test_nothing_listens(collect: Collect, free_port: int) -> None:
    one = collect(f"http://127.0.0.1:{free_port}")
    end = one.ended(one.ask()).ends.last()
    assert end is not None
    assert end.finish == "error"
    assert end.error is not None
    assert f"127.0.0.1:{free_port}" in str(end.error.text)
    assert "\n" not in str(end.error.text)


def test_loading_is_waited_for_and_is_the_requests_load(collect: Collect, recording_server: RecordingServer) -> None:
    recording_server.loading = 4
    one = collect(recording_server.url)
    run = one.ended(one.ask())
    assert run.ends.last().finish == "stop"  # type: ignore[union-attr]
    states = [state.s for state in one.session.server_states.items]
    assert states == ["loading", "ready"]
    first = run.info.first_t
    ready = one.session.server_states.items[-1].t
    assert first < ready


def test_a_503_to_the_request_itself_is_tried_again(collect: Collect, recording_server: RecordingServer) -> None:
    one = collect(recording_server.url)
    one.until(lambda s: any(state.s == "ready" for state in s.server_states.items))
    recording_server.loading = 3
    run = one.ended(one.ask())
    assert run.ends.last().finish == "stop"  # type: ignore[union-attr]
    states = [state.s for state in run.states.items]
    assert states.count("retry") == 3
    assert states.count("loading") == 1
    assert states[-1] == "sent"  # it told no progress: its headers mean nothing


CUT = [{"ms": 1, "text": sse(chunk("one"))}, {"ms": 5, "text": sse(chunk(" two"))}]
TOO_LONG = (
    '{"error":{"code":400,"message":"request (1871 tokens) exceeds the available context size (512 tokens), '
    'try increasing it","type":"exceed_context_size_error","n_prompt_tokens":1871,"n_ctx":512}}'
)
BROKEN: list[tuple[str, list[dict[str, Any]], str, str, int]] = [
    ("closed early", [*CUT, {"close": True}], "cut", "one two", 2),
    ("reset", [*CUT, {"ms": 20, "abort": True}], "cut", "one two", 2),
    ("ends without a finish", CUT, "cut", "one two", 2),
    ("an error in a data line", [*CUT, {"text": sse({"error": {"code": 500, "message": "boom"}})}], "error", "one two", 2),
    ("an error field", [*CUT, {"text": 'error: {"code":400,"message":"ctx"}\n\ndata: [DONE]\n\n'}], "error", "one two", 2),
    ("a proxy's last words", [*CUT, {"text": "proxy error: Failed to read connection"}], "error", "one two", 2),
    (
        "split characters and line ends",
        [
            {"b64": "ZGF0YTp7ImNob2ljZXMiOlt7ImRlbHRhIjp7ImNvbnRlbnQiOiLk"},  # data:{"choices":[{"delta":{"content":"\xe4
            {"b64": "uK0ifX1dfQ0K"},  # \xb8\xad"}}]} CR LF
            {"text": "\r\n: ping\r\n\r\n"},
            {"text": sse(chunk(" a\u2028b\u0085c")) + sse(chunk(None, "stop")) + "data: [DONE]\n\n"},
        ],
        "stop",
        "中 a\u2028b\u0085c",
        2,
    ),
]


@pytest.mark.parametrize(("name", "script", "finish", "text", "tokens"), BROKEN, ids=[case[0] for case in BROKEN])
def test_broken_streams_keep_what_came(
    collect: Collect, metronome: Beat, name: str, script: list[dict[str, Any]], finish: str, text: str, tokens: int
) -> None:
    one = collect(metronome(script=script).url)
    run = one.ended(one.ask())
    end = run.ends.last()
    assert end is not None
    assert end.finish == finish
    assert joined(one.session) == text
    assert run.tokens.count[-1] == tokens


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (400, TOO_LONG, "1,?871"),
        (401, '{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}', "--api-key"),
        (404, '{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}', "404|not found"),
        (500, '{"error":{"code":500,"message":"model name=broken failed to load","type":"server_error"}}', "failed to load"),
        (502, "<html><body><h1>502 Bad Gateway</h1></body></html>", "502"),
        (500, "", "500"),
    ],
)  # fmt: skip
def test_errors_before_the_stream_are_one_line(collect: Collect, metronome: Beat, status: int, body: str, says: str) -> None:
    import re

    one = collect(metronome(script=[{"status": status}, {"text": body}]).url)
    end = one.ended(one.ask()).ends.last()
    assert end is not None
    assert end.finish == "error"
    assert end.error is not None
    assert end.error.status == status
    text = str(end.error.text)
    assert re.search(says, text, re.I), text
    assert "\n" not in text
    assert "<" not in text


def test_a_redirect_is_named_and_not_followed(collect: Collect, metronome: Beat) -> None:
    head = {"status": 302, "headers": {"location": "https://user:hush@elsewhere.example/x?key=hush"}}
    one = collect(metronome(script=[head, {"text": ""}]).url)
    end = one.ended(one.ask()).ends.last()
    assert end is not None
    assert end.error is not None
    assert "elsewhere.example" in str(end.error.text)
    assert "hush" not in str(end.error.text)


def test_a_hundred_requests_in_a_row_without_a_loss(collect: Collect, metronome: Beat) -> None:
    one = collect(metronome(rate=5000, tokens=3, prefill_ms=1, progress=1).url)
    for i in range(100):
        run = one.ended(one.ask(f"{i}"))
        assert run.ends.last().finish == "stop"  # type: ignore[union-attr]
        assert run.tokens.count[-1] == 3
    assert len(one.session.runs) == 100


# -- life and death -------------------------------------------------------------------------------------------------------


def gone(pid: int, limit_s: float = 10.0) -> bool:
    """Whether a process ended (reaped or not) within the limit."""
    try:
        process = psutil.Process(pid)
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return True
            time.sleep(0.01)
    except psutil.NoSuchProcess:
        return True
    return False


def test_kill_9_of_the_collector_is_noticed(collect: Collect, metronome: Beat) -> None:
    one = collect(metronome(rate=200, tokens=100_000, prefill_ms=1).url)
    r = one.ask()
    one.until(lambda s: len(s.runs[r].tokens) >= 3)
    os.kill(one.lifeline.pid, signal.SIGKILL)
    run = one.ended(r, 10)
    end = run.ends.last()
    assert end is not None
    assert (end.finish, end.detail) == ("cut", "collector-died")
    path = one.lifeline.path
    one.lifeline.close()
    assert path is not None
    assert path.exists()  # an unfinished session stays
    assert not is_live(path)
    assert len(load(path).runs[r].tokens) >= 3


def test_sigterm_to_the_collector_ends_the_session_in_order(collect: Collect, metronome: Beat) -> None:
    one = collect(metronome(rate=200, tokens=100_000, prefill_ms=1).url)
    r = one.ask()
    one.until(lambda s: len(s.runs[r].tokens) >= 3)
    os.kill(one.lifeline.pid, signal.SIGTERM)
    end = one.ended(r, 10).ends.last()
    assert end is not None
    assert (end.finish, end.detail) == ("cancelled", "signal")
    one.until(lambda s: s.bye is not None)
    assert one.session.bye is not None
    assert one.session.bye.reason == "signal"


VIEWER = """
import sys, time
from phasetop.lifeline import Lifeline, Start, Target
line = Lifeline(Start(target=Target(None, sys.argv[1]), on_gone=sys.argv[2]))
line.ask(messages=[{"role": "user", "content": "x"}])
while not (line.follower.session.runs.get(0) and len(line.follower.session.runs[0].tokens) > 3):
    line.follower.poll()
    time.sleep(0.005)
print(line.pid, line.path, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(("on_gone", "finish"), [("stop", "cancelled"), ("finish", "stop")])
def test_kill_9_of_the_viewer_leaves_no_collector(
    state_home: Home, metronome: Beat, spawn: Callable[..., subprocess.Popen[str]], on_gone: str, finish: str
) -> None:
    beat = metronome(rate=100, tokens=60, prefill_ms=1)
    viewer = spawn([sys.executable, "-c", VIEWER, beat.url, on_gone], stdout=subprocess.PIPE, text=True, env=state_home.env)
    assert viewer.stdout is not None
    pid, path = viewer.stdout.readline().split()
    viewer.send_signal(signal.SIGKILL)
    assert gone(int(pid))
    session = load(Path(path))
    assert session.bye is not None
    assert session.bye.reason == "viewer_gone"
    assert session.runs[0].ends.last().finish == finish  # type: ignore[union-attr]


def test_sigterm_ends_what_was_let_run_on_without_a_viewer(
    state_home: Home, metronome: Beat, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    beat = metronome(rate=100, tokens=100_000, prefill_ms=1)
    viewer = spawn([sys.executable, "-c", VIEWER, beat.url, "finish"], stdout=subprocess.PIPE, text=True, env=state_home.env)
    assert viewer.stdout is not None
    pid, path = viewer.stdout.readline().split()
    viewer.send_signal(signal.SIGKILL)
    viewer.wait()
    os.kill(int(pid), signal.SIGTERM)
    assert gone(int(pid))
    session = load(Path(path))
    assert session.bye is not None
    assert session.bye.reason == "signal"
    end = session.runs[0].ends.last()
    assert end is not None
    assert (end.finish, end.detail) == ("cancelled", "signal")


def test_a_look_around_that_fails_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(recorder: Recorder, *, models: bool) -> None:
        raise LookupError("a server that nobody expected")

    monkeypatch.setattr("phasetop.backends.discover.discover", broken)
    session, collector, recorder = in_process(tmp_path)
    collector.obey({"op": "discover", "id": 7})
    until(lambda: (tmp_path / "s.phasetop").read_bytes().count(b'"op":"discover"'))
    collector.end("stopped")
    recorder.close("done")
    answer = session().controls.items[-1]
    assert (answer.op, answer.id, answer.ok) == ("discover", 7, False)
    assert answer.why == "phasetop's own error: LookupError"


def test_a_task_ends_once_and_its_end_stands_before_the_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(recorder: Recorder, task: int, spec: str, cancelled: threading.Event) -> None:
        if spec == "hf:a/quick.gguf":
            return
        recorder.emit(ev.Task(t=recorder.now(), task=task, state="run", title=spec))
        cancelled.wait(20)
        recorder.emit(ev.Task(t=recorder.now(), task=task, state="cancelled", title=spec))

    monkeypatch.setattr("phasetop.backends.fetch.fetch", fetch)
    session, collector, recorder = in_process(tmp_path)
    collector.obey({"op": "get", "id": 1, "model": "hf:a/quick.gguf"})
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "get-0"])
    collector.obey({"op": "cancel", "id": 2, "task": 0})
    collector.obey({"op": "get", "id": 3, "model": "hf:a/slow.gguf"})
    assert collector.end("stopped") == "done"
    recorder.close("done")
    controls = {control.id: control for control in session().controls.items}
    assert (controls[1].ok, controls[1].task) == (True, 0)
    assert (controls[2].ok, controls[2].why) == (False, "there is no task 0 running")
    assert [(task.task, task.state) for task in session().tasks.items] == [(1, "run"), (1, "cancelled")]


def in_process(folder: Path) -> tuple[Callable[[], Session], Collector, Recorder]:
    """A collector in this process, without samplers, and what it wrote."""
    recorder = Recorder(folder / "s.phasetop", os.open(os.devnull, os.O_WRONLY))
    recorder.open("s", [], "run", ev.Host())
    return lambda: load(folder / "s.phasetop"), Collector(recorder, {}), recorder


def until(what: Callable[[], object]) -> None:
    """Return when it is true; fail after 20 s."""
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_without_a_state_folder_the_session_lives_in_the_pipe(
    state_home: Home, metronome: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = state_home.path / "a-file"
    blocker.write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(blocker))
    line = Lifeline(Start(target=Target(None, metronome(rate=1000, tokens=30, prefill_ms=1).url)))
    try:
        line.ask(messages=[{"role": "user", "content": "x"}])
        end = time.monotonic() + 20
        while time.monotonic() < end and not any(run.ends.items for run in line.follower.session.runs.values()):
            line.follower.poll()
            time.sleep(0.005)
        session = line.follower.session
        assert session.runs[0].tokens.count[-1] == 30
        assert [n.code for n in session.notices.items][:1] == ["not-recorded"]
    finally:
        assert line.close() == 0


def test_a_file_that_cannot_be_read_any_more_keeps_nobody_from_parting(
    collect: Collect, metronome: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = collect(metronome(rate=1000, tokens=2, prefill_ms=1).url)
    one.ended(one.ask())

    def read() -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(one.lifeline.follower, "_read_file", read)
    assert one.lifeline.close() is not None
    with pytest.raises(ProcessLookupError):
        os.kill(one.lifeline.pid, 0)


def test_a_foreign_module_in_the_current_folder_is_not_imported(
    collect: Collect, metronome: Beat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "httpx.py").write_text("raise SystemExit('the wrong httpx')")
    monkeypatch.chdir(tmp_path)
    one = collect(metronome(rate=1000, tokens=2, prefill_ms=1).url)
    assert one.ended(one.ask()).ends.last().finish == "stop"  # type: ignore[union-attr]


# -- a server that remembers ----------------------------------------------------------------------------------------------


class RecordingServer:
    """Speaks like llama.cpp, remembers what was asked, and can load, hold its headers, and want a key."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.hold = threading.Event()
        self.hold.set()
        self.loading = 0
        self.key: str | None = None
        self.props = True
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def reply(self, status: int, body: Any) -> None:
                raw = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def refused(self) -> bool:
                if server.loading > 0:
                    server.loading -= 1
                    message = {"message": "Loading model", "type": "unavailable_error", "code": 503}
                    self.reply(503, {"error": message})
                    return True
                if server.key is not None and self.headers.get("Authorization") != f"Bearer {server.key}":
                    message = {"message": "Invalid API Key", "type": "authentication_error", "code": 401}
                    self.reply(401, {"error": message})
                    return True
                return False

            def do_GET(self) -> None:
                if self.path == "/props" and not server.props:
                    return self.reply(404, {"error": {"message": "no", "code": 404}})
                if self.refused():
                    return None
                if self.path == "/props":
                    settings = {"n_ctx": 4096, "params": {"temperature": 0.8}}
                    return self.reply(200, {"default_generation_settings": settings, "total_slots": 1})
                if self.path == "/v1/models":
                    return self.reply(200, {"data": [{"id": "m"}]})
                return self.reply(404, {"error": {"message": "no", "code": 404}})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path != "/v1/chat/completions":
                    return self.reply(404, {"error": {"message": "no", "code": 404}})
                if self.refused():
                    return None
                server.bodies.append(body)
                server.hold.wait(30)
                data = (sse(chunk("é🦙"), chunk(" fine"), chunk(None, "stop")) + "data: [DONE]\n\n").encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """End it."""
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def recording_server() -> Iterator[RecordingServer]:
    server = RecordingServer()
    yield server
    server.close()
