"""`phasetop doctor`: what it prints, its JSON, its exit status, and what its report leaves out."""

from __future__ import annotations

import getpass
import json
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import doctor_command, doctor_text
from phasetop import events as ev
from phasetop.capabilities import STATES, Check, Metric
from phasetop.cli import main
from phasetop.doctor_report import Redactor, report
from phasetop.headless import Interrupts
from phasetop.session import Session
from tests.core.test_capabilities import gpu, session

if TYPE_CHECKING:
    from collections.abc import Callable

    from phasetop.lifeline import Lifeline
    from tests.conftest import Home, Metronome

SECRET = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def quiet(state_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is there, keys are set, and programs are found nowhere."""
    assert state_home.state.is_dir()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("OLLAMA_HOST", f"http://user:{SECRET}@127.0.0.1:9")
    monkeypatch.setenv("LLAMA_API_KEY", SECRET)


def told(capfd: pytest.CaptureFixture[str], *argv: str, status: int = 0) -> tuple[str, str]:
    assert main(["doctor", *argv]) == status
    out, err = capfd.readouterr()
    assert SECRET not in out + err
    return out, err


def test_the_object_and_the_words(capfd: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = json.loads(told(capfd, "--json=compact")[0])
    assert found.keys() == {"checks", "metrics"}
    assert all(check.keys() == {"id", "state", "text", "todo"} for check in found["checks"])
    assert all({"name", "source", "why_not_better"} <= metric.keys() for metric in found["metrics"])
    assert {check["state"] for check in found["checks"]} <= set(STATES)
    ids = [check["id"] for check in found["checks"]]
    assert len(set(ids)) == len(ids)
    wanted = {
        "ollama",
        "llama-server",
        "embedded",
        "stamps",
        "clock",
        "cpu",
        "memory",
        "swap",
        "disk",
        "python",
        "libraries",
    }
    assert wanted <= set(ids)
    assert "terminal" not in ids  # nobody is asked where there is none
    assert all(metric["source"] or metric["why_not_better"] for metric in found["metrics"])
    words = told(capfd)[0]
    assert all(len(line) <= 80 for line in words.splitlines())
    for name in ids:
        assert name in words


def test_what_is_broken_gives_status_1(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "gopher://there")
    out, _ = told(capfd, status=1)
    assert "broken   ollama" in out
    monkeypatch.setenv("OLLAMA_HOST", f"gopher://user:{SECRET}@there/?k={SECRET}")
    told(capfd, status=1)
    told(capfd, "--report=-", status=1)
    monkeypatch.setenv("OLLAMA_HOST", "gopher://there")
    assert "1 broken" in out.splitlines()[-1]


def test_a_server_that_is_named(
    capfd: pytest.CaptureFixture[str], metronome: Callable[..., Metronome], free_port: int
) -> None:
    """The metronome says that it is a llama-server of a model's name, on this machine; and nothing is asked of its model."""
    server = metronome(rate=100, tokens=3)
    found = json.loads(told(capfd, server.url, "--json")[0])
    (check,) = [check for check in found["checks"] if check["id"] == "server"]
    assert check["state"] == "ok"
    assert check["text"].startswith("llamacpp ")
    assert f"at {server.url}, on this machine: " in check["text"]
    assert {name.partition(".")[0] for metric in found["metrics"] if "prefill_progress" in (name := metric["name"])} == {
        "llamacpp"
    }
    assert not server.log.exists()  # written when a reply has ended
    out, _ = told(capfd, f"http://user:{SECRET}@127.0.0.1:{free_port}/?k={SECRET}", status=1)
    assert f"broken   server        nothing listens at http://127.0.0.1:{free_port}" in out
    out, _ = told(capfd, "http://nowhere.invalid:80", "--report=-", status=1)
    assert "nowhere" not in out
    for wrong in ("box:8080", "127.0.0.1:8080", "gopher://box"):
        _, err = told(capfd, wrong, status=2)
        assert "http://" in err
        assert err.count("\n") == 1


def test_a_state_folder_that_cannot_be_written(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    out, _ = told(capfd, "--json", status=1)
    disk = next(check for check in json.loads(out)["checks"] if check["id"] == "disk")
    assert disk["state"] == "broken"
    assert "not recorded" in disk["text"]
    assert "XDG_STATE_HOME" in disk["todo"]


@pytest.mark.parametrize(("count", "status", "ends"), [(1, None, 130), (0, 143, 143), (0, 129, 129)])
def test_a_signal_has_its_own_status(count: int, status: int | None, ends: int) -> None:
    interrupts = Interrupts()
    interrupts.count, interrupts.status = count, status
    follower = SimpleNamespace(ended=False, poll=lambda: False, session=Session())
    lifeline = cast("Lifeline", SimpleNamespace(follower=follower))
    assert doctor_command._wait(lifeline, "discover", 1, interrupts) == ends


def test_the_report_names_nobody(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    _, err = told(capfd, "--report")
    assert "wrote phasetop-doctor.md" in err
    text = (tmp_path / "phasetop-doctor.md").read_text(encoding="utf-8")
    assert text.startswith("# phasetop doctor")
    assert "Left out: host name" in text
    for name in (socket.gethostname(), str(Path.home()), str(tmp_path), SECRET):
        assert name not in text
    assert "| embedded |" in text
    told(capfd, "--report")
    assert (tmp_path / "phasetop-doctor-2.md").exists()
    _, err = told(capfd, "--report", "phasetop-doctor.md", status=1)
    assert "exists" in err
    out, _ = told(capfd, "--report=-")
    assert out.startswith("# phasetop doctor")
    assert "servers\n" not in out.split("##")[0]


def test_names_and_addresses_go_from_a_report_wherever_they_stand() -> None:
    it = session(
        gpu(uuid="GPU-af7b61d8-aaaa-bbbb-cccc-0123456789ab"),
        ev.Server(t=2, v=0, backend="ollama", url="http://gpu-box.example.com:11434"),
        ev.Model(t=3, m=0, v=0, name="acme/secret-finetune:70b", loaded=True),
        name="alices-laptop.lan",
    )
    checks = (
        Check("ollama", "ok", "gpu-box.example.com:11434, 1 model: ACME/secret-finetune:70b", "ssh alices-laptop"),
        Check("disk", "ok", "/home/alice/.local/state: full; also ~/models/x.gguf and C:\\Users\\alice\\x"),
        Check("x", "ok", "10.1.2.3:8080 and [fe80::1ff:fe23:4567:890a]:9, a@b.example, http://u:p@h/ 127.0.0.1:8080"),
        Check(
            "y", "ok", "GPU-af7b61d8-aaaa-bbbb-cccc-0123456789ab on alices-laptop.lan, driver 610.43.02, 1.2.3 at 12:30:15"
        ),
    )
    text = report(it, checks, (Metric("gpu-0.x", "NVML | x"),))
    for gone in ("gpu-box", "finetune", "alice", "10.1.2.3", "fe80", "a@b", "u:p", "af7b61d8"):
        assert gone not in text, gone
    for kept in ("127.0.0.1:8080", ":11434", "610.43.02", "1.2.3 at 12:30:15", r"NVML \| x"):
        assert kept in text, kept


def test_a_name_that_is_nobodys_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    text = report(session(name="localhost"), (Check("rapl", "limited", "RAPL is readable by root only, at /root/x"),), ())
    assert "readable by root only" in text
    assert "/root/x" not in text
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    assert "alice" not in report(session(), (Check("x", "ok", "of alice"),), ())


def test_the_users_name_goes() -> None:
    redact = Redactor({getpass.getuser(): "[user]"} if len(getpass.getuser()) > 2 else {"alice": "[user]"})
    name = getpass.getuser() if len(getpass.getuser()) > 2 else "alice"
    assert redact(f"run as {name}!") == "run as [user]!"
    assert redact(f"{name}s") == f"{name}s"  # another word


@given(
    st.lists(st.sampled_from(["box", "alice", "acme-70b"]), min_size=1),
    st.text(alphabet=" ,:;()/|\n'\"=", min_size=1, max_size=3),
)
def test_a_known_name_never_stays(names: list[str], between: str) -> None:
    redact = Redactor({"box": "[host]", "alice": "[user]", "acme-70b": "[model]"})
    text = redact(between.join(names))
    assert not any(name in text for name in names)


@pytest.mark.parametrize("width", [20, 60, 80, 110, 400])
def test_lines_fit(width: int) -> None:
    checks = [Check(name, state, "word " * 40, "do " * 30) for name, state in zip(("ollama", "disk"), STATES, strict=False)]
    made = list(doctor_text.lines(checks, [Metric("a" * 30, "b " * 50, "c " * 50)], width))
    assert all(len(line) <= max(64, min(width, doctor_text.MOST)) for line in made)
    assert made[-1] == "1 ok, 1 off"


def test_hostile_names_reach_no_terminal(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    evil = (Check("x", "ok", "a\x1b]52;c;aGk=\x07b\u202e", "\x9b2J"),)
    monkeypatch.setattr("phasetop.doctor_command.checks_of", lambda session: evil)
    monkeypatch.setattr("phasetop.doctor_command.metrics_of", lambda session: ())
    out, _ = told(capfd)
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(out)
    out, _ = told(capfd, "--report=-")
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(out)
    assert os.environ["LLAMA_API_KEY"] == SECRET
