"""What Ollama tells of its models: /api/tags, /api/show and /api/ps, read leniently. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from phasetop import ollama_names
from phasetop.backends.ollama_request import parameters_of
from phasetop.backends.server_json import count
from phasetop.gguf import GgufError
from phasetop.model_metadata import Metadata, from_file, from_show
from phasetop.model_names import display_name

_FROM: Final = re.compile(r"^FROM\s+(\S.*?[/\\]sha256-([0-9a-f]{64}))\s*$", re.M)


@dataclass(frozen=True, slots=True)
class Tag:
    """An installed model as /api/tags lists it; ``file_bytes`` is all its layers, of which the GGUF is nearly all."""

    name: str
    digest: str | None = None
    file_bytes: int | None = None
    quant: str | None = None
    arch: str | None = None
    context_trained: int | None = None
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded model as /api/ps lists it; ``blob`` is filled in by who knows it."""

    name: str
    digest: str | None = None
    context: int | None = None
    size_bytes: int | None = None
    vram_bytes: int | None = None
    expires_s: float | None = None  # Unix time
    blob: str | None = None


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """One model as far as Ollama describes it.

    Attributes:
        name: as requests carry it: what was typed.
        digest: of its manifest, as /api/tags and /api/ps have it.
        blob: the SHA-256 of its GGUF: names that share it share a runner.
        file: where the GGUF lies on Ollama's machine; never recorded.
        defaults: its own settings, by OUTPUTS' names.
        adds_bos: a begin token is put before its prompts.
        described: the keys of a `model` event.
    """

    name: str
    digest: str | None = None
    blob: str | None = None
    file: Path | None = None
    context_trained: int | None = None
    adds_bos: bool = False
    bos: int | None = None
    capabilities: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    described: Mapping[str, Any] = field(default_factory=dict)


def tags_of(answer: Mapping[str, Any]) -> list[Tag]:
    """The models of a /api/tags answer."""
    return [
        Tag(
            name=name,
            digest=_text(entry.get("digest")),
            file_bytes=_size(entry.get("size")),
            quant=_text(details.get("quantization_level")),
            arch=_text(details.get("family")),
            context_trained=count(details.get("context_length")) or None,
            capabilities=_texts(entry.get("capabilities")),
        )
        for entry, name in _named(answer)
        for details in (_mapping(entry.get("details")),)
    ]


def loaded_of(answer: Mapping[str, Any]) -> list[Loaded]:
    """The models of a /api/ps answer."""
    return [
        Loaded(
            name=name,
            digest=_text(entry.get("digest")),
            context=count(entry.get("context_length")) or None,
            size_bytes=_size(entry.get("size")) or None,  # 0 where Ollama could not read it from its runner's log
            vram_bytes=_size(entry.get("size_vram")),
            expires_s=_unix(entry.get("expires_at")),
        )
        for entry, name in _named(answer)
    ]


def describe(name: str, show: Mapping[str, Any], tag: Tag | None, *, local: bool) -> OllamaModel:
    """A model from /api/show (its answer without ``verbose``) and its line of /api/tags.

    Args:
        name: as it is asked for.
        show: the answer; {} where there is none.
        tag: its line in /api/tags, where it has one.
        local: Ollama's files are this machine's, so that the size of the GGUF alone can be looked up.

    """
    info = _mapping(show.get("model_info"))
    details = _mapping(show.get("details"))
    arch = _text(info.get("general.architecture")) or _text(details.get("family")) or (tag.arch if tag else None)
    found = _FROM.search(str(show.get("modelfile") or ""))
    file = Path(found[1]) if found and local else None
    trained = count(info.get(f"{arch}.context_length")) or (tag.context_trained if tag else None)
    capabilities = frozenset(_texts(show.get("capabilities"))) or frozenset(tag.capabilities if tag else ())
    defaults = parameters_of(_text(show.get("parameters")))
    if "thinking" in capabilities:
        defaults.setdefault("think", True)
    file_bytes, size_from = _file_bytes(file, tag)
    keys: dict[str, Any] = {
        "arch": arch,
        "params": _size(info.get("general.parameter_count")) or None,
        "quant": _text(details.get("quantization_level")) or (tag.quant if tag else None),
        "file_bytes": file_bytes,
        "context_trained": trained,
        "template": _text(show.get("template")),
    }
    known = {key: value for key, value in keys.items() if value not in (None, "")}
    origin = dict.fromkeys(known, "server: /api/show")
    if file_bytes is not None:
        origin["file_bytes"] = size_from
    if (metadata := _metadata(file, show)) is not None:  # arrays whole, bytes of each tensor
        told = metadata.event()
        origin = {**told.pop("origin"), **origin}
        known = {**told, **known}
        for keys_of in (known, origin):
            keys_of.pop("file", None)  # a blob's name says nothing
    return OllamaModel(
        name=name,
        digest=tag.digest if tag else None,
        blob=found[2] if found else None,
        file=file,
        context_trained=trained,
        adds_bos=_adds_bos(info),
        bos=count(info.get("tokenizer.ggml.bos_token_id")),
        capabilities=capabilities,
        defaults=defaults,
        described={"name": shown(name), **known, "origin": origin},
    )


def _metadata(file: Path | None, show: Mapping[str, Any]) -> Metadata | None:
    """What the GGUF's own header says where this user may read it, else what Ollama tells of it."""
    if file is not None:
        try:
            return from_file(file)
        except (GgufError, OSError):
            pass
    return from_show(show)


def blob_of(show: Mapping[str, Any]) -> str | None:
    """The SHA-256 of a model's GGUF, from its /api/show."""
    found = _FROM.search(str(show.get("modelfile") or ""))
    return found[2] if found else None


def is_listed(model: OllamaModel, loaded: Iterable[Loaded]) -> Loaded | None:
    """The line of /api/ps that this model has: by name, by manifest, or by the GGUF that it shares with another name."""
    loaded = list(loaded)
    by_blob = (one for one in loaded if model.blob is not None and one.blob == model.blob)
    return next(by_blob, None) or is_listed_as(model.name, model.digest, loaded)


def is_listed_as(name: str, digest: str | None, loaded: Iterable[Loaded]) -> Loaded | None:
    """The line of /api/ps of a name, or of its manifest."""
    for one in loaded:
        if (digest and one.digest == digest) or ollama_names.same(one.name, name):
            return one
    return None


def shown(name: str) -> str:
    """A name as it is shown: without ``:latest``."""
    return display_name(name.removesuffix(":latest"))


def _adds_bos(info: Mapping[str, Any]) -> bool:
    """Whether the runner puts a begin token first, as Ollama reads it (`tokenizerAddsBOS` in llm/llama_server.go)."""
    pre, kind = info.get("tokenizer.ggml.pre"), info.get("tokenizer.ggml.model")
    return pre in ("lfm2", "gemma4") or kind == "gemma4" or info.get("tokenizer.ggml.add_bos_token") is True


def _file_bytes(file: Path | None, tag: Tag | None) -> tuple[int | None, str]:
    if file is not None:
        try:
            return file.stat().st_size, "file"
        except OSError:
            pass
    return (tag.file_bytes if tag else None), "server: /api/tags, all layers together"


def _named(answer: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    entries = answer.get("models")
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    named = ((entry, entry.get("name") or entry.get("model")) for entry in found)
    return [(entry, name) for entry, name in named if isinstance(name, str) and name]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _unix(value: Any) -> float | None:
    """Go's RFC 3339 time (nanoseconds and all) as Unix time."""
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value.replace("Z", "+00:00"))).timestamp()
    except (ValueError, OverflowError):
        return None
