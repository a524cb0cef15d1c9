"""The caches that llama.cpp makes for a model and a server's options: cells, streams, layers and bytes, exactly.

The mechanism is general; what is particular to an architecture stands in `archs`. Source: llama.cpp's create_memory and the
constructors of its caches, build 11434.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from phasetop.kv.archs import Arch, Index, rules_of
from phasetop.kv.caches import Cache, Maker, Windowed
from phasetop.kv.hparams import Hparams, KvError, lacks, read_hparams
from phasetop.kv.options import Options, Resolved, resolve
from phasetop.kv.state import recurrent_layers, state_bytes

MAX_BYTES: Final = 1 << 60
"""What no machine has; metadata that come to more are no model's."""
GLM_LONG: Final = 1 << 20
"""From this trained context on a GLM without ``indexer.types`` is a 5.2."""


class Layout(Struct, frozen=True):
    """Everything that is kept for tokens.

    Attributes:
        known: False where nobody here knows the architecture, and a plain cache was computed.
        kind: kv, iswa, recurrent, hybrid, hybrid_iswa, dsa, msa or none.
        state_bytes: recurrent states of all sequences; they do not grow.

    """

    arch: str
    known: bool
    kind: str
    options: Resolved
    caches: tuple[Cache, ...]
    state_bytes: int
    context_trained: int

    @property
    def k_bytes(self) -> int:
        """K of all caches."""
        return sum(cache.k_bytes for cache in self.caches)

    @property
    def v_bytes(self) -> int:
        """V of all caches."""
        return sum(cache.v_bytes for cache in self.caches)

    @property
    def kv_bytes(self) -> int:
        """K and V, without recurrent states."""
        return self.k_bytes + self.v_bytes

    @property
    def total_bytes(self) -> int:
        """All that is allocated."""
        return self.kv_bytes + self.state_bytes


def layout(arch: str, values: Mapping[str, Any], options: Options | None = None) -> Layout:
    """What a llama.cpp server with these options keeps for a model.

    Args:
        arch: ``general.architecture``.
        values: the model's metadata by its GGUF keys, arrays whole.
        options: of the server; None: all left out.

    Raises:
        KvError: the metadata lack something or contradict themselves.
        OptionsError: llama.cpp refuses these options (for this model).
    """
    rules, known = rules_of(arch)
    h = read_hparams(arch, values, rules)
    resolved = resolve(options or Options(), h.context_trained, rollback=rules.rollback)
    flash = rules.flash and resolved.flash_attn != "off"
    if not rules.flash:
        resolved = replace(resolved, flash_attn="off")
    if rules.memory == "none":
        return Layout(arch, known, "none", resolved, (), 0, h.context_trained)
    recurrent = recurrent_layers(rules.recurrent, h)
    swa = _windows(rules, h, recurrent)
    latent = bool(rules.compressed) or (
        rules.mla and bool(h.number("attention.key_length_mla")) and bool(h.number("attention.value_length_mla"))
    )
    maker = Maker(h, resolved, swa, latent=latent, flash=flash)
    maker.refuse()
    attending = _attending_layers(rules, h, recurrent)
    caches = _caches(rules, h, maker, attending)
    state = state_bytes(rules, h, resolved, recurrent)
    found = Layout(arch, known, _kind(rules, h, swa), resolved, tuple(caches), state, h.context_trained)
    if found.total_bytes > MAX_BYTES:
        raise KvError(f"the cache cannot be computed: by its metadata it would take {found.total_bytes:.3g} bytes")
    return found


def _kind(rules: Arch, h: Hparams, swa: Windowed | None) -> str:
    if rules.memory == "recurrent":
        return "recurrent"
    if rules.compressed:
        return "dsa"
    if rules.index is not None and _has_index(rules.index, h):
        return rules.index.kind
    if rules.memory == "hybrid":
        return "hybrid" if swa is None else "hybrid_iswa"
    return "kv" if swa is None else "iswa"


def _windows(rules: Arch, h: Hparams, recurrent: tuple[bool, ...]) -> Windowed | None:
    """The layers with a window; None where the model has none."""
    window = rules.window
    if window is None or (window.only_with_layers is not None and h.trunk != window.only_with_layers):
        return None
    width = h.number("attention.sliding_window")
    if width == 0 and window.zero_off:
        return None
    if width is None:
        if window.absent == "off":
            return None
        if window.absent == "refused":
            raise lacks(h.arch, "attention.sliding_window")
        width = window.absent
    if window.forced is not None:
        width = window.forced
    if window.own_widths:
        h.needed("attention.key_length_swa")
        h.needed("attention.value_length_swa")
    if window.all_attention:
        layers = tuple(not state for state in recurrent[: h.trunk])
    elif (listed := h.array("attention.sliding_window_pattern")) is not None:
        layers = tuple(bool(each) for each in listed)
    elif window.every is None:
        raise lacks(h.arch, "attention.sliding_window_pattern")
    else:
        every = window.every
        if every:
            said = h.number("attention.sliding_window_pattern")
            every = every if said is None else said
        dense = 0 if window.dense_first else every - 1
        layers = tuple(not every or il % every != dense for il in range(h.trunk))
    layers = (*layers, *(False,) * h.layers)[: h.layers]
    if rules.compressed:
        layers = (True,) * h.layers
    return Windowed(width, layers, window.chunked)


def _attending_layers(rules: Arch, h: Hparams, recurrent: tuple[bool, ...]) -> list[int]:
    """The layers with cells in the main cache."""
    if rules.memory == "recurrent":
        return []
    most = h.layers if rules.keeps_nextn or not h.trunk else h.trunk
    if rules.first_layers is not None:
        most = min(most, rules.first_layers)
    if rules.shares_last:
        most = min(most, max(0, h.layers - (h.number("attention.shared_kv_layers") or 0)))
    rule = rules.recurrent
    if rule is None or rule.layers == "both":
        return list(range(most))
    return [il for il in range(most) if not recurrent[il] and not (rule.bare and h.ff[il])]


def _pools(h: Hparams) -> bool:
    """Whether an indexer keeps pooled keys beside its own."""
    return any(h.array("attention.compress_ratios") or ()) or bool(h.number("attention.compress_ratios"))


def _has_index(index: Index, h: Hparams) -> bool:
    return index.needs is None or bool(h.number(index.needs))


def _index_layers(index: Index, h: Hparams, attending: list[int]) -> list[int]:
    match index.layers:
        case "after-dense":
            lead = h.number("leading_dense_block_count") or 0
            return [il for il in range(h.layers) if il >= lead]
        case "marked":
            marks = h.array("attention.indexer.types") or _unmarked(index, h)
            return [il for il in attending if il < min(h.trunk, len(marks)) and marks[il]]
        case _:
            return [il for il in attending if il < h.trunk]


def _unmarked(index: Index, h: Hparams) -> tuple[int, ...]:
    """Which layers have an indexer where the file marks none."""
    one = h.number("attention.indexer.types")
    if one is not None:
        return (one,) * h.trunk
    if index.unmarked == "refused":
        raise lacks(h.arch, "attention.indexer.types")
    if index.unmarked == "glm" and h.context_trained >= GLM_LONG:
        return tuple(int(il < 2 or il % 4 == 2) for il in range(h.trunk))
    return (1,) * h.trunk


def _caches(rules: Arch, h: Hparams, maker: Maker, attending: list[int]) -> list[Cache]:
    """All caches, in llama.cpp's order."""
    if rules.memory == "recurrent":
        return []
    if rules.compressed:
        return maker.compressed(rules.compressed, attending)
    swa, index = maker.swa, rules.index
    has_index = index is not None and _has_index(index, h)
    if has_index:
        assert index is not None
        caches = [maker.cache(index.main, [il for il in attending if swa is None or not swa.layers[il]])]
        width = h.needed("attention.indexer.key_length") * index.rows
        if index.pooled_rows is not None and _pools(h):
            width *= index.pooled_rows
        values = index.with_values or (index.kind == "dsa" and not maker.latent)
        caches.append(maker.index(index.name, _index_layers(index, h, attending), width, values=values))
        if swa is not None:
            caches.append(maker.window([il for il in attending if swa.layers[il]]))
        return caches
    if swa is not None:
        return [
            maker.cache("base", [il for il in attending if not swa.layers[il]]),
            maker.window([il for il in attending if swa.layers[il]]),
        ]
    return [maker.cache("attn" if rules.memory == "hybrid" else "kv", attending)]
