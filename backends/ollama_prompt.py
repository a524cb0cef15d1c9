"""The prompt as Ollama's runner gets it: rendered, tokenised, and cut where it is too long.

Ollama cuts in two ways and says neither. A chat that does not fit loses its oldest messages, all but the system ones and the
last; one prompt that does not fit loses its middle (llm/llama_server.go, `completionPromptForRequest`; server/prompt.go).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from phasetop.backends.endpoint import Endpoint, json_of
from phasetop.backends.ollama_model import OllamaModel
from phasetop.backends.ollama_runner import RunnerClient
from phasetop.backends.protocol import Pieces

NUM_KEEP: Final = 4
"""Tokens at the beginning that a cut keeps, unless num_keep says otherwise."""
_RENDER_TIMEOUT_S: Final = 20.0
_BOS_TEXTS: Final = ("<bos>", "<BOS_TOKEN>", "<|startoftext|>", "<｜begin▁of▁sentence｜>", "〈|EOS|〉")
"""What Ollama takes off a prompt's beginning where the runner puts a begin token (its renderers' `LeadingBOS`)."""
_BYTES_A_TOKEN: Final = 6.0
"""More bytes a token than any ordinary text has (English: 4 to 5)."""


def prompt_limit(context: int, keep: int) -> int:
    """Tokens left of one prompt that is too long: ``keep`` and about half of the rest (`contextShiftPromptLimit`)."""
    if context <= 1:
        return 0
    keep = max(0, min(keep, context - 1))
    return context - max((context - keep) // 2, 1)


def kept_of(asked: int, context: int, keep: int = NUM_KEEP, *, adds_bos: bool = False) -> int:
    """Tokens of one rendered prompt of ``asked`` that the runner gets."""
    full = context - 1
    if asked <= full:
        return asked
    keep = asked if keep < 0 else keep
    return prompt_limit(context, min(keep + adds_bos, full))


def looks_cut(prompt_tokens: int, prompt_bytes: int, context: int, keep: int = NUM_KEEP) -> bool:
    """Whether a prompt was cut, where only its final count is known: just what a cut leaves, of far more text than that."""
    exact = prompt_tokens in (prompt_limit(context, keep), prompt_limit(context, keep + 1))
    return exact and prompt_bytes > _BYTES_A_TOKEN * prompt_tokens


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt before any cut, and what the runner will get of it; ``kept`` None: its context is not known."""

    whole: Pieces
    kept: int | None

    @property
    def asked(self) -> int:
        """Tokens before any cut."""
        return len(self.whole.ids)


def render(endpoint: Endpoint, path: str, body: Mapping[str, Any]) -> str | None:
    """The prompt as text, by the undocumented ``_debug_render_only``; None where this Ollama does not know it.

    It is answered in about 0.1 s, and *loads the model* where it is not loaded with these very options: only ever asked
    beside a request of the same options.
    """
    try:
        answer = json_of(endpoint.post(path, {**body, "_debug_render_only": True, "stream": False}, _RENDER_TIMEOUT_S))
    except httpx.HTTPError:
        return None
    info = answer.get("_debug_info")
    text = info.get("rendered_template") if isinstance(info, dict) else None
    return text if isinstance(text, str) else None


def read_prompt(
    endpoint: Endpoint,
    runner: RunnerClient,
    model: OllamaModel,
    path: str,
    body: Mapping[str, Any],
    context: int | None,
    dropped: Callable[[], bool] = lambda: False,
) -> Rendered | None:
    """Render and tokenise the prompt of a request; None where Ollama or the runner does not say.

    Args:
        endpoint: Ollama.
        runner: of this model, loaded with this request's options.
        model: whose prompt it is.
        path: /api/chat or /api/generate.
        body: the request's own.
        context: what the runner's slot can hold, where known.
        dropped: whether nobody wants to know any more.

    """
    text = render(endpoint, path, {**body, "truncate": False})
    whole = None if text is None or dropped() else tokens_of(runner, model, text)
    if whole is None or dropped():
        return None
    asked = len(whole.ids)
    if context is None or asked < context or body.get("truncate") is False:
        return Rendered(whole, asked if context is not None else None)
    text = render(endpoint, path, body)  # with the messages dropped that Ollama drops
    left = None if text is None else tokens_of(runner, model, text)
    if left is None:
        return Rendered(whole, None)
    options = body.get("options") or {}
    keep = options.get("num_keep")
    keep = keep if isinstance(keep, int) else NUM_KEEP
    return Rendered(whole, kept_of(len(left.ids), context, keep, adds_bos=model.adds_bos))


def tokens_of(runner: RunnerClient, model: OllamaModel, text: str) -> Pieces | None:
    """The tokens that the runner makes of a rendered prompt, the begin token counted once where Ollama sees to that."""
    if model.adds_bos:
        text = next((text.removeprefix(bos) for bos in _BOS_TEXTS if text.startswith(bos)), text)
    tokens = runner.tokenize(text)
    if tokens is None:
        return None
    ids: list[int] = []
    pieces: list[str | int | dict[str, str]] = []
    for token in tokens:
        number = token.get("id")
        if not isinstance(number, int):
            return None
        ids.append(number)
        pieces.append(piece_of(token.get("piece")))
    native = not model.described.get("template")  # the runner applied the template, and drops a begin token of its text
    if native and len(ids) > 1 and ids[0] == ids[1] == model.bos:
        ids, pieces = ids[1:], pieces[1:]
    return Pieces(text, tuple(ids), tuple(pieces), "_debug_render_only, the runner's /tokenize") if ids else None


def piece_of(piece: Any) -> str | dict[str, str]:
    """A token's text, or its bytes in base64 where they are no whole UTF-8 (the runner lists their values)."""
    if isinstance(piece, list):
        raw = bytes(value & 255 for value in piece if isinstance(value, int))
        return {"b": base64.b64encode(raw).decode()}
    return piece if isinstance(piece, str) else ""
