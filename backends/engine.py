"""The embedded engine: a llama.cpp server in a process of its own, run as ``python -P -m phasetop.backends.engine``.

One JSON line on stdin says what to load (so that nothing shows in the process list)::

    {"file": "m.gguf", "port": 40123, "alias": "m", "settings": {"context": 4096, "batch": 512, "threads": 2}}

Settings have OUTPUTS' names. stdin then stays open as the lifeline, and nothing more comes on it: its end is the parent's
death, and this process's. What llama.cpp logs goes to stderr. A failure is one line ``engine: …`` on stdout, exit status 1.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, NoReturn, TypeAlias

CACHE_TYPES: Final = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
"""What llama.cpp can keep keys and values in."""
_VERBOSITY: Final = 4  # with the lines that say how large the cache is and on which device it lies
_ALL_LAYERS: Final = 999
_MAX_MIB: Final = 1 << 20
_MAX_CONTEXT: Final = 1 << 24  # beyond any model; the engine would take all memory before it says no


_Convert: TypeAlias = Callable[[Any], int | bool | str]
"""A setting's value as the library takes it (a text names a member of its enums). ValueError says what it must be."""


class SettingError(ValueError):
    """A setting that the engine does not know, or a value that it cannot take; the text names it."""


def apply_settings(params: Any, settings: Mapping[str, Any], library: Any) -> None:
    """Put settings by OUTPUTS' names into a CommonParams of ``library`` (xllamacpp); None means the engine's own default.

    Raises:
        SettingError: a name that is no engine setting, or a value that it cannot take.
    """
    for name, value in settings.items():
        if name not in _SETTINGS:
            raise SettingError(f"unknown engine setting {name!r}; there are {', '.join(_SETTINGS)}")
        if value is None:
            continue
        places, convert = _SETTINGS[name]
        try:
            converted = convert(value)
        except ValueError as wanted:
            raise SettingError(f"{name} must be {wanted}, not {value!r}") from None
        if isinstance(converted, str):
            converted = attrgetter(converted)(library)
        for place in places:
            owner, _, attribute = place.rpartition(".")
            setattr(getattr(params, owner) if owner else params, attribute, converted)


def _count(most: int) -> _Convert:
    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise ValueError(f"a whole number from 1 to {most:,}")
        return value

    return convert


def _mebibytes(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_MIB:
        raise ValueError(f"a whole number from 0 to {_MAX_MIB:,}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _cache_type(value: Any) -> str:
    if value not in CACHE_TYPES:
        raise ValueError(f"one of {', '.join(CACHE_TYPES)}")
    return f"ggml_type.GGML_TYPE_{value.upper()}"


def _flash_attention(value: Any) -> str:
    words = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO", True: "ENABLED", False: "DISABLED"}
    if not isinstance(value, str | bool) or value not in words:
        raise ValueError("on, off or auto")
    return f"llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_{words[value]}"


def _gpu_layers(value: Any) -> int:
    if value in ("auto", "all"):
        return -1 if value == "auto" else _ALL_LAYERS
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= _ALL_LAYERS:
        raise ValueError("a whole number, all or auto")
    return value


_SETTINGS: Final[dict[str, tuple[tuple[str, ...], _Convert]]] = {  # name: attributes of CommonParams, and what they take
    "context": (("n_ctx",), _count(_MAX_CONTEXT)),
    "batch": (("n_batch",), _count(_MAX_CONTEXT)),
    "ubatch": (("n_ubatch",), _count(_MAX_CONTEXT)),
    "parallel": (("n_parallel",), _count(256)),
    "threads": (("cpuparams.n_threads", "cpuparams_batch.n_threads"), _count(4096)),
    "gpu_layers": (("n_gpu_layers",), _gpu_layers),
    "cache_type_k": (("cache_type_k",), _cache_type),
    "cache_type_v": (("cache_type_v",), _cache_type),
    "flash_attention": (("flash_attn_type",), _flash_attention),
    "cache_ram_mib": (("cache_ram_mib",), _mebibytes),
    "kv_unified": (("kv_unified",), _flag),
    "swa_full": (("swa_full",), _flag),
}


def read_config(line: bytes) -> dict[str, Any]:
    """The configuration line.

    Raises:
        ValueError: it is no JSON object with a file and a port.
    """
    config = json.loads(line)
    if not isinstance(config, dict) or not isinstance(config.get("file"), str) or not isinstance(config.get("port"), int):
        raise ValueError("the configuration line needs a file and a port")
    return config


def _first_line() -> bytes:
    """Stdin up to its first newline, by os.read: a buffered reader would make a normal exit abort later."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            break
        line += piece
    return line


def _leave_with_parent() -> None:
    """Wait for the end of stdin; the parent is gone then, however it died. Nothing needs saving."""
    while os.read(0, 4096):
        pass
    os._exit(0)


def _tie_to_parent() -> threading.Thread:
    """Make the end of stdin the end of this process, from here on.

    A load holds Python's lock, for minutes where the model is large, and a thread would not run. So where the system can, it
    sends SIGIO when the pipe ends, whose default is to end the process; the thread is for where it cannot.
    """
    if hasattr(signal, "SIGIO") and stat.S_ISFIFO(os.fstat(0).st_mode):
        import fcntl

        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    watcher = threading.Thread(target=_leave_with_parent, daemon=True)
    watcher.start()
    return watcher


def _fail(text: str) -> NoReturn:
    print(f"engine: {text}", flush=True)
    sys.exit(1)  # an orderly exit: llama.cpp's log is written by a thread of its own


def main() -> None:
    """Load and serve until the parent is gone or SIGTERM comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the viewer's business
    try:
        config = read_config(_first_line())
    except ValueError as error:
        _fail(str(error))
    watcher = _tie_to_parent()
    # Before the import: by default libgomp spins at every barrier, 100 times slower where other processes want the cores.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        import xllamacpp
    except ImportError as error:
        _fail(f"cannot load the embedded engine: {error}")
    params = xllamacpp.CommonParams()
    params.model.path = config["file"]
    params.port = config["port"]
    params.n_parallel = 1
    params.verbosity = _VERBOSITY
    params.ui = False
    params.endpoint_metrics = True
    if config.get("alias"):
        params.model_alias = {config["alias"]}
    try:
        apply_settings(params, config.get("settings") or {}, xllamacpp)
    except SettingError as error:
        _fail(str(error))
    try:
        server = xllamacpp.Server(params)  # until loaded; meanwhile /health says 503
    except RuntimeError as error:
        _fail(str(error))
    watcher.join()
    del server


if __name__ == "__main__":
    main()
