"""A request's cache in bytes: what the session tells, what is assumed, and why something is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from phasetop.metrics import Measures, measure
from phasetop.report import request_object
from phasetop.summary import lines

if TYPE_CHECKING:
    from tests.core.conftest import Build

MS = 1_000_000
LLAMA = {
    "llama.block_count": 2,
    "llama.context_length": 8192,
    "llama.embedding_length": 256,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 1,
}
CELL = 2 * 64 * 2 * 2
"""Bytes of a token in `LLAMA`: K and V of 64 numbers of two bytes in two layers."""
ARGV = {
    "context": (4096, "argv"),
    "parallel": (1, "argv"),
    "kv_unified": (False, "default"),
    "ubatch": (512, "default"),
    "cache_type_k": ("f16", "default"),
    "cache_type_v": ("f16", "default"),
}


def session(session_of: Build, options: dict[str, Any], model: dict[str, Any] | None = None, **more: Any) -> Any:
    """A request of 100 tokens that wrote 11, with what is known of its server and model."""
    told = {name: {"value": value, "from": source} for name, (value, source) in options.items()}
    described = {"arch": "llama", "hparams": LLAMA, "weights": {"layers": 5}} if model is None else model
    return session_of(
        {"k": "server", "t": 1, "v": 0, "backend": more.get("backend", "llamacpp"), "options": told},
        {"k": "model", "t": 1, "m": 0, "v": 0, "name": "m", **described},
        {"k": "request", "t": 2, "r": 0, "v": 0, "m": 0, "api": "raw", "prompt": "x", "asked": more.get("asked", {})},
        {"k": "state", "t": 3, "r": 0, "s": "sent", "at": 3},
        *({"k": "tok", "t": (100 + 10 * n) * MS, "r": 0, "x": "a"} for n in range(11)),
        {"k": "timings", "t": 201 * MS, "r": 0, "prompt_n": 100, "cached_n": 0, "gen_n": 11, "gen_ms": 100.0},
        *([] if more.get("running") else [{"k": "end", "t": 202 * MS, "r": 0, "finish": "length"}]),
    )


def measured(session_of: Build, options: dict[str, Any], model: dict[str, Any] | None = None, **more: Any) -> Measures:
    one = session(session_of, options, model, **more)
    return measure(one, one.runs[0])


def test_a_server_on_this_machine(session_of: Build) -> None:
    found = measured(session_of, ARGV)
    kv = found.kv
    assert kv.tokens == 110  # the newest token is not in the cache yet
    assert (kv.used_bytes, kv.allocated_bytes) == (110 * CELL, 4096 * CELL)
    assert (kv.bytes_per_token, kv.next_token_bytes) == (CELL, CELL)
    assert kv.full_in_s == pytest.approx((4096 - 110) / 100, abs=0.001)
    assert (kv.slots, kv.shared, kv.when_full) == (1, False, "stops")
    assert kv.host_cache_bytes == 8192 << 20
    assert [msgspec.structs.astuple(cache) for cache in kv.caches] == [("kv", 4096, 1, 110, 4096 * CELL, CELL, None)]
    assert found.sources["kv.allocated_bytes"] == "argv: the server's"
    assert not [path for path in found.unknown if path.startswith("kv.")]


def test_what_is_printed(session_of: Build) -> None:
    one = session(session_of, ARGV)
    said = request_object(one, one.runs[0], kept_as=None)
    assert said["kv"] == {
        "tokens": 110,
        "context": 4096,
        "used_bytes": 110 * CELL,
        "allocated_bytes": 4096 * CELL,
        "bytes_per_token": CELL,
        "next_token_bytes": CELL,
        "full_in_s": 39.86,
        "slots": 1,
        "caches": [{"name": "kv", "cells": 4096, "streams": 1, "used_cells": 110, "bytes": 4096 * CELL}],
    }
    assert (said["model"]["arch"], said["model"]["layers"], said["model"]["read_bytes_per_token"]) == ("llama", 2, 5)
    line = next(line for line in lines(one, one.runs[0], None) if line.startswith("kv"))
    assert line == "kv       110 of 4,096 tokens · 0.05 MiB of 2.00 MiB"


def test_windows_and_shared_slots(session_of: Build) -> None:
    hparams = {
        **{key.replace("llama", "gemma3"): value for key, value in LLAMA.items()},
        "gemma3.block_count": 6,
        "gemma3.attention.sliding_window": 32,
    }
    options = {**ARGV, "parallel": (4, "argv"), "kv_unified": (True, "argv"), "ubatch": (64, "argv")}
    kv = measured(session_of, options, {"arch": "gemma3", "hparams": hparams}).kv
    layer = CELL // 2
    assert (kv.slots, kv.shared) == (4, True)
    # one dense layer in the shared pool; five with a window of 32 for each of 4 sequences and a batch of 64: 256 cells
    assert [(c.name, c.cells, c.streams, c.used_cells, c.window) for c in kv.caches] == [
        ("base", 4096, 1, 110, None),
        ("swa", 256, 1, 110, 32),
    ]
    assert kv.allocated_bytes == (4096 + 5 * 256) * layer
    assert kv.used_bytes == 110 * 6 * layer


def test_recurrent_state_is_a_row_of_its_own(session_of: Build) -> None:
    hparams = {
        **{key.replace("llama", "mamba"): value for key, value in LLAMA.items()},
        "mamba.ssm.conv_kernel": 4,
        "mamba.ssm.inner_size": 512,
        "mamba.ssm.state_size": 16,
    }
    kv = measured(session_of, {**ARGV, "parallel": (2, "argv")}, {"arch": "mamba", "hparams": hparams}).kv
    state = 2 * (3 * 512 + 16 * 512) * 4
    assert (kv.used_bytes, kv.allocated_bytes, kv.next_token_bytes) == (state, 2 * state, 0)
    assert [(c.name, c.streams, c.total_bytes) for c in kv.caches] == [("state", 2, 2 * state)]


def test_the_embedded_engine(session_of: Build) -> None:
    found = measured(session_of, {"context": (2048, "given"), "parallel": (1, "default")}, backend="embedded")
    assert found.kv.allocated_bytes == 2048 * CELL
    assert found.sources["kv.used_bytes"] == "given: the embedded engine's settings"


def test_what_is_assumed_is_said_to_be(session_of: Build) -> None:
    found = measured(session_of, {"context": (4096, "server"), "parallel": (1, "server")})
    assert found.kv.allocated_bytes == 4096 * CELL
    assert found.sources["kv.allocated_bytes"].startswith("assumed: llama-server's defaults for batch, ubatch, cache_type_k")
    assert (found.kv.host_cache_bytes, found.kv.when_full) == (None, None)
    plain = measured(
        session_of, ARGV, {"arch": "new-9", "hparams": {k.replace("llama", "new-9"): v for k, v in LLAMA.items()}}
    )
    assert plain.sources["kv.used_bytes"] == "assumed: a plain cache, nobody here knows the architecture new-9"


def test_how_slots_share_may_be_a_secret(session_of: Build) -> None:
    found = measured(session_of, {"context": (4096, "server"), "parallel": (4, "server")})
    assert (found.kv.allocated_bytes, found.kv.caches) == (None, ())
    assert found.kv.used_bytes == 110 * CELL
    assert found.unknown["kv.allocated_bytes"] == "how the server's slots share its context is not known"


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ({}, "the model's architecture is not known"),
        ({"arch": "llama"}, "the model's architecture is not known"),
        ({"arch": "llama", "hparams": {"llama.block_count": 2}}, "llama.embedding_length is not known"),
    ],
)
def test_a_model_that_is_not_known_well_enough(session_of: Build, model: dict[str, Any], why: str) -> None:
    found = measured(session_of, ARGV, model)
    for name in ("used_bytes", "allocated_bytes", "bytes_per_token", "next_token_bytes"):
        assert getattr(found.kv, name) is None
        assert why in found.unknown[f"kv.{name}"]
    assert found.kv.full_in_s is not None


@pytest.mark.parametrize(("shift", "then"), [(True, "then the oldest tokens go"), (False, "the reply ends there")])
def test_a_warning_before_the_context_is_full(session_of: Build, shift: bool, then: str) -> None:
    options = {**ARGV, "context": (120, "argv"), "context_shift": (shift, "argv")}
    found = measured(session_of, options)
    flag = next(flag for flag in found.flags if flag.code == "context-near-full")
    assert flag.text == f"the context is nearly full: 110 of 120 tokens; {then}"


def test_before_the_cells_are_known(session_of: Build) -> None:
    one = session_of(
        {"k": "server", "t": 1, "v": 0, "options": {"parallel": {"value": 1, "from": "argv"}}},
        {"k": "model", "t": 1, "m": 0, "v": 0, "arch": "llama", "hparams": LLAMA},
        {"k": "request", "t": 2, "r": 0, "v": 0, "m": 0, "api": "raw"},
        {"k": "state", "t": 3, "r": 0, "s": "sent", "at": 3},
    )
    found = measure(one, one.runs[0])
    assert (found.kv.used_bytes, found.kv.bytes_per_token, found.kv.caches) == (None, CELL, ())
    assert found.unknown["kv.used_bytes"] == found.unknown["kv.tokens"]
    assert found.unknown["kv.allocated_bytes"] == "the server does not tell its whole context"


@pytest.mark.parametrize(("most", "seconds"), [(512, None), (3996, None), (3997, 39.86), (-1, 39.86), (None, 39.86)])
def test_no_forecast_of_a_full_context_that_the_reply_never_reaches(
    session_of: Build, most: int | None, seconds: float | None
) -> None:
    # 110 of 4,096 cells, 11 tokens so far: 3,986 more fill it, 3,997 in all
    one = session(session_of, ARGV, running=True, asked={"max_tokens": most})
    found = measure(one, one.runs[0])
    assert found.kv.full_in_s == (None if seconds is None else pytest.approx(seconds, abs=0.001))
    if seconds is None:
        assert f"at {most:,} tokens" in found.unknown["kv.full_in_s"]
