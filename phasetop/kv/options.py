"""The options of llama.cpp's server that its cache depends on, and what it makes of those that were left out.

Source: llama.cpp's server.cpp, common.cpp, fit.cpp and the constructor of llama_context, build 11434.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from msgspec import Struct, field

from phasetop.faults import UsageError
from phasetop.tensor_types import CACHE_TYPES, TensorType

PAD: Final = 256
"""Contexts and windows are whole multiples of so many cells."""
AUTO_SLOTS: Final = 4
MAX_SLOTS: Final = 256
MAX_CONTEXT: Final = 2**31 - 1
ROLLBACK_DRAFTS: Final = frozenset(("draft-mtp", "draft-eagle3", "draft-dflash", "draft-dspark"))
"""Kinds of drafts that need several versions of a recurrent state."""


class OptionsError(UsageError):
    """Options that llama.cpp refuses."""


def padded(n: int, to: int = PAD) -> int:
    """The next multiple."""
    return -(-n // to) * to


class Options(Struct, frozen=True):
    """A server's options as they were given; None: left out.

    Attributes:
        slots: ``--parallel``; below 0: chosen by the server.
        context_per_slot: ``--kv-unified-per-slot``.
        fit: whether the server fits what was left out to the memory there is.
        drafts: ``--spec-type``; draft_max: ``--spec-draft-n-max``.
        sources: by the names of `Resolved`, where an option is from.

    """

    context: int | None = None
    slots: int | None = None
    unified: bool | None = None
    context_per_slot: int | None = None
    batch: int | None = None
    ubatch: int | None = None
    type_k: str | None = None
    type_v: str | None = None
    flash: str | None = None
    swa_full: bool | None = None
    fit: bool | None = None
    embeddings: bool = False
    drafts: tuple[str, ...] = ()
    draft_max: int | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


class Resolved(Struct, frozen=True):
    """The options as the server resolves them, by llama.cpp's own names.

    Attributes:
        n_ctx: cells that all sequences have together; n_ctx_seq: those that one can have.
        assumed: names that were not given; sources: where each is from.

    """

    n_ctx: int
    n_ctx_seq: int
    n_seq_max: int
    kv_unified: bool
    n_batch: int
    n_ubatch: int
    type_k: str
    type_v: str
    flash_attn: str
    swa_full: bool
    n_rs_seq: int
    assumed: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def k(self) -> TensorType:
        """The type of K."""
        return CACHE_TYPES[self.type_k]

    @property
    def v(self) -> TensorType:
        """The type of V."""
        return CACHE_TYPES[self.type_v]


DEFAULT_BATCH: Final = 2048
DEFAULT_UBATCH: Final = 512
DEFAULT_TYPE: Final = "f16"
DEFAULT_FLASH: Final = "auto"
DEFAULT_DRAFTS: Final = 3

T = TypeVar("T")


def resolve(options: Options, context_trained: int, *, rollback: bool) -> Resolved:
    """What a server makes of its options for a model; ``rollback``: the model's state can be kept in several versions.

    Raises:
        OptionsError: llama.cpp refuses them.
    """
    assumed: list[str] = []

    def taken(name: str, given: T | None, otherwise: T) -> T:
        if given is None:
            assumed.append(name)
            return otherwise
        return given

    slots, unified = options.slots, bool(options.unified)
    if slots == 0 or (slots is not None and slots > MAX_SLOTS):
        raise OptionsError(f"--parallel {slots}: llama-server takes 1 to {MAX_SLOTS} slots")
    if slots is None or slots < 0:
        slots, unified = AUTO_SLOTS, True
        assumed += ["n_seq_max", "kv_unified"]
    elif options.unified is None:
        assumed.append("kv_unified")
    context = _context(options, context_trained, slots, unified=unified)
    if not options.context and not (options.context is None and options.context_per_slot):
        assumed.append("n_ctx")
    n_batch = taken("n_batch", options.batch, DEFAULT_BATCH)
    n_ubatch = taken("n_ubatch", options.ubatch, DEFAULT_UBATCH)
    if n_batch <= 0 or n_ubatch < 0:
        raise OptionsError(f"--batch-size {n_batch}, --ubatch-size {n_ubatch}: both must be above 0")
    if options.embeddings:
        n_batch = min(n_batch, n_ubatch or n_batch)
    n_batch = min(context, n_batch)
    n_ubatch = min(n_batch, n_ubatch or n_batch)
    n_ctx = padded(context)
    n_ctx_seq = n_ctx
    if not unified:
        n_ctx_seq = padded(n_ctx // slots)
        n_ctx = n_ctx_seq * slots
    type_k, type_v = taken("type_k", options.type_k, DEFAULT_TYPE), taken("type_v", options.type_v, DEFAULT_TYPE)
    for name, kind in (("-k", type_k), ("-v", type_v)):
        if kind not in CACHE_TYPES:
            raise OptionsError(f"--cache-type{name} {kind}: llama-server takes {', '.join(CACHE_TYPES)}")
    flash = taken("flash_attn", options.flash, DEFAULT_FLASH)
    drafting = rollback and bool(ROLLBACK_DRAFTS & set(options.drafts))
    sources = {name: options.sources.get(name, "default") for name in Resolved.__struct_fields__ if name[0] != "_"}
    sources = {name: source for name, source in sources.items() if name not in ("assumed", "sources", "n_ctx_seq")}
    if "n_ctx" in assumed:
        sources["n_ctx"] = "file: what the model was trained for; --fit may take less where memory is short"
    return Resolved(
        n_ctx=n_ctx,
        n_ctx_seq=n_ctx_seq,
        n_seq_max=slots,
        kv_unified=unified,
        n_batch=n_batch,
        n_ubatch=n_ubatch,
        type_k=type_k,
        type_v=type_v,
        flash_attn=flash,
        swa_full=taken("swa_full", options.swa_full, False),
        n_rs_seq=(DEFAULT_DRAFTS if options.draft_max is None else options.draft_max) if drafting else 0,
        assumed=tuple(assumed),
        sources=sources,
    )


def _context(options: Options, trained: int, slots: int, *, unified: bool) -> int:
    """Cells before they are padded."""
    context = options.context or 0
    if context < 0 or context > MAX_CONTEXT:
        raise OptionsError(f"--ctx-size {context}: llama-server takes 0 (the model's own) up to {MAX_CONTEXT:,}")
    if context:
        return context
    if options.context is None and options.context_per_slot:
        return slots * options.context_per_slot
    if not trained:
        raise OptionsError("the model does not say how long a context it was trained for: give -c")
    many = 1 if unified or options.fit is False else slots
    return trained * many
