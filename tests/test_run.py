"""`phasetop run` without a view, as a process: what is printed where, exit statuses, signals."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phasetop.recording import load

if TYPE_CHECKING:
    from tests.conftest import Home, Metronome, Spawn

Beat = Callable[..., "Metronome"]
Phasetop = Callable[..., subprocess.CompletedProcess[bytes]]
RUN = [sys.executable, "-m", "phasetop"]


@pytest.fixture
def phasetop(state_home: Home) -> Phasetop:
    """Run it with a home of its own, no terminal, nothing on stdin unless given."""

    def call(*arguments: str, stdin: bytes | None = None, **env: str) -> subprocess.CompletedProcess[bytes]:
        source: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        return subprocess.run(
            [*RUN, *arguments],
            capture_output=True,
            timeout=90,
            check=False,
            env={**state_home.env, **env},
            **source,
        )

    return call


TOLD = "phasetop/told-of-texts"
"""The mark that was left when it was said that recordings hold texts."""


def files(home: Home) -> list[str]:
    return sorted(str(path.relative_to(home.state)) for path in home.state.rglob("*") if path.is_file())


def test_ctrl_c_while_it_is_loaded_ends_without_a_word(spawn: Spawn, state_home: Home, tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import time\nprint('loading', flush=True)\nwhile True:\n    time.sleep(0.05)\n")
    env = {**state_home.env, "PYTHONPATH": str(tmp_path)}
    loading = spawn(
        RUN,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell's background job ignores it
    )
    assert loading.stdout is not None
    assert loading.stderr is not None
    assert loading.stdout.readline() == b"loading\n"
    loading.send_signal(signal.SIGINT)
    assert loading.wait(20) == -signal.SIGINT  # a shell says 130
    assert loading.stderr.read() == b""


def test_text_on_stdout_summary_on_stderr(phasetop: Phasetop, metronome: Beat, state_home: Home) -> None:
    done = phasetop("run", metronome(rate=50, tokens=4, prefill_ms=10, prompt=20).url, "-p", "hi")
    assert done.returncode == 0
    assert done.stdout == b" the model reads every"
    lines = done.stderr.decode().splitlines()
    assert len(lines) <= 12
    assert re.match(r"prompt +20 tok · prefill +[\d,.]+ ms \( *[\d,.]+ tok/s\) · decode 4 tok at +[\d,.]+ tok/s$", lines[0])
    assert lines[-1] == "finish   stop · not kept; `--record` keeps it"
    assert files(state_home) == []


def test_json_is_one_object_and_nothing_else(phasetop: Phasetop, metronome: Beat) -> None:
    url = metronome(rate=1000, tokens=4, prefill_ms=10, prompt=20).url
    done = phasetop("run", url, "-p", "hi", "--json=compact", "--temp", "0.5")
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 1
    told = json.loads(done.stdout)
    assert told["text"] == " the model reads every"
    assert told["prompt"] == "hi"
    assert told["finish"] == {"reason": "stop", "detail": "eos", "error": None}
    assert told["tokens"]["output"] == 4
    assert told["settings"]["temperature"] == 0.5
    assert told["session"] is None


def test_every_null_of_json_is_explained(phasetop: Phasetop, metronome: Beat) -> None:
    by_nature = {"session", "file", "tools", "seed", "think", "thinking", "detail", "error", "prompt_sent", "drafted"}
    by_nature |= {"accepted", "cpu_quota_cores", "load"}

    def nulls(value: Any, path: str = "") -> list[str]:
        if isinstance(value, dict):
            return [each for key, inner in value.items() for each in nulls(inner, f"{path}.{key}".strip("."))]
        if isinstance(value, list):
            return [each for inner in value for each in nulls(inner, path)]
        return [path] if value is None else []

    for options in ({}, {"no_props": True}):
        told = json.loads(phasetop("run", metronome(rate=1000, tokens=4, **options).url, "-p", "hi", "--json").stdout)
        unknown = told.pop("unknown")
        told.pop("sources")
        told.pop("server_timings")
        for path in nulls(told):
            if path.rsplit(".", 1)[-1] not in by_nature:
                assert any(path == known or path.startswith(known + ".") for known in unknown), path
        assert all(unknown.values())


def test_bands_add_up_and_agree_with_the_server(phasetop: Phasetop, metronome: Beat) -> None:
    url = metronome(rate=200, tokens=41, prefill_ms=100, prompt=50).url
    told = json.loads(phasetop("run", url, "-p", "hi", "--json").stdout)
    phases = told["phases"]
    parts = [phases[f"{name}_s"] or 0 for name in ("queue", "load", "prefill", "waiting", "decode", "finish")]
    assert sum(parts) == pytest.approx(phases["wall_s"], abs=6e-6)
    # The beat never comes too early; on a busy machine it may come late.
    assert 0.099 < phases["prefill_s"] < phases["wall_s"]
    assert 0.195 < phases["decode_s"] < phases["wall_s"]
    assert told["rates"]["decode_tok_per_s"] == pytest.approx(40 / phases["decode_s"], rel=1e-4)
    assert 0 < told["rates"]["server_decode_tok_per_s"] < 205


def test_no_prompt_and_no_terminal(phasetop: Phasetop) -> None:
    done = phasetop("run", "http://127.0.0.1:9")
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"-p" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_prompt_on_stdin(phasetop: Phasetop, metronome: Beat) -> None:
    done = phasetop("run", metronome(rate=1000, tokens=2).url, "--json", stdin="größe\n".encode())
    assert json.loads(done.stdout)["prompt"] == "größe\n"


def test_nothing_there_is_one_line_and_1(phasetop: Phasetop, free_port: int) -> None:
    done = phasetop("run", f"http://127.0.0.1:{free_port}", "-p", "hi")
    assert done.returncode == 1
    assert done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert f"127.0.0.1:{free_port}" in lines[0]
    told = json.loads(phasetop("run", f"http://127.0.0.1:{free_port}", "-p", "hi", "--json").stdout)
    assert told["finish"]["reason"] == "error"
    assert told["tokens"]["output"] is None or told["tokens"]["output"] == 0


def test_errors_can_be_read_with_redact_too(phasetop: Phasetop, metronome: Beat, free_port: int) -> None:
    nobody = phasetop("run", f"http://127.0.0.1:{free_port}", "-p", "hi", "--redact")
    assert nobody.returncode == 1
    assert b"nothing listens at http://127.0.0.1" in nobody.stderr
    body = '{"error":{"code":400,"message":"the words hi are too rude","type":"invalid_request_error"}}'
    url = metronome(script=[{"status": 400}, {"text": body}]).url
    refused = phasetop("run", url, "-p", "hi", "--redact")
    assert refused.returncode == 1
    assert refused.stderr == (
        b"phasetop: the request failed (400, invalid_request_error): the server's words are left out by --redact\n"
    )


def test_no_line_of_a_redacted_recording_has_a_servers_words(phasetop: Phasetop, metronome: Beat, tmp_path: Path) -> None:
    body = '{"error":{"code":401,"message":"Hush, give me a key","type":"authentication_error"}}'
    url = metronome(script=[{"status": 401}, {"text": body}]).url
    file = tmp_path / "a.phasetop"
    done = phasetop("run", url, "-p", "hi", "--redact", f"--record={file}")
    assert done.returncode == 1
    assert b'"code":"key-needed"' in file.read_bytes()
    assert b"Hush" not in file.read_bytes()
    assert b"--api-key" in file.read_bytes()


def test_a_cut_stream_is_1_and_keeps_the_text(phasetop: Phasetop, metronome: Beat) -> None:
    chunk = 'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n'
    done = phasetop("run", metronome(script=[{"text": chunk}, {"close": True}]).url, "-p", "hi")
    assert done.returncode == 1
    assert done.stdout == b"half"
    assert b"cut" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "why is the sky blue"], "-p"),
        (["run", "/no/such.gguf", "-p", "x"], "no such file"),
        (["run", "ftp://x", "-p", "x"], "ftp"),
        (["run", "http://h:99999", "-p", "x"], "port"),
        (["run", "http://h", "--proxy", "nope", "-p", "x"], "--proxy"),
        (["run", "https://h", "--cacert", "/no/such", "-p", "x"], "no such file"),
        (["run", "http://h", "--temp", "nan", "-p", "x"], "nan"),
        (["run", "http://h/\x1b[2J", "-p", "x"], "a character that no address has"),
        (["run", f"http://{'a' * 64}:1", "-p", "x"], "no machine can have such a name"),
        (["run", "http://ä..b:1", "-p", "x"], "no machine can have such a name"),
        (["run", "http://xn--a.:1", "-p", "x"], "no machine can have such a name"),
        (["run", "http://h", "-o", "stream=false", "-p", "x"], "stream"),
        (["run", "http://h", "--record=.gz", "-p", "x"], "a name"),
        (["run", "http://h", "--rotate", "10m", "-p", "x"], "10min, or 10MB?"),
        (["run", "http://h", "--rotate", "1s", "-p", "x"], "at least"),
        (["run", "http://h", "--max-size", "1kB", "-p", "x"], "at least 1MB"),
        (["run", "http://h", "--max-size", "3MB", "--rotate", "2MB", "-p", "x"], "twice"),
        (["run", "http://127.0.0.1:9", "--backend", "cuda", "-p", "x"], "cuda"),
        (["run", "-o", "oops", "-p", "x"], "NAME=VALUE"),
        (["replay", "@last"], "nothing is kept"),
        (["replay", "nowhere"], "no recording"),
        (["run", "--no-such-option"], "no-such-option"),
        (["run", "/", "-p", "x"], "/ is a folder"),
        (["rum"], "is run meant?"),
        (["llama3.1:8b", "-p", "x"], "phasetop run llama3.1:8b"),
        (["http://me:sekret@h:1/?key=sekret"], "phasetop run http://h:1/"),
        (["ssh://me:sekret@h/m"], "phasetop run ssh://h/m"),
        (["me:sekret@h:8080"], "phasetop run h:8080"),
    ],
)
def test_wrong_usage_is_2_with_nothing_on_stdout(phasetop: Phasetop, arguments: list[str], says: str) -> None:
    done = phasetop(*arguments)
    error = done.stderr.decode()
    assert says in error
    assert "sekret" not in error
    assert "Traceback" not in error
    assert done.stdout == b""
    assert done.returncode == 2


def test_record_keeps_the_session_and_replay_prints_it(phasetop: Phasetop, metronome: Beat, state_home: Home) -> None:
    url = metronome(rate=1000, tokens=4, prefill_ms=1).url
    done = phasetop("run", url, "-p", "hi", "--record=morning")
    assert b"kept as morning" in done.stderr
    assert b"--redact leaves the texts out" in done.stderr
    assert files(state_home) == ["phasetop/recordings/morning.phasetop", TOLD]
    file = state_home.state / "phasetop/recordings/morning.phasetop"
    assert file.stat().st_mode & 0o777 == 0o600
    again = phasetop("replay", "@last")
    assert again.stdout == b" the model reads every"
    told = json.loads(phasetop("replay", "morning", "--json").stdout)
    assert told["session"] == "morning"
    assert told["requests"][0]["text"] == " the model reads every"
    assert b"--redact" not in phasetop("run", url, "-p", "hi", "--record").stderr  # said once
    assert len(files(state_home)) == 3
    assert re.search(r"\d{4}-\d\d-\d\d-llama3\.1-8b\.phasetop", files(state_home)[0])


def test_record_to_a_path_of_ones_own(phasetop: Phasetop, metronome: Beat, state_home: Home, tmp_path: Path) -> None:
    file = tmp_path / "mine.phasetop"
    url = metronome(rate=1000, tokens=4, prefill_ms=1).url
    assert phasetop("run", url, "-p", "hi", f"--record={file}").returncode == 0
    assert load(file).runs[0].tokens.count[-1] == 4
    assert files(state_home) == [TOLD]
    assert list((state_home.state / "phasetop/live").iterdir()) == []
    refused = phasetop("run", url, "-p", "hi", f"--record={file}")
    assert refused.returncode == 1
    assert b"exists" in refused.stderr
    nowhere = phasetop("run", url, "-p", "hi", f"--record={tmp_path / 'no' / 'such.phasetop'}")
    assert nowhere.returncode == 1
    endless = phasetop("run", url, "-p", "hi", f"--record={tmp_path / ('x' * 300)}.phasetop")
    assert endless.returncode == 1
    assert endless.stderr.startswith(b"phasetop: cannot write ")
    assert endless.stderr.endswith(b": file name too long\n")


@pytest.mark.parametrize("name", ["small.gz", "{tmp}/mine.phasetop.gz"])
def test_a_recording_is_compressed_at_the_end(
    phasetop: Phasetop, metronome: Beat, state_home: Home, tmp_path: Path, name: str
) -> None:
    url = metronome(rate=1000, tokens=4, prefill_ms=1).url
    name = name.format(tmp=tmp_path)
    told = json.loads(phasetop("run", url, "-p", "hi", "--json", "--redact", f"--record={name}").stdout)
    file = state_home.state / "phasetop/recordings/small.phasetop.gz" if "/" not in name else Path(name)
    assert told["session"] == ("small" if "/" not in name else name)
    assert file.stat().st_mode & 0o777 == 0o600
    assert load(file).bye is not None
    assert [path.name for path in file.parent.iterdir() if path.suffix == ".phasetop" or path.name.startswith(".")] == []
    again = phasetop("replay", "small" if "/" not in name else name, "--json")
    assert json.loads(again.stdout)["requests"][0]["tokens"] == told["tokens"]
    taken = phasetop("run", url, "-p", "hi", f"--record={name}", "--json")
    if "/" in name:
        assert (taken.returncode, b"exists" in taken.stderr) == (1, True)
    else:
        assert json.loads(taken.stdout)["session"] == "small-2"


def test_a_session_in_parts_is_one(phasetop: Phasetop, metronome: Beat, state_home: Home) -> None:
    url = metronome(rate=40_000, tokens=25_000, prefill_ms=1).url
    done = phasetop("run", url, "-p", "hi", "--json", "--record=long", "--rotate", "1MB")
    told = json.loads(done.stdout)
    assert told["tokens"]["output"] == 25_000
    assert [name for name in files(state_home) if "recordings" in name] == [
        "phasetop/recordings/long.part2.phasetop",
        "phasetop/recordings/long.phasetop",
    ]
    assert list((state_home.state / "phasetop/live").iterdir()) == []
    (one,) = json.loads(phasetop("sessions", "--json").stdout)["sessions"]
    assert (one["name"], one["parts"], one["requests"], one["complete"]) == ("long", 2, 1, True)
    again = json.loads(phasetop("replay", "long", "--json").stdout)["requests"][0]
    assert (again["text"], again["tokens"], again["rates"]) == (told["text"], told["tokens"], told["rates"])
    assert phasetop("sessions", "rename", "long", "longer").returncode == 0
    assert phasetop("sessions", "rm", "longer", "--yes").returncode == 0
    assert [name for name in files(state_home) if "recordings" in name] == []


@pytest.mark.skipif(sys.platform != "linux", reason="a folder where not even root makes a file: /proc")
def test_what_could_not_be_written_is_not_called_kept(phasetop: Phasetop, metronome: Beat) -> None:
    url = metronome(rate=1000, tokens=4, prefill_ms=1).url
    done = phasetop("run", url, "-p", "hi", "--record=/proc/mine.phasetop")
    assert (done.returncode, done.stdout) == (0, b" the model reads every")
    assert b"not kept: cannot write mine.phasetop" in done.stderr
    told = json.loads(phasetop("run", url, "-p", "hi", "--json", "--record=/proc/mine.phasetop").stdout)
    assert told["session"] is None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 KB for the state folder."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("a small tmpfs: only root may mount one here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_fills_keeps_what_there_is_and_loses_no_word(
    phasetop: Phasetop, metronome: Beat, small_disk: Path
) -> None:
    url = metronome(rate=4000, tokens=3000, prefill_ms=1).url
    done = phasetop("run", url, "-p", "hi", "--json", "--record=full", XDG_STATE_HOME=str(small_disk))
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["tokens"]["output"] == 3000
    assert "not-recorded" in [notice["code"] for notice in told["notices"]]
    assert b"no space" in done.stderr
    kept = small_disk / "phasetop" / "recordings" / "full.phasetop"
    assert 100 < len(load(kept).runs[0].tokens) < 3000
    assert told["session"] == "full"


def test_a_disk_that_is_full_from_the_start(phasetop: Phasetop, metronome: Beat, small_disk: Path) -> None:
    (small_disk / "phasetop" / "live").mkdir(parents=True)
    with (small_disk / "fill").open("wb", buffering=0) as out:
        while shutil.disk_usage(small_disk).free:
            out.write(bytes(4096))
    url = metronome(rate=1000, tokens=4, prefill_ms=1).url
    done = phasetop("run", url, "-p", "hi", "--record", XDG_STATE_HOME=str(small_disk))
    assert (done.returncode, done.stdout) == (0, b" the model reads every")
    error = done.stderr.decode()
    assert "no space" in error
    assert "not kept: " in error
    assert list((small_disk / "phasetop" / "live").glob("*.phasetop")) == []


def test_a_state_folder_that_cannot_be_made(phasetop: Phasetop, metronome: Beat, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    url = metronome(rate=1000, tokens=4, prefill_ms=1).url
    done = phasetop("run", url, "-p", "hi", "--record", XDG_STATE_HOME=str(tmp_path / "file"))
    assert (done.returncode, done.stdout) == (0, b" the model reads every")
    assert "not kept: this session has no file (" in done.stderr.decode()


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_json_is_utf_8_whatever_the_locale(phasetop: Phasetop, metronome: Beat, encoding: str) -> None:
    url = metronome(rate=1000, tokens=2, prefill_ms=1).url
    done = phasetop("run", url, "-p", "é漢", "--json", PYTHONIOENCODING=encoding)
    assert done.returncode == 0
    assert json.loads(done.stdout.decode("utf-8"))["prompt"] == "é漢"


def test_closed_and_full_streams(state_home: Home, metronome: Beat) -> None:
    url = metronome(rate=1000, tokens=4, prefill_ms=1).url

    def shell(ending: str) -> subprocess.CompletedProcess[bytes]:
        line = f"{sys.executable} -m phasetop run {url} -p hi {ending}"
        return subprocess.run(
            ["sh", "-c", line], capture_output=True, env=state_home.env, stdin=subprocess.DEVNULL, check=False
        )

    assert shell("--plain >&-").returncode == 0
    assert json.loads(shell("--json 2>&-").stdout)["tokens"]["output"] == 4
    assert json.loads(shell("--json 2>/dev/full").stdout)["tokens"]["output"] == 4
    full = shell("--plain >/dev/full")
    assert full.returncode == 1
    assert b"cannot write the output: no space left" in full.stderr


@pytest.mark.parametrize("command", ["kv llama3.1-8b", "predict --list-gpus", "models", "--help"])
def test_stdout_that_is_full_or_has_ascii_alone(command: str, state_home: Home) -> None:
    line = f"{sys.executable} -m phasetop {command}"
    ascii_alone = {**state_home.env, "PYTHONIOENCODING": "ascii"}
    told = subprocess.run(["sh", "-c", line], capture_output=True, env=ascii_alone, stdin=subprocess.DEVNULL, check=False)
    assert told.returncode == 0, told.stderr
    told.stdout.decode("utf-8")
    full = subprocess.run(
        ["sh", "-c", f"{line} >/dev/full"], capture_output=True, env=state_home.env, stdin=subprocess.DEVNULL, check=False
    )
    assert full.returncode == 1
    assert full.stderr.endswith(b"phasetop: cannot write the output: no space left on device\n")


def test_settings_from_the_environment_and_the_config_file(phasetop: Phasetop, metronome: Beat, state_home: Home) -> None:
    url = metronome(rate=1000, tokens=2, prefill_ms=1).url
    folder = state_home.config / "phasetop"
    folder.mkdir()
    config = folder / "config.toml"
    config.write_text('[run]\nmax-tokens = 7\ntemp = 0.25\njson = "compact"\n')
    told = json.loads(phasetop("run", url, "-p", "hi").stdout)
    assert (told["settings"]["max_tokens"], told["settings"]["temperature"]) == (7, 0.25)
    told = json.loads(phasetop("run", url, "-p", "hi", PHASETOP_TEMPERATURE="0.5").stdout)
    assert told["settings"]["temperature"] == 0.5
    told = json.loads(phasetop("run", url, "-p", "hi", "--temp", "0.75", PHASETOP_TEMPERATURE="0.5").stdout)
    assert told["settings"]["temperature"] == 0.75
    config.write_text("")
    assert json.loads(phasetop("run", url, "-p", "hi", PHASETOP_JSON="compact").stdout)["prompt"] == "hi"
    for wrong, says in (
        ("run = 3", "table"),
        ("[run]\nmax-tokns = 3", "max-tokns"),
        ("[rnu]\nx = 1", "rnu"),
        ("nonsense", "config.toml"),
    ):
        config.write_text(wrong)
        done = phasetop("run", url, "-p", "hi")
        assert done.returncode == 2, wrong
        assert says in done.stderr.decode()


def test_a_key_that_no_header_can_hold_is_never_repeated(phasetop: Phasetop, metronome: Beat) -> None:
    url = metronome(rate=1000, tokens=2, prefill_ms=1).url
    for key in ("hush\nhush", "hüsh", "hush hush"):
        done = phasetop("run", url, "-p", "hi", "--api-key", key)
        assert done.returncode == 2
        assert b"API key" in done.stderr
        assert b"hush" not in done.stderr
    assert phasetop("run", url, "-p", "hi", LLAMA_API_KEY="hush\r").returncode == 0


def test_settings_that_were_not_applied_are_not_shown_as_applied(phasetop: Phasetop, metronome: Beat) -> None:
    url = metronome(rate=1000, tokens=2, prefill_ms=1).url
    told = json.loads(phasetop("run", url, "-p", "hi", "--json", "-c", "777", "-t", "9").stdout)
    assert told["settings"]["context"] == 8192
    assert told["settings"].get("threads") != 9
    assert "settings-ignored" in [notice["code"] for notice in told["notices"]]


def test_a_collector_that_dies_first_still_gives_an_object(state_home: Home) -> None:
    code = (
        "import os, signal, sys\n"
        "from phasetop import lifeline\n"
        "class Dead(lifeline.Lifeline):\n"
        "    def ask(self, **words):\n"
        "        os.kill(self.pid, signal.SIGKILL)\n"
        "        return super().ask(**words)\n"
        "import phasetop.run_command\n"
        "phasetop.run_command.Lifeline = Dead\n"
        "sys.argv = ['phasetop', 'run', 'http://127.0.0.1:9', '-p', 'x', '--json']\n"
        "from phasetop.cli import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=state_home.env, stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["finish"]["reason"], told["finish"]["detail"]) == ("cut", "collector-died")
    assert told["prompt"] == "x"


def test_a_reader_that_leaves_is_141_everywhere(phasetop: Phasetop, metronome: Beat, state_home: Home) -> None:
    phasetop("run", metronome(rate=1000, tokens=4, prefill_ms=1).url, "-p", "hi", "--record=r")
    for arguments in (["replay", "r", "--plain"], ["replay", "r", "--json"], ["--version"]):
        reader, writer = os.pipe()
        os.close(reader)
        process = subprocess.Popen([*RUN, *arguments], stdout=writer, stderr=subprocess.PIPE, env=state_home.env)
        os.close(writer)
        _, error = process.communicate(timeout=20)
        assert process.returncode == 141, (arguments, error)


def started(spawn: Spawn, home: Home, url: str, *more: str, **options: Any) -> subprocess.Popen[bytes]:
    """A run whose first text has come."""
    argv = [*RUN, "run", url, "-p", "hi", *more]
    pipe = subprocess.PIPE
    running = spawn(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=home.env, **options)
    assert running.stdout is not None
    assert running.stdout.read(4) == b" the"
    return running


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)
def test_signals_keep_what_came(
    spawn: Spawn, metronome: Beat, state_home: Home, number: signal.Signals, status: int
) -> None:
    url = metronome(rate=50, tokens=100_000, prefill_ms=1).url
    running = started(spawn, state_home, url, "--record=cut")
    running.send_signal(number)
    _out, err = running.communicate(timeout=20)
    assert running.returncode == status
    assert b"Traceback" not in err
    session = load(state_home.state / "phasetop/recordings/cut.phasetop")
    end = session.runs[0].ends.last()
    assert end is not None
    assert end.finish == "cancelled"
    assert session.bye is not None
    assert len(session.runs[0].tokens) >= 1


def test_a_closed_stdout_cancels_quietly(spawn: Spawn, metronome: Beat, state_home: Home) -> None:
    running = started(spawn, state_home, metronome(rate=100, tokens=100_000, prefill_ms=1).url)
    assert running.stdout is not None
    running.stdout.close()
    assert running.wait(20) == 141
    assert running.stderr is not None
    assert b"Traceback" not in running.stderr.read()


def test_kill_9_at_random_moments_leaves_no_process_and_a_readable_file(
    spawn: Spawn, metronome: Beat, state_home: Home
) -> None:
    """The headless viewer dies at 0 to 90 ms into the stream; the collector finishes the file and leaves."""
    url = metronome(rate=300, tokens=100_000, prefill_ms=1).url
    for step in range(4):
        running = started(spawn, state_home, url)
        time.sleep(step * 0.03)  # the moment is the point here
        running.kill()
        running.wait()
    live = state_home.state / "phasetop" / "live"
    end = time.monotonic() + 20
    while time.monotonic() < end:
        sessions = [load(path) for path in live.glob("*.phasetop")]
        if len(sessions) == 4 and all(session.bye for session in sessions):
            break
        time.sleep(0.05)
    assert len(sessions) == 4
    for session in sessions:
        assert session.bye is not None
        assert session.bye.reason == "viewer_gone"
        assert session.bad_lines == 0


def test_hostile_text_passes_a_pipe_as_it_is_and_no_name_or_error_does(phasetop: Phasetop, metronome: Beat) -> None:
    bad = "\x1b]52;c;aGk=\x07\x1b[2Jred"
    chunk = json.dumps({"choices": [{"index": 0, "delta": {"content": bad}, "finish_reason": None}]})
    finish = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    script = [{"text": f"data: {chunk}\n\ndata: {finish}\n\ndata: [DONE]\n\n"}]
    done = phasetop("run", metronome(script=script, model="m\x1b[31m").url, "-p", "hi")
    assert done.stdout == bad.encode()
    assert b"\x1b" not in done.stderr
    error = [{"status": 400}, {"text": json.dumps({"error": {"message": f"no {bad}", "code": 400}})}]
    failed = phasetop("run", metronome(script=error).url, "-p", "hi")
    assert b"\x1b" not in failed.stderr
    assert failed.stderr.count(b"\n") == 1


def test_heavy_packages_load_only_where_they_are_needed(state_home: Home, metronome: Beat) -> None:
    url = metronome(rate=1000, tokens=2).url
    code = (
        "import sys; sys.argv = ['phasetop', *sys.argv[1:]]\n"
        "from phasetop.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('HEAVY', [m for m in ('textual', 'rich', 'httpx', 'plotext', 'psutil') if m in sys.modules], file=sys.stderr)"
    )
    for arguments in (
        ["--version"],
        ["--help"],
        ["run", "--help"],
        ["run", url, "-p", "x"],
        ["run", url, "-p", "x", "--json"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            env=state_home.env,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        assert b"HEAVY []" in done.stderr, (arguments, done.stderr)
