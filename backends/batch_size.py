"""How large a prefill batch this machine can compute in a second, measured once and remembered.

Progress and cancel come once a batch: where 512 tokens take longer than a second, smaller batches cost little and make a
prefill watchable.
"""

from __future__ import annotations

import http.client
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LARGEST: Final = 512
SMALLEST: Final = 32
LIMIT_MS: Final = 1000.0
"""What one batch may take."""
_PROBE_TOKENS: Final = 32
_PROBE_LIMIT_S: Final = 4.0
_REMEMBERED: Final = 64
_MAX_AGE_S: Final = 7 * 86_400  # a measurement from a busy hour must not hold for ever


@dataclass(frozen=True, slots=True)
class Measured:
    """What a token of prefill takes here; ``at_least``: the probe was given up, it takes longer still."""

    ms_per_token: float
    at_least: bool = False

    @property
    def batch(self) -> int:
        """The largest power of two of tokens, from 32 to 512, that is computed within a second."""
        batch = LARGEST
        while batch > SMALLEST and batch * self.ms_per_token > LIMIT_MS:
            batch //= 2
        return batch


def key(file: Path, settings: dict[str, Any]) -> str:
    """What a measurement holds for: the file's size and time, threads and offloaded layers."""
    stat = file.stat()
    return f"{stat.st_size}-{stat.st_mtime_ns}-{settings.get('threads')}-{settings.get('gpu_layers')}"


def measure(host: str, port: int) -> Measured | None:
    """Time a small prefill on a llama.cpp server that is ready and idle; None where it does not answer as expected.

    A first result that would make batches smaller is taken again, and the faster of the two counts: what else the machine
    did meanwhile is not the engine's speed.
    """
    first = _probe(host, port)
    if first is None or first.at_least or first.batch == LARGEST:
        return first
    second = _probe(host, port)
    return min((first, second), key=lambda m: m.ms_per_token) if second and not second.at_least else first


def _probe(host: str, port: int) -> Measured | None:
    tokens = [1000 + 37 * i for i in range(_PROBE_TOKENS)]  # unlike each other, so that experts are spread as in a text
    body = {"prompt": tokens, "n_predict": 0, "cache_prompt": False, "stream": False}
    connection = http.client.HTTPConnection(host, port, timeout=_PROBE_LIMIT_S)
    try:
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        timings = json.loads(answer.read()).get("timings", {})
        n, ms = timings["prompt_n"], timings["prompt_ms"]
        return Measured(ms / n) if answer.status == 200 and n > 0 and ms > 0 else None
    except TimeoutError:
        return Measured(_PROBE_LIMIT_S * 1000 / _PROBE_TOKENS, at_least=True)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return None
    finally:
        connection.close()


def recall(store: Path, name: str, now: float | None = None) -> Measured | None:
    """The measurement remembered under ``name``, unless it is older than a week."""
    entry = _read(store).get(name)
    try:
        if entry is None or not 0 <= (now or time.time()) - entry["at"] < _MAX_AGE_S:
            return None
        return Measured(float(entry["ms_per_token"]), bool(entry.get("at_least")))
    except (KeyError, TypeError, ValueError):
        return None


def remember(store: Path, name: str, measured: Measured, now: float | None = None) -> None:
    """Keep a measurement; a folder that cannot be written only costs measuring again."""
    entries = _read(store)
    entries.pop(name, None)
    entry = {"ms_per_token": round(measured.ms_per_token, 4), "at_least": measured.at_least, "at": round(now or time.time())}
    entries = dict([*entries.items(), (name, entry)][-_REMEMBERED:])
    try:
        store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, new = tempfile.mkstemp(prefix=store.name, dir=store.parent)
        try:
            with open(fd, "w", encoding="utf-8") as file:
                json.dump(entries, file)
            os.replace(new, store)
        except OSError:
            os.unlink(new)
    except OSError:
        pass


def _read(store: Path) -> dict[str, Any]:
    try:
        entries = json.loads(store.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}
