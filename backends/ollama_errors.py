"""Ollama's errors in one plain line: what happened and what to do. What Ollama never says itself is left to `server_errors`.

The texts are those of Ollama 0.32.5 (its source, and as returned). Before the first piece an error has a status of its own;
after it, it is a line ``{"error": …}`` on a 200. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from phasetop import events as ev
from phasetop.backends.plain_text import harmless
from phasetop.backends.server_errors import KEY_NEEDED, Explained, explain_error, explain_status, is_html, read_error
from phasetop.backends.server_json import load

NO_MODEL: Final = "no-such-model"
SIGN_IN: Final = "sign-in"
RUNNER_DIED: Final = "runner-died"
OUT_OF_MEMORY: Final = "out-of-memory"

_SMALLER: Final = "less context (-c), fewer layers on the GPU (-ngl) or a smaller model needs less"
_KINDS: Final[Mapping[str, str]] = {
    "integer": "a whole number",
    "float32": "a number",
    "boolean": "true or false",
    "string": "a text",
    "array": "a list",
}
_Say = Callable[[re.Match[str]], str]
_RULES: Final[tuple[tuple[str, str | None, _Say], ...]] = (
    # (what Ollama says, our code, the line); the first that is found holds
    (
        r"model ['\"]([^'\"]*)['\"] not found",
        NO_MODEL,
        lambda m: f"Ollama has no model '{m[1]}': `phasetop models` lists what there is, --pull fetches it",
    ),
    (r"model is required", NO_MODEL, lambda _: "no model was named: give one as MODEL"),
    (
        r"invalid model name",
        NO_MODEL,
        lambda _: "this is no name for a model of Ollama's: [host/][namespace/]model[:tag] is one",
    ),
    (
        r"\"?([^\"\s]+)\"? does not support thinking",
        "not-supported",
        lambda m: f"{m[1]} cannot think: ask without --think",
    ),
    (
        r"(?:\S*/)?([^\"\s/]+)\"? does not support tools",
        "not-supported",
        lambda m: f"{m[1]} cannot call tools: ask without them, or another model",
    ),
    (
        r"(?:\S*/)?([^\"\s/]+)\"? does not support (chat|generate|completion)",
        "not-supported",
        lambda m: f"{m[1]} does not write text (Ollama: no {m[2]}): take another model",
    ),
    (
        r"multimodal data provided|does not support (?:vision|image)|image input is not supported",
        "not-supported",
        lambda _: "this model takes no images: ask without them, or another model",
    ),
    (r"top_logprobs must be", "bad-setting", lambda _: "Ollama lists at most 20 alternatives: --logprobs takes 0 to 20"),
    (
        r"invalid think value: \"?([^\"\s]*)\"?",
        "bad-setting",
        lambda m: f"--think={m[1]}: Ollama knows low, medium, high and max (or --think, --no-think)",
    ),
    (
        r"invalid duration \"?([^\"]*)\"?",
        "bad-setting",
        lambda m: f"--keep-alive {m[1]}: a time such as 5m or 1h is expected, 0 to unload at once, -1 to stay loaded",
    ),
    (r"invalid format", "bad-setting", lambda _: "this format is none that Ollama takes: json, or a JSON schema"),
    (
        r"option \"?(\w+)\"? must be of type (\w+)",
        "bad-setting",
        lambda m: f"-o {m[1]}: Ollama wants {_KINDS.get(m[2], m[2])} there",
    ),
    (
        r"raw mode does not support",
        "bad-setting",
        lambda _: "--raw sends a bare prompt: no template, system message or context",
    ),
    (
        r"the prompt is longer than the context length",
        "exceed_context_size_error",
        lambda _: "the prompt is longer than the model's context: shorten it, or give more with -c N",
    ),
    (r"request cancell?ed", "cancelled", lambda _: "Ollama dropped the request: it was cancelled while it waited"),
    (
        r"maximum pending requests exceeded",
        "busy",
        lambda _: "Ollama's queue is full: wait and try again (OLLAMA_MAX_QUEUE sets its length)",
    ),
    (
        r"llama-server binary not found",
        "no-runner",
        lambda _: "Ollama cannot find its llama-server: this installation is incomplete, install Ollama again",
    ),
    (
        r"out[- ]of[- ]memory|cudaMalloc failed|requires more system memory|unable to allocate",
        OUT_OF_MEMORY,
        lambda _: f"the model does not fit this machine's memory (Ollama: out of memory): {_SMALLER}",
    ),
    (
        r"timed out waiting for llama-server to start",
        "load-failed",
        lambda _: "the model did not load in Ollama's time: its log says why, OLLAMA_LOAD_TIMEOUT gives it more",
    ),
    (
        r"llama-server process has terminated: (.*)",
        "load-failed",
        lambda m: _terminated(m[1]),
    ),
    (
        r"error starting llama-server: (.*)",
        "load-failed",
        lambda m: f"Ollama could not start its runner ({_short(m[1])}): see its log",
    ),
    (
        r"llama-server process no longer running|model runner has unexpectedly stopped",
        RUNNER_DIED,
        lambda _: (
            "Ollama's runner was gone: ask again and Ollama starts another; its log says why (mostly too little memory)"
        ),
    ),
    (
        r"an error was encountered while running the model: ?(.*)",
        RUNNER_DIED,
        lambda m: (
            f"Ollama's runner died at this request ({_short(m[1])}): ask again and Ollama starts another; its log says why"
        ),
    ),
    (
        r"ollama cloud is disabled",
        "cloud-off",
        lambda _: "this model runs in Ollama's cloud, which this Ollama is told not to use (OLLAMA_NO_CLOUD)",
    ),
)
_COMPILED: Final = tuple((re.compile(pattern, re.I | re.S), code, say) for pattern, code, say in _RULES)
_SIGN_IN_LINE: Final = (
    "this model runs in Ollama's cloud, which wants you signed in: `ollama signin` on the server's machine"
)


def explain(status: int, headers: Mapping[str, str], body: bytes, *, secrets: Iterable[str] = ()) -> Explained:
    """An answer of Ollama's that is no success, with a status of its own."""
    secrets = tuple(secrets)
    value = load(body[:262144])
    if status == 401 and isinstance(value, dict) and value.get("signin_url"):
        return Explained(ev.Fault(status=status, code=SIGN_IN, text="unauthorized: sign in"), _SIGN_IN_LINE)
    if status == 403 and not body.strip():
        line = "Ollama takes no requests for this host name (403): use its address, or set OLLAMA_HOST where it runs"
        return Explained(ev.Fault(status=status, code="host-refused", text="403 without a word"), line)
    if not 300 <= status < 400 and not is_html(body, headers):
        found = _explain(status, value, secrets)
        if found is not None:
            return found
    usual = explain_status(status, headers, body, secrets=secrets)
    line = usual.line.replace("start the server with a larger context", "give more with -c N")
    return Explained(usual.fault, line)


def explain_line(value: Any, *, secrets: Iterable[str] = ()) -> Explained:
    """The error object of a line in a stream that had begun with 200; the fault's text is the line for a person."""
    secrets = tuple(secrets)
    found = _explain(None, value, secrets) or explain_error(value, secrets=secrets)
    return Explained(ev.Fault(status=found.fault.status, code=found.fault.code, text=found.line), found.line)


def _explain(status: int | None, value: Any, secrets: tuple[str, ...]) -> Explained | None:
    """By our rules; None where none holds."""
    said = read_error(value)
    if said is None or said.prompt is not None:
        return None
    for pattern, code, say in _COMPILED:
        found = pattern.search(said.text)
        if found is not None:
            text = harmless(said.text, secrets=secrets)
            line = harmless(say(found), secrets=secrets)
            return Explained(ev.Fault(status=status or said.status, code=code, text=text), line)
    if status == 401:
        fault = ev.Fault(status=status, code=KEY_NEEDED, text=harmless(said.text, secrets=secrets))
        return Explained(fault, "Ollama, or a proxy before it, wants a key: give it with --api-key")
    if status is not None and status >= 500:
        text = harmless(said.text, secrets=secrets)
        return Explained(ev.Fault(status=status, text=text), f"Ollama could not do it ({text.rstrip(' .')}): see its log")
    return None


def _terminated(why: str) -> str:
    """The runner ended while it loaded."""
    lower = why.lower()
    if "illegal instruction" in lower:
        return "Ollama's runner ended while it loaded the model (illegal instruction): it was built for another kind of CPU"
    if "signal: killed" in lower:
        return f"Ollama's runner was killed while it loaded the model: mostly for want of memory; {_SMALLER}"
    return f"Ollama's runner ended while it loaded the model ({_short(why)}): Ollama's log says more"


def _short(text: str) -> str:
    text = " ".join(text.split()).rstrip(" .")
    return harmless(text, 120) if text else "no reason given"
