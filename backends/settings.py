"""Settings by OUTPUTS' names turned into what llama.cpp and OpenAI-compatible servers call them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_LOADED_WITH = ("context", "batch", "ubatch", "parallel", "threads", "gpu_layers", "cache_type_k", "cache_type_v")
SERVER_SIDE: Final = frozenset((*_LOADED_WITH, "flash_attention", "keep_alive"))
"""Fixed when a server starts: nothing a request could change."""


def fixed(settings: Mapping[str, Any]) -> dict[str, str]:
    """Of these settings those that a request cannot change, and why."""
    return dict.fromkeys(sorted(SERVER_SIDE & settings.keys()), "fixed when a server starts")


_SAME: Final = ("temperature", "top_k", "top_p", "min_p", "seed", "repeat_penalty", "max_tokens")
_RANDOM_SEED: Final = 4_294_967_295


def chat_body(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a /v1/chat/completions body for these settings; what OUTPUTS does not name goes as it is."""
    body = _common(settings)
    if settings.get("logprobs"):
        body["logprobs"] = True
        body["top_logprobs"] = int(settings["logprobs"])
    think = settings.get("think")
    if isinstance(think, bool):
        body["chat_template_kwargs"] = {"enable_thinking": think}
    elif isinstance(think, str):
        body["chat_template_kwargs"] = {"enable_thinking": True, "reasoning_effort": think}
        body["reasoning_effort"] = think
    if (wanted := settings.get("format")) is not None:
        if wanted == "json":
            body["response_format"] = {"type": "json_object"}
        else:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": wanted}}
    return body


def completion_body(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of llama.cpp's /completion body for these settings."""
    body = _common(settings)
    if "max_tokens" in body:
        body["n_predict"] = body.pop("max_tokens")
    if settings.get("logprobs"):
        body["n_probs"] = int(settings["logprobs"])
    wanted = settings.get("format")
    if isinstance(wanted, dict):
        body["json_schema"] = wanted
    elif wanted == "json":
        body["json_schema"] = {}
    return body


def _common(settings: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name, value in settings.items():
        if value is None or name in SERVER_SIDE or name in ("logprobs", "think", "format"):
            continue
        body[name] = [value] if name == "stop" and isinstance(value, str) else value
    return body


def from_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp's generation settings by OUTPUTS' names: floats rounded, a random seed and "no limit" left out."""
    found: dict[str, Any] = {}
    for name in _SAME:
        value = params.get(name)
        if value is None or (name == "seed" and value == _RANDOM_SEED) or (name == "max_tokens" and value < 0):
            continue
        found[name] = float(f"{value:.6g}") if isinstance(value, float) else value
    return found
