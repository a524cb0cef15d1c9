"""Every error that Ollama is known to give, as one plain line that says what to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from phasetop.backends.ollama_errors import explain, explain_line

if TYPE_CHECKING:
    from tests.backends.ollama.conftest import CapturesFn

RECORDED = {
    "err-bad-format": ("bad-setting", "json, or a JSON schema"),
    "err-bad-keepalive": ("bad-setting", "--keep-alive soon"),
    "err-bad-name": ("no-such-model", "no name"),
    "err-bad-option-type": ("bad-setting", "-o num_ctx: Ollama wants a whole number"),
    "err-bad-think": ("bad-setting", "--think=extreme"),
    "err-empty-model-chat": ("no-such-model", "give one as MODEL"),
    "err-host-403": ("host-refused", "OLLAMA_HOST"),
    "err-image-unsupported": ("not-supported", "takes no images"),
    "err-no-runner": ("no-runner", "install Ollama again"),
    "err-origin-403": ("host-refused", "host name"),
    "err-raw-and-template": ("bad-setting", "--raw"),
    "err-think-unsupported": ("not-supported", "smollm2 cannot think"),
    "err-tools-unsupported": ("not-supported", "cannot call tools"),
    "err-top-logprobs-21": ("bad-setting", "0 to 20"),
    "err-too-long-native-truncate-false": ("exceed_context_size_error", "needs 2,320 tokens and the context holds 1,024"),
    "err-too-long-shift-false": ("exceed_context_size_error", "-c N"),
    "err-too-long-truncate-false": ("exceed_context_size_error", "needs 2,299 tokens"),
    "err-unknown-chat": ("no-such-model", "no model 'nosuch'"),
    "err-unknown-generate": ("no-such-model", "no model 'nosuch:7b'"),
    "err-unknown-show": ("no-such-model", "no model 'nosuch:latest'"),
    "err-wrong-type": (None, "cannot unmarshal"),
    "runner-killed-load": ("load-failed", "killed while it loaded"),
    "runner-killed-prefill": ("runner-died", "ask again"),
    "truncated-native": ("exceed_context_size_error", "needs 2,299 tokens"),
}

WRITTEN = [
    # (status, text of the error, our code, what the line says): from Ollama's source
    (404, 'model "x" not found, try pulling it first', "no-such-model", "--pull fetches it"),
    (400, '"x" does not support generate', "not-supported", "does not write text"),
    (400, '"bge" does not support chat', "not-supported", "bge does not write text"),
    (499, "request canceled", "cancelled", "dropped the request"),
    (503, "server busy, please try again.  maximum pending requests exceeded", "busy", "wait and try again"),
    (500, "llama-server process has terminated: signal: illegal instruction", "load-failed", "another kind of CPU"),
    (
        500,
        "llama-server process has terminated: exit status 1: error: invalid argument: --no-mmap",
        "load-failed",
        "--no-mmap",
    ),
    (500, "llama-server reported out-of-memory during startup: cudaMalloc failed", "out-of-memory", "less context (-c)"),
    (500, "timed out waiting for llama-server to start - progress 0.50 - ", "load-failed", "OLLAMA_LOAD_TIMEOUT"),
    (500, "error starting llama-server: fork/exec /x: permission denied", "load-failed", "permission denied"),
    (500, "llama-server process no longer running: exit status 1", "runner-died", "starts another"),
    (
        500,
        "model runner has unexpectedly stopped, this may be due to resource limitations",
        "runner-died",
        "too little memory",
    ),
    (500, "an error was encountered while running the model: CUDA error: out of memory", "out-of-memory", "less context"),
    (403, "ollama cloud is disabled: remote model is unavailable", "cloud-off", "OLLAMA_NO_CLOUD"),
    (500, "something nobody has seen", None, "see its log"),
]


def test_recorded_answers(captures: CapturesFn) -> None:
    for name, (code, says) in RECORDED.items():
        one = captures()[name]
        found = explain(one.status, one.head["headers"], one.data)
        assert found.fault.status == one.status, name
        assert found.fault.code == code, name
        assert says in found.line, (name, found.line)
        assert "\n" not in found.line
        assert len(found.line) <= 300


def test_every_recorded_error_has_a_line_of_its_own(captures: CapturesFn) -> None:
    for name, one in captures().items():
        if name.startswith("err-") and one.status >= 400:
            line = explain(one.status, one.head["headers"], one.data).line
            assert line
            assert "/opt/" not in line, "paths of the server say nothing to a person"


@pytest.mark.parametrize(("status", "text", "code", "says"), WRITTEN, ids=[text[:30] for _, text, _, _ in WRITTEN])
def test_texts_of_the_source(status: int, text: str, code: str | None, says: str) -> None:
    found = explain(status, {"content-type": "application/json"}, json.dumps({"error": text}).encode())
    assert found.fault.code == code
    assert says in found.line
    inside = explain_line({"error": text})
    assert inside.fault.code == code
    assert inside.fault.text == inside.line
    assert inside.fault.status is None


def test_signing_in_names_the_way_and_not_the_key() -> None:
    body = {"error": "unauthorized", "signin_url": "https://ollama.com/connect?name=box&key=c2VjcmV0LWtleQ"}
    found = explain(401, {}, json.dumps(body).encode())
    assert found.fault.code == "sign-in"
    assert "`ollama signin`" in found.line
    assert "c2VjcmV0" not in found.line + str(found.fault.text)


def test_a_key_that_is_wanted() -> None:
    found = explain(401, {}, b'{"error":"invalid API key sk-hush-4711"}', secrets=["sk-hush-4711"])
    assert found.fault.code == "key-needed"
    assert "--api-key" in found.line
    assert "hush" not in found.line + str(found.fault.text)


@pytest.mark.parametrize(
    ("status", "headers", "body", "says"),
    [
        (404, {}, b"404 page not found", "404"),
        (502, {"content-type": "text/html"}, b"<html><h1>502 Bad Gateway</h1></html>", "a proxy or a web server answered"),
        (307, {"location": "https://u:p@else.example/x?key=1"}, b"", "https://else.example/x"),
    ],
)
def test_what_is_not_ollamas_is_explained_as_everywhere(
    status: int, headers: dict[str, str], body: bytes, says: str
) -> None:
    assert says in explain(status, headers, body).line
