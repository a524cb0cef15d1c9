"""The names of settings: OUTPUTS' own, those that others have for them, and those that a request to a server may carry.

llama.cpp's are those of its request schema (tools/server/server-schema.cpp, b11434) and of its chat endpoint, Ollama's those
of api/types.go (0.32.5). Servers get more of them with every version, so a name that is not here is sent as it is, and told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

ALIASES: Final = {
    "num_ctx": "context",
    "n_ctx": "context",
    "ctx_size": "context",
    "num_batch": "batch",
    "n_batch": "batch",
    "n_ubatch": "ubatch",
    "n_parallel": "parallel",
    "num_thread": "threads",
    "n_threads": "threads",
    "num_gpu": "gpu_layers",
    "n_gpu_layers": "gpu_layers",
    "num_predict": "max_tokens",
    "n_predict": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "temp": "temperature",
    "n_probs": "logprobs",
}
"""Names of llama.cpp, Ollama and OpenAI for OUTPUTS' settings."""

OURS: Final = frozenset(
    (
        *("context", "batch", "ubatch", "parallel", "threads", "gpu_layers", "cache_type_k", "cache_type_v"),
        *("flash_attention", "temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed", "max_tokens"),
        *("stop", "think", "keep_alive", "format", "logprobs"),
    )
)
"""OUTPUTS' settings."""

OPENAI: Final = frozenset(
    (
        *("presence_penalty", "frequency_penalty", "response_format", "tool_choice", "parallel_tool_calls", "logit_bias"),
        *("reasoning_effort", "top_logprobs", "user", "metadata", "store", "service_tier", "verbosity"),
    )
)
"""What else a chat request of OpenAI's may carry."""

LLAMACPP: Final = OPENAI | frozenset(
    (
        *("cache_prompt", "return_tokens", "sse_ping_interval", "n_indent", "n_keep", "n_discard", "n_cmpl"),
        *("n_cache_reuse", "t_max_predict_ms", "response_fields", "id_slot", "verbose", "echo"),
        *("top_n_sigma", "xtc_probability", "xtc_threshold", "typical_p", "dynatemp_range", "dynatemp_exponent"),
        *("repeat_last_n", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
        *("dry_sequence_breakers", "mirostat", "mirostat_tau", "mirostat_eta", "adaptive_target", "adaptive_decay"),
        *("min_keep", "backend_sampling", "post_sampling_probs", "lora", "samplers", "ignore_eos"),
        *("json_schema", "grammar", "grammar_lazy", "grammar_triggers", "grammar_type", "preserved_tokens"),
        *("chat_format", "chat_parser", "chat_template_kwargs", "generation_prompt", "add_generation_prompt"),
        *("continue_final_message", "parse_tool_calls", "reasoning_format", "reasoning_in_content", "reasoning_control"),
        *("reasoning_budget_tokens", "reasoning_budget_message", "reasoning_budget_start_tag"),
        *("reasoning_budget_end_tag", "reasoning_budget_end_tags", "thinking_budget_tokens"),
    )
)
"""What else a request to llama.cpp may carry."""

OLLAMA_NAMES: Final = {
    "context": "num_ctx",
    "batch": "num_batch",
    "threads": "num_thread",
    "gpu_layers": "num_gpu",
    "max_tokens": "num_predict",
}
"""OUTPUTS' names that Ollama calls otherwise."""

OLLAMA_OPTIONS: Final = frozenset(
    (
        *("temperature", "top_k", "top_p", "min_p", "typical_p", "seed", "stop", "repeat_penalty", "repeat_last_n"),
        *("presence_penalty", "frequency_penalty", "num_keep", "main_gpu", "use_mmap", "draft_num_predict"),
        *OLLAMA_NAMES.values(),
    )
)
"""Every option of Ollama 0.32.5; one that it does not know it takes and drops."""

_OLLAMA: Final = OLLAMA_OPTIONS | {"truncate", "shift", "response_format", "reasoning_effort", "chat_template_kwargs"}
_CALLED: Final = {"llamacpp": "llama.cpp", "embedded": "llama.cpp", "ollama": "Ollama"}
_KNOWN: Final = {
    "llamacpp": LLAMACPP,
    "embedded": LLAMACPP,
    "ollama": _OLLAMA,
    "openai": OPENAI | LLAMACPP,  # whoever speaks OpenAI's protocol has taken over some of llama.cpp's
}
_NEAR: Final = 0.8


def is_known(name: str) -> bool:
    """Whether any server that phasetop knows has a setting of this name."""
    return name in OURS or name in ALIASES or name in LLAMACPP or name in _OLLAMA


def unknown(backend: str, names: Iterable[str]) -> Iterator[str]:
    """What is to be said of settings that a server of this kind is not known to have, a sentence each.

    Of a server that merely speaks OpenAI's protocol, only what looks like a misspelling; of a plugin's, nothing.
    """
    known = _KNOWN.get(backend)
    if known is None:
        return
    for name in names:
        if name in known or name in OURS or (backend == "ollama" and is_known(name)):  # `settings-ignored` tells of those
            continue
        close = _nearest(name, known)
        whose = f"no setting of {_CALLED[backend]}'s" if backend in _CALLED else "no setting"
        if close is not None or backend in _CALLED:
            meant = f": is {close} meant?" if close is not None else "."
            yield f"{name[:60]} is {whose} that phasetop knows{meant} It was sent as it is"


def _nearest(name: str, known: frozenset[str]) -> str | None:
    from difflib import get_close_matches

    close = get_close_matches(name, sorted(known | OURS | ALIASES.keys()), 1, _NEAR)
    return close[0] if close else None
