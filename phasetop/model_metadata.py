"""What a model is, as far as its cache and its speed depend on it: from a GGUF file, or from what a server tells of one.

Weights are counted as a decode step reads them: every layer, the head, of the experts those that a token uses; not the
embedding, of which a token reads one row, unless it is the head as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from phasetop.gguf import GgufError, Header, Tensor, item_text, read_header
from phasetop.model_names import display_name
from phasetop.tensor_types import BY_NAME, FILE_TYPES

if TYPE_CHECKING:
    from phasetop import events as ev

MAX_TEXT: Final = 200

_LAYER: Final = re.compile(r"blk\.(\d+)\.")
_EXPERTS: Final = re.compile(r"\.ffn_\w*_exps\.|\.ffn_(?:up|gate|down)\.\d+\.")
_LOOKED_UP: Final = re.compile(r"(?:token_embd|position_embd|per_layer_token_embd|token_types|embed_\w+)\b")
"""Tables of which a token reads a row."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """One model.

    Attributes:
        arch: ``general.architecture``.
        hparams: its metadata by GGUF keys, numbers and arrays of numbers.
        layers: blocks, those of a draft head included.
        tensor_bytes: of all tensors; by_type: the same by their types.
        weights: bytes that a decode step reads: layers, experts, head. None where a tensor's size is not known.
        head_tied: the embedding is the head.
        params, active_params: numbers in all tensors, and those that a decode step uses.
        eos: the text of the token that ends a reply.
        missing_bytes: how much of its data the file lacks.
        origin: key of a `model` event → where it is from.

    """

    arch: str
    hparams: Mapping[str, Any]
    name: str | None = None
    file: str | None = None
    quant: str | None = None
    layers: int | None = None
    context_trained: int | None = None
    params: int | None = None
    active_params: int | None = None
    file_bytes: int | None = None
    tensor_bytes: int | None = None
    by_type: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, int] | None = None
    head_tied: bool = False
    eos: str | None = None
    missing_bytes: int = 0
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def read_bytes_per_token(self) -> int | None:
        """Weights that a decode step reads."""
        return None if self.weights is None else sum(self.weights.values())

    @property
    def bits(self) -> float | None:
        """Bits a weight, as they are stored; None where that is not told."""
        if self.weights is None or not self.params:
            return None
        if self.tensor_bytes is not None:
            return 8 * self.tensor_bytes / self.params
        return 8 * sum(self.weights.values()) / (self.active_params or self.params)

    def event(self) -> dict[str, Any]:
        """The keys of a `model` event that are known, with their sources."""
        keys = ("arch", "params", "active_params", "quant", "file", "file_bytes", "tensor_bytes", "context_trained", "eos")
        known = {key: getattr(self, key) for key in keys if getattr(self, key) is not None}
        known["hparams"] = {key: list(value) if isinstance(value, tuple) else value for key, value in self.hparams.items()}
        if self.weights is not None:
            known["weights"] = dict(self.weights)
        known["origin"] = {key: self.origin.get(key, "file") for key in known}
        return known


def from_event(model: ev.Model) -> Metadata:
    """What a server told of a model; ``arch`` is empty where it did not."""
    arch = model.arch or ""
    hparams = (model.hparams or {}) if arch else {}
    blocks = hparams.get(f"{arch}.block_count")
    return Metadata(
        arch=arch,
        hparams=hparams,
        name=model.name,
        file=model.file,
        quant=model.quant,
        layers=blocks if isinstance(blocks, int) else None,
        context_trained=model.context_trained,
        params=model.params,
        active_params=model.active_params,
        file_bytes=model.file_bytes,
        tensor_bytes=model.tensor_bytes,
        weights=model.weights,
        origin=model.origin or {},
    )


def from_file(path: Path) -> Metadata:
    """What a GGUF file (or the model that it is a part of) says.

    Raises:
        GgufError: it cannot be read, or says no architecture.
    """
    return from_header(read_header(path))


def from_header(header: Header) -> Metadata:
    """What a header says.

    Raises:
        GgufError: it says no architecture.
    """
    arch = header.text("general.architecture")
    file = header.files[0].name
    if not arch:
        raise GgufError(f"{file}: it says no architecture (general.architecture)")
    prefix = f"{arch}."
    hparams = {
        key: value for key, value in header.values.items() if key.startswith(prefix) and not isinstance(value, str)
    } | _draft_head(arch, header)
    number = header.number("general.file_type")
    eos = header.number("tokenizer.ggml.eos_token_id")
    read = _weights(arch, hparams, header.tensors)
    return Metadata(
        arch=arch[:MAX_TEXT],
        hparams=hparams,
        name=(header.text("general.name") or "")[:MAX_TEXT] or None,
        file=display_name(file) + ".gguf" if len(header.files) > 1 else file,
        quant=FILE_TYPES.get(number) if number is not None else None,
        layers=_count(hparams.get(f"{arch}.block_count")),
        context_trained=_count(hparams.get(f"{arch}.context_length")),
        params=sum(tensor.elements for tensor in header.tensors) or None,
        active_params=read.elements,
        file_bytes=header.file_bytes,
        tensor_bytes=_total(header.tensors),
        by_type=_by_type(header.tensors),
        weights=read.parts,
        head_tied=read.tied,
        eos=(item_text(header, "tokenizer.ggml.tokens", eos) or "")[:MAX_TEXT] or None if eos is not None else None,
        missing_bytes=header.missing_bytes,
    )


def from_show(show: Mapping[str, Any]) -> Metadata | None:
    """What Ollama's /api/show says, with or without ``verbose``; None where it says no architecture.

    Without ``verbose`` arrays are null: heads and KV heads of each layer then come from the shapes of its tensors.
    """
    info = show.get("model_info")
    if not isinstance(info, Mapping) or not isinstance(info.get("general.architecture"), str):
        return None
    arch: str = info["general.architecture"]
    hparams = {key: value for key, value in info.items() if key.startswith(f"{arch}.") and _is_numeric(value)}
    tensors = [tensor for entry in show.get("tensors") or () if (tensor := _shown_tensor(entry)) is not None]
    origin = "server: /api/show"
    origins: dict[str, str] = {}
    absent = {key for key, value in info.items() if value is None and key.startswith(f"{arch}.")}
    hparams |= (by_shape := {key: value for key, value in _by_shape(arch, hparams, tensors).items() if key in absent})
    if absent:
        left = sorted(key.removeprefix(f"{arch}.") for key in absent - by_shape.keys())
        how = f"by the tensors' shapes: {len(by_shape)} arrays" if by_shape else "arrays left out"
        origins["hparams"] = f"{origin}; {how}{', not known: ' + ', '.join(left) if left else ''}"
    details = show.get("details")
    quant = details.get("quantization_level") if isinstance(details, Mapping) else None
    read = _weights(arch, hparams, tensors)
    params = _count(info.get("general.parameter_count"))
    whole = bool(tensors) and params in (None, sum(tensor.elements for tensor in tensors))
    keys = ("arch", "hparams", "quant", "params", "active_params", "tensor_bytes", "context_trained", "weights")
    return Metadata(
        arch=arch[:MAX_TEXT],
        hparams=hparams,
        quant=quant if isinstance(quant, str) and quant else None,
        layers=_count(hparams.get(f"{arch}.block_count")),
        context_trained=_count(hparams.get(f"{arch}.context_length")),
        params=params,
        active_params=read.elements if whole else None,
        tensor_bytes=_total(tensors) if whole else None,
        by_type=_by_type(tensors) if whole else {},
        weights=read.parts if whole else None,
        head_tied=read.tied,
        origin={**dict.fromkeys(keys, origin), **origins},
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """What a decode step reads."""

    parts: dict[str, int] | None
    elements: int | None
    tied: bool


def _weights(arch: str, hparams: Mapping[str, Any], tensors: Iterable[Tensor]) -> _Read:
    tensors = list(tensors)
    names = {tensor.name for tensor in tensors}
    tied = "output.weight" not in names and "token_embd.weight" in names
    trunk = _count(hparams.get(f"{arch}.block_count"))
    draft = _count(hparams.get(f"{arch}.nextn_predict_layers")) or 0
    parts = {"layers": 0, "experts": 0, "head": 0}
    elements = 0
    known = bool(tensors)
    for tensor in tensors:
        layer = _LAYER.match(tensor.name)
        if layer is not None and trunk is not None and int(layer[1]) >= trunk - draft:
            continue  # the draft head: not part of a plain decode step
        if tensor.name == "token_embd.weight":
            if not tied:
                continue
            part = "head"
        elif layer is None and _LOOKED_UP.match(tensor.name):
            continue
        else:
            part = "head" if tensor.name.startswith(("output.", "output_norm")) else "layers"
        used, total = 1, 1
        if _EXPERTS.search(tensor.name):
            part = "experts"
            used, total = _experts(arch, hparams, int(layer[1]) if layer is not None else 0)
        if tensor.size_bytes is None:
            known = False
            continue
        parts[part] += tensor.size_bytes * used // total
        elements += tensor.elements * used // total
    if not known:
        return _Read(None, None, tied)
    return _Read({part: size for part, size in parts.items() if size}, elements, tied)


def _experts(arch: str, hparams: Mapping[str, Any], layer: int) -> tuple[int, int]:
    """(used, all) experts of a layer; (1, 1) where the model does not say it."""
    used, total = hparams.get(f"{arch}.expert_used_count"), _count(hparams.get(f"{arch}.expert_count"))
    if isinstance(used, list | tuple):
        used = used[layer] if layer < len(used) else None
    used = _count(used)
    return (used, total) if used and total and used <= total else (1, 1)


def _draft_head(arch: str, header: Header) -> dict[str, int]:
    """A DeepSeek V4 without the tensors of its draft head has none, whatever its metadata say."""
    key = f"{arch}.nextn_predict_layers"
    blocks, draft = header.number(f"{arch}.block_count"), header.number(key)
    if arch != "deepseek4" or not blocks or not draft:
        return {}
    probe = f"blk.{blocks - draft}.nextn.eh_proj.weight"
    return {} if any(tensor.name == probe for tensor in header.tensors) else {key: 0}


def _by_shape(arch: str, hparams: Mapping[str, Any], tensors: Iterable[Tensor]) -> dict[str, tuple[int, ...]]:
    """Heads, KV heads and feed-forward width of each layer by its tensors' shapes, for metadata that leave arrays out."""
    layers, embedding = _count(hparams.get(f"{arch}.block_count")), _count(hparams.get(f"{arch}.embedding_length"))
    heads = _count(hparams.get(f"{arch}.attention.head_count"))
    key = _count(hparams.get(f"{arch}.attention.key_length"))
    if key is None and heads and embedding:
        key = embedding // heads
    key = key or _count(hparams.get(f"{arch}.rope.dimension_count"))
    window = _count(hparams.get(f"{arch}.attention.key_length_swa"))
    if not layers or not key or layers > 512 or window not in (None, key):
        return {}
    widths = {"attn_q.weight": [0] * layers, "attn_k.weight": [0] * layers, "ffn_up.weight": [0] * layers}
    for tensor in tensors:
        layer = _LAYER.match(tensor.name)
        name = tensor.name[layer.end() :] if layer is not None else ""
        if layer is not None and name in widths and len(tensor.shape) > 1 and int(layer[1]) < layers:
            widths[name][int(layer[1])] = tensor.shape[1]
    found = {f"{arch}.feed_forward_length": tuple(widths["ffn_up.weight"])}
    for name, tensor_name in {"head_count": "attn_q.weight", "head_count_kv": "attn_k.weight"}.items():
        if any(widths[tensor_name]) and not any(width % key for width in widths[tensor_name]):
            found[f"{arch}.attention.{name}"] = tuple(width // key for width in widths[tensor_name])
    return found


def _shown_tensor(entry: Any) -> Tensor | None:
    """One of Ollama's ``{"name", "type", "shape"}``."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        return None
    shape = entry.get("shape")
    if (
        not isinstance(shape, list)
        or not 0 < len(shape) <= 4
        or not all(isinstance(n, int) and 0 < n < 2**48 for n in shape)
    ):
        return None
    kind = BY_NAME.get(str(entry.get("type")).upper())
    tensor = Tensor(entry["name"], tuple(shape), str(entry.get("type")), None)
    if kind is None or shape[0] % kind.block:
        return tensor
    return Tensor(tensor.name, tensor.shape, kind.name, kind.row_bytes(shape[0]) * (tensor.elements // shape[0]))


def _total(tensors: Iterable[Tensor]) -> int | None:
    sizes = [tensor.size_bytes for tensor in tensors]
    return sum(size for size in sizes if size is not None) if sizes and None not in sizes else None


def _by_type(tensors: Iterable[Tensor]) -> dict[str, int]:
    found: dict[str, int] = {}
    for tensor in tensors:
        if tensor.size_bytes is not None:
            found[tensor.type] = found.get(tensor.type, 0) + tensor.size_bytes
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _is_numeric(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, int | float) for item in value)
    return isinstance(value, int | float)
