"""The metadata of a model that its cache depends on: a GGUF file's keys, typed and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from phasetop.faults import PhasetopError
from phasetop.kv.archs import Arch

MAX_LAYERS: Final = 512
MAX_VALUE: Final = 2**32 - 1


class KvError(PhasetopError):
    """A model's cache cannot be computed: its metadata lack something, or contradict themselves."""


class Hparams(Struct, frozen=True):
    """One model's numbers; everything a layer is a tuple of `layers`.

    Attributes:
        layers: all, those of a draft head (the last `nextn`) included.
        heads, kv_heads, ff: attention heads, KV heads, feed-forward width of each layer.
        key, value: a head's width in dense layers; `key_window`, `value_window` in those with a window.

    """

    arch: str
    values: Mapping[str, Any]
    layers: int
    nextn: int
    context_trained: int
    embedding: int
    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    ff: tuple[int, ...]
    key: int
    value: int
    key_window: int
    value_window: int

    @property
    def trunk(self) -> int:
        """Layers without those of a draft head."""
        return self.layers - self.nextn

    def number(self, name: str) -> int | None:
        """A number of the architecture, e.g. ``attention.sliding_window``; None where there is none."""
        return _number(self.values, f"{self.arch}.{name}")

    def needed(self, name: str) -> int:
        """A number without which llama.cpp does not load the model. Raises `KvError`."""
        value = self.number(name)
        if value is None:
            raise lacks(self.arch, name)
        return value

    def array(self, name: str) -> tuple[int, ...] | None:
        """Numbers (or yes and no, as 1 and 0) by layer, of any length; None where there is no array."""
        return _array(self.values, f"{self.arch}.{name}")


def lacks(arch: str, name: str) -> KvError:
    """The error for a key that is not there."""
    return KvError(f"the cache cannot be computed: {arch}.{name} is not known, and llama.cpp needs it for this architecture")


def read_hparams(arch: str, values: Mapping[str, Any], rules: Arch) -> Hparams:
    """A model's numbers from its metadata (GGUF keys).

    Raises:
        KvError: one is missing, of another type, or not as long as the model has layers.
    """
    layers = _number(values, f"{arch}.block_count")
    embedding = _number(values, f"{arch}.embedding_length")
    trained = _number(values, f"{arch}.context_length")
    for name, found in (("block_count", layers), ("embedding_length", embedding), ("context_length", trained)):
        if found is None:
            raise lacks(arch, name)
    assert layers is not None
    assert embedding is not None
    assert trained is not None
    if not 0 < layers <= MAX_LAYERS:
        raise KvError(f"the cache cannot be computed: {arch}.block_count is {layers:,}")
    nextn = _number(values, f"{arch}.nextn_predict_layers") or 0
    if nextn > layers:
        raise KvError(f"the cache cannot be computed: {arch}.nextn_predict_layers is {nextn:,}, of {layers} layers")
    heads = _each(values, f"{arch}.attention.head_count", layers, (0,) * layers)
    kv_heads = _each(values, f"{arch}.attention.head_count_kv", layers, heads)
    ff = _each(values, f"{arch}.feed_forward_length", layers, (0,) * layers)
    key = value = embedding // heads[0] if heads[0] else 0
    if heads[0] or rules.own_widths:
        key = _either(_number(values, f"{arch}.attention.key_length"), key)
        value = _either(_number(values, f"{arch}.attention.value_length"), value)
    if rules.loops:
        loops = max(1, _number(values, f"{arch}.num_loops") or 1)
        if layers * loops > MAX_LAYERS:
            raise KvError(f"the cache cannot be computed: {loops} loops of {layers} layers are too many")
        heads, kv_heads, ff, layers = heads * loops, kv_heads * loops, ff * loops, layers * loops
    if rules.router_layer:
        heads, kv_heads, ff, layers, nextn = (*heads, 1), (*kv_heads, 1), (*ff, 0), layers + 1, 0
    return Hparams(
        arch=arch,
        values=values,
        layers=layers,
        nextn=nextn,
        context_trained=trained,
        embedding=embedding,
        heads=heads,
        kv_heads=kv_heads,
        ff=ff,
        key=key,
        value=value,
        key_window=_either(_number(values, f"{arch}.attention.key_length_swa"), key),
        value_window=_either(_number(values, f"{arch}.attention.value_length_swa"), value),
    )


def _either(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _number(values: Mapping[str, Any], key: str) -> int | None:
    """A whole number from 0 up; None where there is none, or an array stands there."""
    value = values.get(key)
    if value is None or isinstance(value, list | tuple):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not 0 <= value <= MAX_VALUE:
        raise KvError(f"the cache cannot be computed: {key} is {str(value)[:40]!r}")
    return int(value)


def _array(values: Mapping[str, Any], key: str) -> tuple[int, ...] | None:
    value = values.get(key)
    if not isinstance(value, list | tuple):
        return None
    if len(value) > MAX_LAYERS or not all(isinstance(item, int) and 0 <= item <= MAX_VALUE for item in value):
        raise KvError(f"the cache cannot be computed: {key} is no array of up to {MAX_LAYERS} whole numbers")
    return tuple(int(item) for item in value)


def _each(values: Mapping[str, Any], key: str, layers: int, otherwise: Sequence[int]) -> tuple[int, ...]:
    """A number for each layer: an array of as many, or one number for all."""
    array = _array(values, key)
    if array is None:
        number = _number(values, key)
        return tuple(otherwise) if number is None else (number,) * layers
    if len(array) != layers:
        raise KvError(f"the cache cannot be computed: {key} has {len(array)} numbers, and the model {layers} layers")
    return array
