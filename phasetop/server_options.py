"""Options of a llama.cpp server, from a command line and its LLAMA_ARG_* variables, by OUTPUTS' names.

Only what stands in `KNOWN` is ever looked at: command lines hold keys and tokens, and nothing else of them may be kept, nor
any text that is not of a known form. Names and forms are those of llama-server b11434: a value is a word of its own,
``--ctx_size`` means ``--ctx-size``, the command line beats the environment, and the last of several wins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct, field

from phasetop.kv.options import Options, OptionsError
from phasetop.tensor_types import CACHE_TYPES

Kind = Literal[
    "number", "file", "flag", "switch", "type", "flash", "layers", "split", "shares", "drafts", "on-off", "overrides"
]

ENV_PREFIX: Final = "LLAMA_ARG_"
SPLIT_MODES: Final = ("none", "layer", "row", "tensor")
DRAFTS: Final = (
    *("none", "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark"),
    *("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"),
)
TRUE: Final = ("on", "enabled", "true", "1")
FALSE: Final = ("off", "disabled", "false", "0")


class Known(Struct, frozen=True):
    """An option: the name it has here, its names on the command line, its variable (without the prefix), what it takes.

    A ``flag`` takes no value and can only be set; a ``switch`` takes none and has names (`off`) that turn it off.
    """

    name: str
    words: tuple[str, ...]
    variable: str | None
    kind: Kind
    off: tuple[str, ...] = ()


KNOWN: Final = (
    Known("context", ("-c", "--ctx-size"), "CTX_SIZE", "number"),
    Known("parallel", ("-np", "--parallel"), "N_PARALLEL", "number"),
    Known("batch", ("-b", "--batch-size"), "BATCH", "number"),
    Known("ubatch", ("-ub", "--ubatch-size"), "UBATCH", "number"),
    Known("kv_unified", ("-kvu", "--kv-unified"), "KV_UNIFIED", "switch", ("-no-kvu", "--no-kv-unified")),
    Known("kv_unified_per_slot", ("--kv-unified-per-slot",), "KV_UNIFIED_PER_SLOT", "number"),
    Known("cache_type_k", ("-ctk", "--cache-type-k"), "CACHE_TYPE_K", "type"),
    Known("cache_type_v", ("-ctv", "--cache-type-v"), "CACHE_TYPE_V", "type"),
    Known("flash_attention", ("-fa", "--flash-attn"), "FLASH_ATTN", "flash"),
    Known("swa_full", ("--swa-full",), "SWA_FULL", "flag"),
    Known("fit", ("-fit", "--fit"), "FIT", "on-off"),
    Known("fit_context", ("-fitc", "--fit-ctx"), "FIT_CTX", "number"),
    Known("embeddings", ("--embedding", "--embeddings"), "EMBEDDINGS", "flag"),
    Known("kv_offload", ("-kvo", "--kv-offload"), "KV_OFFLOAD", "switch", ("-nkvo", "--no-kv-offload")),
    Known("gpu_layers", ("-ngl", "--gpu-layers", "--n-gpu-layers"), "N_GPU_LAYERS", "layers"),
    Known("split_mode", ("-sm", "--split-mode"), "SPLIT_MODE", "split"),
    Known("main_gpu", ("-mg", "--main-gpu"), "MAIN_GPU", "number"),
    Known("tensor_split", ("-ts", "--tensor-split"), "TENSOR_SPLIT", "shares"),
    Known("cpu_moe", ("-cmoe", "--cpu-moe"), "CPU_MOE", "flag"),
    Known("n_cpu_moe", ("-ncmoe", "--n-cpu-moe"), "N_CPU_MOE", "number"),
    Known("threads", ("-t", "--threads"), "THREADS", "number"),
    Known("cont_batching", ("-cb", "--cont-batching"), "CONT_BATCHING", "switch", ("-nocb", "--no-cont-batching")),
    Known("context_shift", ("--context-shift",), "CONTEXT_SHIFT", "switch", ("--no-context-shift",)),
    Known("keep", ("--keep",), None, "number"),
    Known("cache_ram_mib", ("-cram", "--cache-ram"), "CACHE_RAM", "number"),
    Known("cache_idle_slots", ("--cache-idle-slots",), "CACHE_IDLE_SLOTS", "switch", ("--no-cache-idle-slots",)),
    Known("context_checkpoints", ("-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"), "CTX_CHECKPOINTS", "number"),
    Known("cache_prompt", ("--cache-prompt",), "CACHE_PROMPT", "switch", ("--no-cache-prompt",)),
    Known("cache_reuse", ("--cache-reuse",), "CACHE_REUSE", "number"),
    Known("spec_type", ("--spec-type",), "SPEC_TYPE", "drafts"),
    Known("spec_draft_n_max", ("--spec-draft-n-max",), "SPEC_DRAFT_N_MAX", "number"),
    Known("cache_type_k_draft", ("-ctkd", "--cache-type-k-draft", "--spec-draft-type-k"), "SPEC_DRAFT_CACHE_TYPE_K", "type"),
    Known("cache_type_v_draft", ("-ctvd", "--cache-type-v-draft", "--spec-draft-type-v"), "SPEC_DRAFT_CACHE_TYPE_V", "type"),
)
"""What may be read of a server's command line, and shown."""

FILES: Final = (
    Known("model", ("-m", "--model"), "MODEL", "file"),
    Known("draft", ("-md", "--model-draft", "--spec-draft-model"), "SPEC_DRAFT_MODEL", "file"),
    Known("overrides", ("--override-kv",), None, "overrides"),
)
"""What may be read, and is not shown: paths, and metadata that the server is told to take for the file's."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "batch": 2048,
    "ubatch": 512,
    "cache_type_k": "f16",
    "cache_type_v": "f16",
    "flash_attention": "auto",
    "swa_full": False,
    "context_shift": False,
    "cache_ram_mib": 8192,
}
"""What llama-server (b11434) takes where nothing is said."""

_BY_WORD: Final = {word: (each, True) for each in (*KNOWN, *FILES) for word in each.words} | {
    word: (each, False) for each in KNOWN for word in each.off
}
_BY_VARIABLE: Final = {f"{ENV_PREFIX}{each.variable}": each for each in (*KNOWN, *FILES) if each.variable}
_NEGATED: Final = {f"{ENV_PREFIX}NO_{each.variable}": each for each in KNOWN if each.kind == "switch"}


class Found(Struct):
    """The options that were found.

    Attributes:
        values: by OUTPUTS' names; sources: where each is from.
        model, draft: paths of GGUF files, as they were given.
        overrides: GGUF keys and the values that the server takes instead of the file's.

    """

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    model: str | None = None
    draft: str | None = None
    overrides: dict[str, int | float | bool | str] = field(default_factory=dict)

    def options(self) -> Options:
        """What of them a cache depends on."""
        return cache_options(self.values, self.sources)


def read_argv(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Found:
    """The options of a server that runs, from its command line and its environment. What cannot be read is passed over."""
    return _read(argv, environment or {}, "argv", strict=False)


def read_given(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Found:
    """The options that somebody typed or pasted: with the program's name and ``LLAMA_ARG_…=`` in front, or without.

    Raises:
        OptionsError: one of them lacks its value, or has one that llama-server does not take.
    """
    return _read(argv, environment or {}, "given", strict=True)


def cache_options(values: Mapping[str, Any], sources: Mapping[str, str]) -> Options:
    """What of a server's options (by OUTPUTS' names) its cache depends on."""
    names = {
        "context": "n_ctx",
        "parallel": "n_seq_max",
        "kv_unified": "kv_unified",
        "batch": "n_batch",
        "ubatch": "n_ubatch",
        "cache_type_k": "type_k",
        "cache_type_v": "type_v",
        "flash_attention": "flash_attn",
        "swa_full": "swa_full",
        "spec_type": "n_rs_seq",
    }
    return Options(
        context=values.get("context"),
        slots=values.get("parallel"),
        unified=values.get("kv_unified"),
        context_per_slot=values.get("kv_unified_per_slot"),
        batch=values.get("batch"),
        ubatch=values.get("ubatch"),
        type_k=values.get("cache_type_k"),
        type_v=values.get("cache_type_v"),
        flash=values.get("flash_attention"),
        swa_full=values.get("swa_full"),
        fit=values.get("fit"),
        embeddings=bool(values.get("embeddings")),
        drafts=tuple(values.get("spec_type") or ()),
        draft_max=values.get("spec_draft_n_max"),
        sources={ours: sources[name] for name, ours in names.items() if name in sources},
    )


def looks_like(word: str) -> str | None:
    """The name of an option that a word may have been meant to be, where it is none itself; None where it may be right."""
    if not word.startswith("--") or word in _BY_WORD:
        return None
    from difflib import get_close_matches

    close = get_close_matches(word, [name for name in _BY_WORD if name.startswith("--")], 1, 0.9)
    return close[0] if close else None


def _read(argv: Sequence[str], environment: Mapping[str, str], source: str, *, strict: bool) -> Found:
    found = Found()
    words = list(argv)
    variables = {name: value for name, value in environment.items() if name in _BY_VARIABLE or name in _NEGATED}
    while words and not words[0].startswith("-"):  # VARIABLE=value and the program's name
        name, equals, value = words.pop(0).partition("=")
        if equals and (name in _BY_VARIABLE or name in _NEGATED):
            variables[name] = value
    for name, value in variables.items():
        if name in _BY_VARIABLE:
            _take_variable(found, _BY_VARIABLE[name], value, name, source, strict=strict)
    for name in variables:
        if name in _NEGATED:
            found.values[_NEGATED[name].name] = False
            found.sources[_NEGATED[name].name] = f"{source}: {name}"
    _take_words(found, words, source, strict=strict)
    return found


def _take_variable(found: Found, known: Known, value: str, name: str, source: str, *, strict: bool) -> None:
    if known.kind in ("flag", "switch"):
        if value in TRUE or (known.kind == "switch" and value in FALSE):
            _put(found, known, value in TRUE, f"{source}: {name}")
        elif strict and known.kind == "switch":
            raise OptionsError(f"{name}={value[:40]}: llama-server takes on or off")
        return
    try:
        _put(found, known, _converted(known, value), f"{source}: {name}")
    except ValueError as error:
        if strict:
            raise OptionsError(f"{name}={value[:40]}: llama-server takes {error}") from None


def _take_words(found: Found, words: list[str], source: str, *, strict: bool) -> None:
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        name = word.replace("_", "-") if word.startswith("--") else word
        if name not in _BY_WORD:
            head = name.partition("=")[0]
            if strict and "=" in name and head in _BY_WORD:
                raise OptionsError(f"{word[:60]}: llama-server takes the value as a word of its own: {head} VALUE")
            continue
        known, positive = _BY_WORD[name]
        if known.kind in ("flag", "switch"):
            _put(found, known, positive, source)
            continue
        follows = at < len(words) and not (known.kind == "flash" and words[at] in _BY_WORD)
        if not follows:
            if known.kind == "flash":  # older servers took it without a value
                _put(found, known, "on", source)
            elif strict:
                raise OptionsError(f"{word} lacks its value")
            continue
        value = words[at]
        at += 1
        try:
            _put(found, known, _converted(known, value), source)
        except ValueError as error:
            if strict:
                raise OptionsError(f"{word} {value[:40]}: llama-server takes {error}") from None


def _put(found: Found, known: Known, value: Any, source: str) -> None:
    match known.name:
        case "model":
            found.model = value
        case "draft":
            found.draft = value
        case "overrides":
            found.overrides.update(value)
        case "spec_type":
            found.values[known.name] = [*found.values.get(known.name, ()), *value]
            found.sources[known.name] = source
        case name:
            found.values[name] = value
            found.sources[name] = source


def _converted(known: Known, value: str) -> Any:
    """A value as it is kept. Raises `ValueError` that says what it must be."""
    match known.kind:
        case "number":
            return _whole(value)
        case "layers":
            return value if value in ("auto", "all") else _whole(value, "a whole number, auto or all")
        case "type":
            if value not in CACHE_TYPES:
                raise ValueError(", ".join(CACHE_TYPES))
            return value
        case "flash":
            words = {**dict.fromkeys(TRUE, "on"), **dict.fromkeys(FALSE, "off"), "auto": "auto", "-1": "auto"}
            if value not in words:
                raise ValueError("on, off or auto")
            return words[value]
        case "on-off":
            if value not in TRUE and value not in FALSE:
                raise ValueError("on or off")
            return value in TRUE
        case "split":
            if value not in SPLIT_MODES:
                raise ValueError(", ".join(SPLIT_MODES))
        case "shares":
            if not re.fullmatch(r"[0-9.]+([,/][0-9.]+)*", value) or len(value) > 200:
                raise ValueError("numbers with commas between them")
        case "drafts":
            kinds = [part.strip() for part in value.split(",") if part.strip()]
            if not set(kinds) <= set(DRAFTS):
                raise ValueError(", ".join(DRAFTS))
            return kinds
        case "overrides":
            return dict(_override(part) for part in value.split(",") if part.strip())
    return value


def _whole(value: str, wanted: str = "a whole number") -> int:
    try:
        return int(value) if value.isascii() and len(value) <= 12 else int("")
    except ValueError:
        raise ValueError(wanted) from None


def _override(part: str) -> tuple[str, int | float | bool | str]:
    """``KEY=TYPE:VALUE``."""
    key, equals, rest = part.strip().partition("=")
    kind, colon, value = rest.partition(":")
    if not equals or not colon or kind not in ("int", "float", "bool", "str"):
        raise ValueError("KEY=int:VALUE, float, bool or str")
    try:
        if kind == "bool":
            return key, {"true": True, "false": False}[value]
        return key, int(value) if kind == "int" else float(value) if kind == "float" else value
    except (ValueError, KeyError):
        raise ValueError(f"a value of type {kind} for {key[:40]}") from None
