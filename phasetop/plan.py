"""What `phasetop run` was asked for, read from its options: the target, the chat, the settings, the way to show it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from phasetop.amounts import read_bandwidth, read_flops
from phasetop.checks import check_file, check_key, check_settings, check_url, printable_url
from phasetop.display import Display, display_of
from phasetop.faults import UsageError
from phasetop.lifeline import Start, Target
from phasetop.model_names import read_model_argument
from phasetop.record_options import Record, record_of
from phasetop.setting_names import ALIASES
from phasetop.ssh_model import is_ssh, read_ssh_model

ENGINE_SETTINGS: Final = ("context", "batch", "threads", "gpu_layers", "cache_type_k", "cache_type_v", "flash_attention")
"""Settings that are fixed when an engine starts."""
_ENGINE_TOO: Final = ("ubatch", "parallel")
"""Further ones, which have no option of their own: ``-o``."""

REQUEST_SETTINGS: Final = ("max_tokens", "temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed", "logprobs")

BODY_SETTINGS: Final = ("temperature", "top_k", "top_p", "min_p", "seed", "repeat_penalty", "stop", "presence_penalty",
                        "frequency_penalty", "response_format", "tool_choice", "parallel_tool_calls", "logit_bias",
                        "chat_template_kwargs", "reasoning_effort", "grammar")  # fmt: skip
"""What a request body that an app logged may carry beside messages and tools."""


_MAX_DEPTH: Final = 100  # no chat and no schema goes deeper; a hostile one would end in an error of our own


class Plan(Struct, frozen=True):
    """A run, ready to be started; ``asks``: something is to be sent at once, not only a system message for what is typed."""

    start: Start
    api: str
    asks: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    prompt: str | None = None
    tools: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    json: str | None = None  # None: no; "" or "compact"
    plain: bool = False
    tui: bool = False
    show_thinking: bool = False
    record: Path | None = None
    keep_as: str | None = None
    display: Display = field(default_factory=Display)


def plan(model: str | None, given: Mapping[str, Any], stdin: Any = None) -> Plan:
    """Read `run`'s arguments.

    Args:
        model: the MODEL argument.
        given: the options by name, None or empty where not given.
        stdin: where a piped prompt comes from; None: this process's.

    Raises:
        UsageError: they contradict each other, or a file cannot be read.
    """
    settings = _settings(given)
    check_settings(settings)
    engine: dict[str, Any] = {name: settings.pop(name) for name in (*ENGINE_SETTINGS, *_ENGINE_TOO) if name in settings}
    messages, prompt, tools, body = _words(given, stdin if stdin is not None else sys.stdin)
    asks = prompt is not None or bool(given.get("messages")) or any(message["role"] != "system" for message in messages)
    settings = {**body, **settings}
    if given.get("raw") and tools:
        raise UsageError("--raw sends a bare prompt: tools need the chat template")
    as_json = given.get("as_json")
    if given.get("tui") and (given.get("plain") or as_json is not None):
        raise UsageError("--tui and --plain (or --json) exclude each other")
    kept = record_of(given)
    start = _start(model, given, engine, kept)
    if start.target is None or start.target.backend != "embedded":
        settings = {**engine, **settings}  # Ollama takes them with a request, others say that they don't
    return Plan(
        start=start,
        api="raw" if given.get("raw") else "chat",
        asks=asks,
        messages=messages,
        prompt=prompt,
        tools=tools,
        settings=settings,
        json=as_json,
        plain=bool(given.get("plain")) or as_json is not None,
        tui=bool(given.get("tui")),
        show_thinking=bool(given.get("show_thinking")),
        record=kept.path,
        keep_as=kept.keep_as,
        display=display_of(given),
    )


_ELSEWHERE: Final = (
    *("prompt", "prompt_file", "messages", "model_file", "served_model", "as_json", "plain", "tui"),
    "backend",
)
"""What the start screen itself decides: what is run, what is asked, how it is shown."""


Planned = Callable[[Target, list[str], dict[str, Any] | None], Plan]


def begun_plan(settings: Mapping[str, Any]) -> Planned:
    """Plans for what is begun on the start screen, with `run`'s settings: a function of the target, argv and engine.

    Raises:
        UsageError: the settings contradict each other, or a file of theirs cannot be read.
    """
    usual = {name: value for name, value in settings.items() if name not in _ELSEWHERE}
    nothing = io.StringIO()
    kinds = {
        embedded: plan(None, {**usual, "backend": "embedded" if embedded else None}, nothing) for embedded in (True, False)
    }

    def planned(target: Target, argv: list[str], engine: dict[str, Any] | None) -> Plan:
        base = kinds[engine is not None]
        started = {**engine, "settings": (base.start.engine or {}).get("settings", {})} if engine is not None else None
        return replace(base, start=replace(base.start, target=target, argv=argv, engine=started))

    return planned


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for pair in given.get("settings") or ():
        name, equals, value = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise UsageError(f"-o {pair}: NAME=VALUE is expected")
        settings[ALIASES.get(name, name)] = _value(value)
    for name in (*ENGINE_SETTINGS, *REQUEST_SETTINGS):
        if given.get(name) is not None:
            settings[name] = _value(given[name]) if name == "gpu_layers" else given[name]
    if given.get("stop"):
        settings["stop"] = list(given["stop"])
    if given.get("think") is not None and given.get("no_think"):
        raise UsageError("--think and --no-think exclude each other")
    if given.get("no_think"):
        settings["think"] = False
    elif given.get("think") is not None:
        settings["think"] = given["think"] or True
    if given.get("keep_alive") is not None:
        settings["keep_alive"] = _value(given["keep_alive"])
    if given.get("no_cache_prompt"):
        settings["cache_prompt"] = False
    if (wanted := given.get("output_format")) is not None:
        settings["format"] = "json" if wanted == "json" else _json_file(wanted, "--format")
    return settings


def _value(text: Any) -> Any:
    """A setting's value as typed: JSON where it is some, else text."""
    import json

    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _words(given: Mapping[str, Any], stdin: Any) -> tuple[list[dict[str, Any]], str | None, Any, dict[str, Any]]:
    """(chat messages, raw prompt, tools, settings of a logged body)."""
    tools: Any = None
    body: dict[str, Any] = {}
    messages: list[dict[str, Any]] = []
    if given.get("messages"):
        messages, tools, body = _chat_file(given["messages"])
    parts = [given["prompt"]] if given.get("prompt") is not None else []
    if (name := given.get("prompt_file")) is not None:
        parts.append(_read_stdin(stdin) if name == "-" else _text_file(name, "-f"))
    elif not parts and not messages and stdin is not None and not stdin.isatty():
        piped = _read_stdin(stdin)
        if piped.strip():
            parts.append(piped)
    text = "\n\n".join(parts) if parts else None
    if text is not None and not text.strip() and not given.get("raw"):
        raise UsageError("the prompt is empty")
    if given.get("raw"):
        if messages or given.get("system"):
            raise UsageError("--raw sends a bare prompt: --messages and --system need the chat template")
        return [], text, None, {}
    if given.get("system"):
        messages = [{"role": "system", "content": given["system"]}, *messages]
    if text is not None:
        messages = [*messages, {"role": "user", "content": text}]
    return messages, None, tools, body


def _chat_file(name: str) -> tuple[list[dict[str, Any]], Any, dict[str, Any]]:
    value = _json_file(name, "--messages")
    tools, body = None, {}
    if isinstance(value, dict):
        tools = value.get("tools")
        body = {key: value[key] for key in BODY_SETTINGS if value.get(key) is not None}
        for key, ours in ALIASES.items():
            if value.get(key) is not None:
                body[ours] = value[key]
        if value.get("max_tokens") is not None:
            body["max_tokens"] = value["max_tokens"]
        value = value.get("messages")
    if not isinstance(value, list) or not value or not all(isinstance(each, dict) and "role" in each for each in value):
        raise UsageError(f"--messages {name}: a list of messages, or a request body with one, is expected")
    return value, tools, body


def _json_file(name: str, option: str) -> Any:
    import json

    try:
        value = json.loads(_text_file(name, option))
        deep = _is_deeper(value, _MAX_DEPTH)
    except ValueError as error:
        raise UsageError(f"{option} {name}: it holds no JSON ({error})") from None
    except RecursionError:
        deep = True
    if deep:
        raise UsageError(f"{option} {name}: its JSON is nested more than {_MAX_DEPTH} levels deep")
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects lie in each other on more levels than this."""
    if not isinstance(value, (list, dict)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels <= 0 or any(_is_deeper(each, levels - 1) for each in inner)


def _text_file(name: str, option: str) -> str:
    try:
        return Path(name).expanduser().read_bytes().decode("utf-8", "replace")
    except OSError as error:
        or_json = "json, or a file with a schema; " if option == "--format" else ""
        raise UsageError(f"{option} {name}: {or_json}{(error.strerror or str(error)).lower()}") from None


def _read_stdin(stdin: Any) -> str:
    data = stdin.buffer.read() if hasattr(stdin, "buffer") else stdin.read()
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)


def _start(model: str | None, given: Mapping[str, Any], engine: dict[str, Any], kept: Record) -> Start:
    backend = given.get("backend")
    if given.get("model_file"):
        if model is not None:
            raise UsageError(f"MODEL is given twice: {model} and -m {given['model_file']}")
        model = given["model_file"]
        if not Path(str(model)).expanduser().is_file():
            is_folder = Path(str(model)).expanduser().is_dir()
            raise UsageError(f"-m {model}: {'a folder, a model is a .gguf file' if is_folder else 'no such file'}")
    what = read_model_argument(model)
    if what.kind == "url" and is_ssh(what.text):
        return _start_over_ssh(what.text, given, kept)
    if what.kind == "url":
        check_url(what.text)
    if given.get("proxy") is not None:
        check_url(given["proxy"], "--proxy")
    check_file(given.get("cacert"), "--cacert")
    started: dict[str, Any] | None = None
    if what.kind == "url":
        target = Target(backend, what.text, given.get("served_model"))
    elif what.kind == "file":
        target, started = Target("embedded", None, None), {"file": what.text, "settings": engine}
    elif backend == "embedded":
        if what.kind == "name" and what.text not in ("embedded", "smollm2"):
            raise UsageError(f"--backend embedded runs a .gguf file or its own small model, not {what.text!r}")
        target, started = Target("embedded"), {"file": None, "settings": engine}
    else:
        name = what.text or given.get("served_model")
        target, started = Target(backend, None, name), {"file": None, "settings": engine}
    return _start_of(given, target, [_shown_model(what.kind, what.text)] if what.text else [], started, kept)


def _start_over_ssh(text: str, given: Mapping[str, Any], kept: Record) -> Start:
    """A server on another machine: its address there, or the model's name, and how ssh gets there."""
    found, backend, name = read_ssh_model(text), given.get("backend"), given.get("served_model")
    if backend == "embedded":
        raise UsageError("--backend embedded runs here: ssh:// asks a server on the other machine")
    if given.get("proxy") is not None:
        raise UsageError("--proxy does not go with ssh://: a jump host (ProxyJump) stands in ssh's configuration")
    if found.name is not None and name is not None:
        raise UsageError(f"MODEL is given twice: {found.name} and --model {name}")
    check_file(given.get("cacert"), "--cacert")
    target = Target(backend, found.url, found.name or name, ssh=str(found.address))
    return _start_of(given, target, [found.shown], None, kept)


def _start_of(
    given: Mapping[str, Any], target: Target, shown: list[str], engine: dict[str, Any] | None, kept: Record
) -> Start:
    return Start(
        target=target,
        argv=["run", *shown],
        engine=engine,
        api_key=check_key(given.get("api_key")),
        cacert=given.get("cacert"),
        insecure=bool(given.get("insecure")),
        proxy=given.get("proxy"),
        redact=bool(given.get("redact")),
        pull=bool(given.get("pull")),
        peak_bytes_per_s=_amount(given, "peak_bandwidth", read_bandwidth),
        peak_flops=_amount(given, "peak_flops", read_flops),
        max_bytes=kept.max_bytes,
        part_bytes=kept.part_bytes,
        part_ns=kept.part_ns,
    )


def _amount(given: Mapping[str, Any], name: str, read: Callable[[str, str], float]) -> float | None:
    text = given.get(name)
    return None if text is None else read(f"--{name.replace('_', '-')}", text)


def _shown_model(kind: str, text: str) -> str:
    """MODEL as it may be recorded: no userinfo, no query, no folders."""
    if kind == "file":
        return Path(text).name
    return printable_url(text) if kind == "url" else text
