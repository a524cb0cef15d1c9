"""The server of a session as its requests see it: waited for, refused, looked for again."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from phasetop.backends.recorder import Recorder
from phasetop.backends.target import Target
from phasetop.backends.wanted import wanted_from


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    pipe = os.open(os.devnull, os.O_WRONLY)
    yield Recorder(tmp_path / "s.phasetop", pipe)
    os.close(pipe)


def target_at(port: int, recorder: Recorder) -> Target:
    wanted = wanted_from({"target": {"url": f"http://127.0.0.1:{port}"}})
    assert wanted is not None
    return Target(recorder, wanted, None)


def test_whoever_waited_is_told_why_there_is_no_server(recorder: Recorder, free_port: int) -> None:
    target = target_at(free_port, recorder)
    assert not target.try_again()
    target.resolve()
    assert not target.try_again()  # nobody was told yet: the next ask is the first
    fault = target.wait_ready(threading.Event())
    assert fault is not None
    assert fault.code == "connection-refused"
    assert target.try_again()
    assert not target.try_again()  # it is looked for already


def test_one_who_waits_while_another_tries_again_waits_on(
    recorder: Recorder, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault goes between the moment that it was decided and the moment that it is read."""
    target = target_at(free_port, recorder)
    target.resolve()
    first = target.wait_ready(threading.Event())
    decided = target._settled
    again: list[threading.Thread] = []

    class Overtaken:
        def wait(self, timeout: float) -> bool:
            if not again:
                assert target.try_again()
                again.append(threading.Thread(target=target.resolve))
                again[0].start()
                return True
            return decided.wait(timeout)

        def __getattr__(self, name: str) -> object:
            return getattr(decided, name)

    monkeypatch.setattr(target, "_settled", Overtaken())
    assert target.wait_ready(threading.Event()) == first
    again[0].join()


def test_a_wait_ends_when_it_is_cancelled_or_the_session_ends(recorder: Recorder, free_port: int) -> None:
    target = target_at(free_port, recorder)
    cancelled = threading.Event()
    cancelled.set()
    assert target.wait_ready(cancelled) is not None
    target.close()
    fault = target.wait_ready(threading.Event())
    assert fault is not None
    assert fault.text == "the session ended before the server was ready"
