"""What is asked of Ollama: settings by OUTPUTS' names as its options, chats as its messages. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from phasetop.setting_names import OLLAMA_NAMES, OLLAMA_OPTIONS, is_known

_TOP: Final = ("keep_alive", "truncate", "shift")
_ELSEWHERE: Final = (
    *("logprobs", "think", "format", "response_format", "reasoning_effort", "chat_template_kwargs"),
    *_TOP,
)
_WHY_NOT: Final = {
    "ubatch": "Ollama takes its num_batch for both",
    "parallel": "OLLAMA_NUM_PARALLEL sets it where Ollama runs",
    "cache_type_k": "OLLAMA_KV_CACHE_TYPE sets it where Ollama runs",
    "cache_type_v": "OLLAMA_KV_CACHE_TYPE sets it where Ollama runs",
    "flash_attention": "OLLAMA_FLASH_ATTENTION sets it where Ollama runs",
    "cache_prompt": "Ollama always reuses what is cached",
}
_ALL_LAYERS: Final = 999
_OURS: Final = {theirs: ours for ours, theirs in OLLAMA_NAMES.items()}


def unused(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings that a request cannot bring to Ollama, and why."""
    found = {}
    for name in settings:
        if name in _WHY_NOT:
            found[name] = _WHY_NOT[name]
        elif is_known(name) and name not in OLLAMA_OPTIONS and name not in OLLAMA_NAMES and name not in _ELSEWHERE:
            found[name] = "no option of Ollama's"
    return found


def body_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a request's body beside model and messages or prompt; what is another server's is left out."""
    body: dict[str, Any] = {"stream": True}
    options = {}
    for name, value in settings.items():
        theirs = OLLAMA_NAMES.get(name, name)
        if value is None or (theirs not in OLLAMA_OPTIONS and is_known(name)):
            continue
        if theirs == "stop" and isinstance(value, str):
            value = [value]
        if theirs == "num_gpu" and isinstance(value, str):
            if value.lower() == "auto":
                continue
            value = _ALL_LAYERS if value.lower() == "all" else value
        options[theirs] = value
    if options:
        body["options"] = options
    for name in _TOP:
        if settings.get(name) is not None:
            body[name] = settings[name]
    if settings.get("logprobs") is not None:
        body["logprobs"] = True
        body["top_logprobs"] = int(settings["logprobs"])
    if (think := wanted_thinking(settings)) is not None:
        body["think"] = think
    if (form := _format(settings)) is not None:
        body["format"] = form
    return body


def wanted_thinking(settings: Mapping[str, Any]) -> bool | str | None:
    """Whether, or how much, it should think; None: not said, so that the model's own default holds."""
    if settings.get("think") is not None:
        return settings["think"]  # type: ignore[no-any-return]
    if isinstance(effort := settings.get("reasoning_effort"), str):
        return False if effort in ("none", "minimal") else effort
    kwargs = settings.get("chat_template_kwargs")
    enabled = kwargs.get("enable_thinking") if isinstance(kwargs, dict) else None
    return enabled if isinstance(enabled, bool) else None


def _format(settings: Mapping[str, Any]) -> Any:
    """``json`` or a schema, also where an app's body says it in OpenAI's way."""
    if (form := settings.get("format")) is not None:
        return form
    form = settings.get("response_format")
    if not isinstance(form, dict) or form.get("type") in (None, "text"):
        return None
    wrapped = form.get("json_schema")
    schema = wrapped.get("schema") if isinstance(wrapped, dict) else form.get("schema")
    return schema if isinstance(schema, dict) else "json"


def messages_of(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A chat in Ollama's form, whoever's form it came in.

    Parts of a content become one text and images (base64 without their data: head; one that is only linked stays a link, and
    Ollama says that it cannot take it); a tool call's arguments become the object that they spell.
    """
    return [_message(message) for message in messages]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        key: value for key, value in message.items() if key not in ("content", "tool_calls", "name") and value is not None
    }
    content = message.get("content")
    images = list(message.get("images") or ())
    if isinstance(content, list):
        texts = []
        for part in content:
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, dict) and isinstance(part.get("text"), str):
                texts.append(part["text"])
            elif isinstance(part, dict) and (image := _image(part)) is not None:
                images.append(image)
        content = "\n".join(texts)
    kept["content"] = content if isinstance(content, str) else ""
    if images:
        kept["images"] = images
    if message.get("role") == "tool" and message.get("name"):
        kept["tool_name"] = message["name"]
    if isinstance(calls := message.get("tool_calls"), list):
        kept["tool_calls"] = [_call(call) for call in calls if isinstance(call, dict)]
    return kept


def _image(part: Mapping[str, Any]) -> str | None:
    found = part.get("image_url") or part.get("image")
    url = found.get("url") if isinstance(found, dict) else found
    if not isinstance(url, str):
        return None
    head, comma, data = url.partition(",")
    return data if comma and head.startswith("data:") and head.endswith(";base64") else url


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = dict(call.get("function") or {})
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = None
    function["arguments"] = arguments if isinstance(arguments, dict) else {}
    return {"id": call["id"], "function": function} if call.get("id") else {"function": function}


def has_images(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a chat (in Ollama's form) shows images, whose tokens nobody can count from outside."""
    return any(message.get("images") for message in messages)


def parameters_of(lines: str | None) -> dict[str, Any]:
    """A model's own settings, from ``parameters`` of /api/show (names and values in columns), by OUTPUTS' names."""
    found: dict[str, Any] = {}
    stops: list[str] = []
    for line in (lines or "").splitlines():
        name, _, rest = line.strip().partition(" ")
        value = _value(rest.strip())
        if not name or value == "":
            continue
        if name == "stop":
            stops.append(str(value))
        elif name in OLLAMA_OPTIONS:
            found[_OURS.get(name, name)] = value
    if stops:
        found["stop"] = stops
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip('"')


def prompt_bytes(body: Mapping[str, Any]) -> int:
    """UTF-8 bytes of all that a request gives the model to read."""
    texts = [body.get("prompt"), *(message.get("content") for message in body.get("messages") or ())]
    return sum(len(text.encode("utf-8", "replace")) for text in texts if isinstance(text, str))
