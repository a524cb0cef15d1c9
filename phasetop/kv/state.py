"""Recurrent state: which layers keep one instead of cells, and how large it is. It is always f32 and never grows."""

from __future__ import annotations

from typing import Final

from phasetop.kv.archs import Arch, Recurrent
from phasetop.kv.caches import compressed_layers
from phasetop.kv.hparams import Hparams, KvError
from phasetop.kv.options import Resolved

F32_BYTES: Final = 4


def recurrent_layers(rule: Recurrent | None, h: Hparams) -> tuple[bool, ...]:
    """The layers with a recurrent state."""
    if rule is None:
        return (False,) * h.layers
    match rule.layers:
        case "no-kv-heads":
            found = [not kv and not (rule.bare and ff) for kv, ff in zip(h.kv_heads, h.ff, strict=True)]
        case "interval":
            listed = h.array("attention.recurrent_layers")
            every = max(1, _either(h.number("full_attention_interval"), rule.interval))
            found = [(il + 1) % every != 0 for il in range(h.layers)] if listed is None else [bool(each) for each in listed]
            if len(found) != h.layers:
                raise KvError(
                    f"the cache cannot be computed: {h.arch}.attention.recurrent_layers has {len(found)} numbers, "
                    f"and the model {h.layers} layers"
                )
        case _:  # all, or both
            found = [True] * h.layers
    return tuple(state and il < h.trunk for il, state in enumerate(found))


def state_bytes(rules: Arch, h: Hparams, options: Resolved, recurrent: tuple[bool, ...]) -> int:
    """Recurrent states of all sequences, always f32, in as many versions as drafts need."""
    versions = max(1, options.n_seq_max) * (1 + options.n_rs_seq)
    numbers = 0
    for row in rules.compressed:
        key = h.needed("attention.indexer.key_length") if row.key == "indexer" else h.key_window
        layers = [il for il in compressed_layers(h, row) if il < h.trunk]
        numbers += len(layers) * 2 * row.state_rows * row.state_keys * key
    rule = rules.recurrent
    if rule is not None:
        numbers += sum(recurrent) * (_conv_numbers(rule, h) + _state_numbers(rule, h))
        if rule.per_layer_embedding:
            numbers += _ple_numbers(h)
    return numbers * F32_BYTES * versions


def _conv_numbers(rule: Recurrent, h: Hparams) -> int:
    """Numbers of a layer's short past (the inputs that a convolution or a token shift still needs)."""
    match rule.state:
        case "rwkv":
            return _either(h.number("token_shift_count"), 2) * h.embedding
        case "shortconv":
            return h.embedding * max(0, h.needed("shortconv.l_cache") - 1)
        case "kda":
            kernel = h.needed("ssm.conv_kernel")
            return 3 * (kernel - 1 if kernel else 3) * h.heads[0] * h.needed("kda.head_dim")
        case "lightning":
            return 0
    groups = h.needed("ssm.group_count") if rule.state == "grouped-ssm" else 0
    width = h.needed("ssm.inner_size") + 2 * groups * h.needed("ssm.state_size")
    return max(0, h.needed("ssm.conv_kernel") - 1) * width


def _state_numbers(rule: Recurrent, h: Hparams) -> int:
    """Numbers of a layer's state itself."""
    match rule.state:
        case "rwkv":
            return h.embedding * h.needed("wkv.head_size")
        case "shortconv":
            return 0
        case "kda":
            return h.needed("kda.head_dim") ** 2 * h.heads[0]
        case "lightning":
            return h.key**2 * h.heads[0]
    return h.needed("ssm.state_size") * h.needed("ssm.inner_size")


def _ple_numbers(h: Hparams) -> int:
    """Numbers of the n-gram embedding's past, in the layers that have one."""
    layers, kernel = h.array("ple.layers"), h.number("ple.conv_kernel")
    if not layers or not kernel:
        return 0
    row = (kernel - 1) * h.needed("ple.ngram_size") * h.needed("hyper_connection.count") * h.embedding
    return len(set(layers)) * row


def _either(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
