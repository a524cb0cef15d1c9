"""Names of settings: which a server is known to have, what a misspelt one was meant to be, and that it is sent anyway."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from phasetop.plan import plan
from phasetop.setting_names import LLAMACPP, OLLAMA_OPTIONS, OURS, unknown
from tests.conftest import SERVERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Home, LlamaServer, Metronome


@pytest.mark.parametrize(
    ("backend", "name", "says"),
    [
        ("llamacpp", "temprature", "temprature is no setting of llama.cpp's that phasetop knows: is temperature meant?"),
        ("embedded", "top-k", "top-k is no setting of llama.cpp's that phasetop knows: is top_k meant?"),
        ("llamacpp", "mirostat_tua", "is mirostat_tau meant?"),
        ("llamacpp", "num_keep", "num_keep is no setting of llama.cpp's"),  # Ollama's
        ("llamacpp", "zzz", "zzz is no setting of llama.cpp's that phasetop knows. It was sent as it is"),
        ("ollama", "num_predit", "num_predit is no setting of Ollama's that phasetop knows: is num_predict meant?"),
        ("openai", "max_token", "max_token is no setting that phasetop knows: is max_tokens meant?"),
    ],
)
def test_a_name_that_nobody_knows_is_told(backend: str, name: str, says: str) -> None:
    (text,) = unknown(backend, ["temperature", name])
    assert says in text
    assert text.endswith("It was sent as it is")


def test_names_that_are_known_are_not() -> None:
    assert not list(unknown("llamacpp", [*LLAMACPP, *OURS]))
    assert not list(unknown("ollama", [*OLLAMA_OPTIONS, *OURS, "cache_prompt", "mirostat"]))  # of those others tell
    assert not list(unknown("openai", ["repetition_penalty_range", "guided_regex"]))  # vLLM has more than one knows
    assert not list(unknown("acme", ["zzz"]))


def test_llama_cpps_names_are_in_its_server() -> None:
    """Each stands in the program that reads it."""
    files = [SERVERS / "lib" / "ollama" / name for name in ("libllama-server-impl.so", "libllama-common.so.0")]
    if not all(file.is_file() for file in files):
        pytest.skip("llama-server: not there; make servers gets it")
    program = b"".join(file.read_bytes() for file in files)
    openai_alone = {"user", "metadata", "store", "service_tier", "verbosity"}
    assert {name for name in LLAMACPP if name.encode() not in program} <= openai_alone


def test_what_an_engine_is_started_with_may_be_given_by_o() -> None:
    found = plan("embedded", {"backend": "embedded", "settings": ("ubatch=64", "n_parallel=2", "n_ctx=512")}, io.StringIO())
    assert found.start.engine is not None
    assert found.start.engine["settings"] == {"context": 512, "ubatch": 64, "parallel": 2}
    assert found.settings == {}


def run(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "phasetop", "run", *arguments, "-p", "hi", "--json"]
    return subprocess.run(
        argv, env=home.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False
    )


def test_a_misspelt_setting_is_told_and_sent(metronome: Callable[..., Metronome], state_home: Home) -> None:
    done = run(state_home, metronome(rate=1000, tokens=2, prefill_ms=1).url, "-o", "temprature=0", "-o", "top_k=3")
    assert done.returncode == 0
    says = "temprature is no setting of llama.cpp's that phasetop knows: is temperature meant? It was sent as it is"
    assert done.stderr.startswith(f"phasetop: {says}\n")
    told = json.loads(done.stdout)
    assert [(each["code"], each["text"]) for each in told["notices"]] == [("setting-unknown", says)]
    assert told["settings"]["temprature"] == 0


def test_a_real_server_takes_it(llama_server: LlamaServer, state_home: Home) -> None:
    done = run(state_home, llama_server.url, "-n", "2", "-o", "temprature=0", "-o", "dry_base=1.75")
    assert done.returncode == 0
    assert "is temperature meant?" in done.stderr
    assert "dry_base" not in done.stderr
