"""Servers' errors and broken connections: what is recorded, and the one line that says what happened and what to do."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import codec
from phasetop import events as ev
from phasetop.backends.plain_text import clean_url, harmless
from phasetop.backends.server_errors import (
    explain_connection,
    explain_error,
    explain_failure,
    explain_no_stream,
    explain_status,
    is_loading,
    needs_key,
    read_error,
)
from phasetop.backends.server_json import load

if TYPE_CHECKING:
    from tests.backends.streams.conftest import ExchangesFn

HTML = b"<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"

SHORTEN = "shorten it, or start the server with a larger context"
WHERE = "nothing is there at this address; is it an LLM server's, and is its path whole?"
WITHOUT = "ask without log-probabilities, or without tools"


def body(message: str, **more: Any) -> bytes:
    return json.dumps({"error": {"message": message, **more}}).encode()


# -- llama.cpp's own ------------------------------------------------------------------------------------------------------


def test_every_recorded_error(exchanges: ExchangesFn) -> None:
    errors = [one for one in exchanges("llamacpp") if (one.head["status"] or 0) >= 400]
    assert len(errors) == 67
    for exchange in errors:
        status, said = exchange.head["status"], exchange.expected["error"]
        found = explain_status(status, exchange.head["headers"], exchange.data)
        assert found.fault.status == status
        assert found.fault.text == said["message"]
        assert found.fault.code == ("key-needed" if status == 401 else said["type"])
        assert is_loading(found.fault) == (said["message"] == "Loading model")
        assert needs_key(found.fault) == (status == 401)
        assert 10 < len(found.line) <= 300
        assert "\n" not in found.line


@pytest.mark.parametrize(
    ("status", "data", "code", "line"),
    [
        (
            400,
            body("request (1871 tokens) exceeds the available context size (512 tokens), try increasing it", code=400),
            None,
            f"the request needs 1,871 tokens and the context holds 512: {SHORTEN}",
        ),
        (
            400,
            body("too long", type="exceed_context_size_error", n_prompt_tokens=9000, n_ctx=8192),
            "exceed_context_size_error",
            f"the request needs 9,000 tokens and the context holds 8,192: {SHORTEN}",
        ),
        (
            401,
            body("Invalid API Key", type="authentication_error", code=401),
            "key-needed",
            "the server wants an API key (Invalid API Key): give it with --api-key or LLAMA_API_KEY",
        ),
        (
            401,
            b"",
            "key-needed",
            "the server wants an API key (none or a wrong one was sent): give it with --api-key or LLAMA_API_KEY",
        ),
        (400, body("model 'x' not found"), None, "model 'x' not found: `phasetop models` lists what there is"),
        (404, body("model 'x' not found"), None, "model 'x' not found: `phasetop models` lists what there is"),
        (
            400,
            body("model is not loaded"),
            None,
            "model is not loaded: this server has several models, name one with --model",
        ),
        (
            404,
            body("File Not Found", type="not_found_error"),
            "not_found_error",
            f"the server answered 404 Not Found (File Not Found): {WHERE}",
        ),
        (
            501,
            body("This server does not support metrics endpoint. Start it with `--metrics`"),
            None,
            "the server does not offer this (This server does not support metrics endpoint. Start it with `--metrics`)",
        ),
        (503, body("Loading model"), None, "the server is still loading its model: wait until it is ready"),
        (
            503,
            body("no slot available", type="unavailable_error"),
            "unavailable_error",
            "the server answered 503 Service Unavailable (no slot available): it is busy or not ready; wait and try again",
        ),
        (
            500,
            body("model name=broken failed to load", type="server_error"),
            "server_error",
            "the server answered 500 Internal Server Error (model name=broken failed to load): look at the server's log",
        ),
        (400, body("'messages' is required"), None, "the server refused the request ('messages' is required)"),
        (
            400,
            body("logprobs is not supported with tools + stream"),
            None,
            f"the server refused the request (logprobs is not supported with tools + stream): {WITHOUT}",
        ),
    ],
)
def test_lines(status: int, data: bytes, code: str | None, line: str) -> None:
    found = explain_status(status, {"content-type": "application/json"}, data)
    assert (found.fault.code, found.line) == (code, line)


# -- others' forms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "text", "code"),
    [
        (b'{"error":"model \'x\' not found"}', "model 'x' not found", None),
        (b'{"error":{"message":"no","type":"t","param":null,"code":null}}', "no", "t"),
        (b'{"object":"error","message":"no","type":"BadRequestError","param":null,"code":400}', "no", "BadRequestError"),
        (b'{"detail":"Not Found"}', "Not Found", None),
        (b'{"detail":[{"loc":["body"],"msg":"field required","type":"missing"}]}', "field required", "missing"),
        (b'{"errors":[{"message":"no"}]}', "no", None),
        (b'[{"error":{"code":404,"message":"no"}}]', "no", None),
        (b'{"type":"error","error":{"type":"invalid","message":"no"}}', "no", "invalid"),
        (b'{"error":"no","error_type":"validation"}', "no", "validation"),
        (b'{"error":"{\\"error\\":{\\"code\\":400,\\"message\\":\\"inner\\",\\"type\\":\\"t\\"}}"}', "inner", "t"),
        (b'{"error":{"code":"insufficient","message":"no"}}', "no", "insufficient"),
        (b"plain words\n", "plain words", None),
        (b'"quoted"', '"quoted"', None),
        (b'{"ok":true}', '{"ok":true}', None),
        (b"", "400 Bad Request", None),
        (b"\xff\xfe", "\ufffd\ufffd", None),
    ],
)
def test_forms_of_errors(data: bytes, text: str, code: str | None) -> None:
    assert explain_status(400, {}, data).fault == ev.Fault(status=400, code=code, text=text)


def test_numbers_in_other_words() -> None:
    text = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages)."
    assert "needs 5,000 tokens and the context holds 4,096" in explain_status(400, {}, body(text)).line


@pytest.mark.parametrize(
    ("status", "headers", "data"),
    [
        (502, {"Content-Type": "text/html; charset=utf-8"}, b"whatever"),
        (502, {}, HTML),
        (502, {}, b"\xef\xbb\xbf  \n" + HTML),
        (504, {"content-type": "text/html"}, b""),
    ],
)
def test_pages_of_proxies_are_never_dumped(status: int, headers: dict[str, str], data: bytes) -> None:
    found = explain_status(status, headers, data)
    assert found.fault.code == "web-page"
    assert "<" not in found.line + str(found.fault.text)
    assert "nginx" not in found.line + str(found.fault.text)
    assert str(status) in found.line
    assert "is the model server behind it running?" in found.line


def test_json_under_a_html_type_is_read() -> None:
    assert explain_status(400, {"content-type": "text/html"}, body("no")).fault.text == "no"


def test_a_login_page_asks_for_the_key() -> None:
    found = explain_status(401, {"content-type": "text/html"}, HTML)
    assert needs_key(found.fault)
    assert "--api-key" in found.line


@pytest.mark.parametrize("status", [403, 404, 405, 408, 413, 429, 502, 503, 504])
def test_empty_answers_still_say_what_to_do(status: int) -> None:
    found = explain_status(status, {}, b"")
    assert found.line.startswith(f"the server answered {status} ")
    assert ": " in found.line
    assert found.fault.text


def test_redirects_name_the_target_without_its_secrets() -> None:
    found = explain_status(302, {"Location": "https://user:pw@sso.example.com:8443/login?token=abc#frag"}, b"<html>")
    assert found.line == (
        "the server redirects to https://sso.example.com:8443/login, and redirects are not followed: give the right address"
    )
    assert found.fault == ev.Fault(status=302, code="redirect", text="redirect to https://sso.example.com:8443/login")
    assert explain_status(307, {}, b"").line == "the server answered 307 Temporary Redirect and named no target"
    assert explain_status(301, {"location": "/v2"}, b"").fault.text == "redirect to /v2"


def test_loading_is_only_a_503_that_says_so() -> None:
    assert is_loading(ev.Fault(status=503, text="Loading model"))
    assert not is_loading(ev.Fault(status=503, text="no slot available"))
    assert not is_loading(ev.Fault(status=500, text="Loading model"))
    assert not is_loading(ev.Fault(status=503, text=13))
    assert not is_loading(ev.Fault(status=503))


def test_errors_inside_streams() -> None:
    found = explain_error({"error": {"code": 503, "message": "gone", "type": "unavailable_error"}})
    assert found.fault == ev.Fault(status=503, code="unavailable_error", text="gone")
    assert explain_error("just words").fault == ev.Fault(text="just words")
    assert explain_error(None).fault == ev.Fault(text="an error without a text")
    assert explain_error({"error": {}}).fault.text
    assert explain_no_stream(b"").line == "the server's answer is empty: look at its log"
    assert (
        explain_no_stream(b"proxy error: x").line
        == "the server, or a proxy before it, sent this instead of a stream: proxy error: x"
    )


# -- texts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb\x07", "a␛[31mb␇"),
        ("a\nb\r\n\tc", "a b c"),
        ("\x9b2J\x7f", "\ufffd2J\ufffd"),
        ("a\u202eb\u2066c", "a\ufffdb\ufffdc"),
        ("\ud800x", "\ufffdx"),
        ("Bearer abcdef123456", "Bearer …"),
        ("Incorrect API key provided: abc123xyz.", "Incorrect API key provided: …"),
        ("api_key=hunter22, next", "api_key=…, next"),
        ("got sk-proj-abcdef0123", "got sk-…"),
        ("see https://u:p@h.example/x?token=1#y now", "see https://h.example/x now"),
        ("Invalid API Key", "Invalid API Key"),
        ("x" * 400, "x" * 299 + "…"),
        ("", ""),
    ],
)
def test_harmless(text: str, shown: str) -> None:
    assert harmless(text) == shown


@given(st.text(max_size=700), st.sampled_from(["hunter-2-secret", "k" * 20]))
def test_harmless_is_one_short_line_without_the_key(text: str, key: str) -> None:
    shown = harmless(f"{text}{key}", secrets=[key])
    assert key not in shown
    assert len(shown) <= 300
    assert not any(c < " " or "\x7f" <= c < "\xa0" for c in shown)
    shown.encode()


def test_the_key_that_was_sent_shows_nowhere() -> None:
    key = "not-like-a-key"
    for status in (400, 401, 403, 404, 500, 302):
        headers = {"location": f"https://h/{key}"}
        found = explain_status(status, headers, body(f"bad {key} here", type=f"t{key}"), secrets=[key])
        assert key not in f"{found.line} {found.fault}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://h:1/p?q#f", "http://h:1/p"),
        ("http://u:p@h/", "http://h/"),
        ("/rel?x", "/rel"),
        ("http://[::1]:8/", "http://[::1]:8/"),
        ("http://[bad", "…"),
    ],
)
def test_clean_url(url: str, shown: str) -> None:
    assert clean_url(url) == shown


@given(
    st.integers(100, 999),
    st.dictionaries(st.sampled_from(["location", "content-type"]), st.text(max_size=20)),
    st.binary(max_size=80),
)
def test_any_answer_is_explained(status: int, headers: dict[str, str], data: bytes) -> None:
    for found in (explain_status(status, headers, data), explain_no_stream(data), explain_error(load(data))):
        assert found.line
        assert len(found.line) <= 300
        assert isinstance(found.fault.text, str)
        assert found.fault.text
        codec.encode(ev.End(t=0, r=0, finish="error", error=found.fault))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["error", "message", "detail", "code", "x"]), inner)
    ),
    max_leaves=8,
)


@given(values)
def test_any_object_is_explained(value: Any) -> None:
    read_error(value)
    assert explain_error(value).fault.text


# -- connections ----------------------------------------------------------------------------------------------------------


def failure(url: str, **options: Any) -> ev.Fault:
    with httpx.Client(trust_env=False, timeout=options.pop("timeout", 10), **options) as client:
        try:
            client.get(url)
        except httpx.HTTPError as error:
            return explain_connection(error, url)
    raise AssertionError("no failure")


def serve(answer: bytes | None) -> tuple[str, threading.Event]:
    """A port that sends these bytes to one client and closes; None: it says nothing until the event is set."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def run() -> None:
        with listener, listener.accept()[0] as peer:
            peer.recv(65536)
            if answer is None:
                over.wait(20)
            else:
                peer.sendall(answer)

    threading.Thread(target=run, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}", over


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    assert failure(url) == ev.Fault(
        code="connection-refused", text=f"nothing listens at {url}: is the server running, and is the port right?"
    )


def test_an_unknown_name() -> None:
    assert failure("http://no-such-host.invalid:80").code == "host-unknown"


@pytest.mark.parametrize(
    ("scheme", "answer", "code"),
    [
        ("http", b"", "connection-closed"),
        ("http", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", "connection-closed"),
        ("http", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc", "connection-closed"),
        ("http", b"\x15\x03\x01\x00\x02\x02\x46", "bad-http"),
        ("http", b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc", "bad-encoding"),
        ("https", b"HTTP/1.1 400 Bad\r\n\r\n", "tls-failed"),
    ],
)
def test_what_real_sockets_raise(scheme: str, answer: bytes, code: str) -> None:
    at, _ = serve(answer)
    fault = failure(f"{scheme}://{at}", verify=ssl.create_default_context())
    assert fault.code == code
    assert at in str(fault.text)


def test_no_answer_in_time() -> None:
    at, over = serve(None)
    assert failure(f"http://{at}", timeout=0.1).code == "timeout"
    over.set()


@pytest.mark.parametrize(
    ("names", "text", "code"),
    [
        ("ConnectError", "[Errno 111] Connection refused", "connection-refused"),
        ("ConnectError", "All connection attempts failed", "connection-failed"),
        ("ConnectError", "[Errno -2] Name or service not known", "host-unknown"),
        ("ConnectError", "[Errno -3] Temporary failure in name resolution", "host-unknown"),
        ("ConnectError", "[Errno 113] No route to host", "no-route"),
        ("ConnectError", "[Errno 101] Network is unreachable", "no-route"),
        ("ConnectTimeout", "timed out", "timeout"),
        ("ReadTimeout", "", "timeout"),
        ("ReadError", "[Errno 104] Connection reset by peer", "connection-reset"),
        ("WriteError", "[Errno 32] Broken pipe", "connection-reset"),
        ("ReadError", "", "connection-reset"),
        ("RemoteProtocolError", "Server disconnected without sending a response.", "connection-closed"),
        (
            "RemoteProtocolError",
            "peer closed connection without sending complete message body (incomplete chunked read)",
            "connection-closed",
        ),
        ("RemoteProtocolError", "illegal status line: bytearray(b'SSH-2.0')", "bad-http"),
        ("ConnectError", "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)", "tls-failed"),
        (
            "ConnectError",
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1)",
            "tls-untrusted",
        ),
        ("ConnectError", "[SSL: TLSV1_ALERT_PROTOCOL_VERSION] alert", "tls-failed"),
        ("UnsupportedProtocol", "Request URL is missing an 'http://' or 'https://' protocol.", "bad-address"),
        ("ProxyError", "403 Forbidden", "proxy-failed"),
        ("SomethingNew", "strange", "connection-failed"),
    ],
)
def test_failures_by_name_and_text(names: str, text: str, code: str) -> None:
    fault = explain_failure(names, text, "http://user:pw@127.0.0.1:8080/?k=v")
    assert fault.code == code
    assert "pw" not in str(fault.text)
    assert "k=v" not in str(fault.text)


def test_the_reason_of_an_untrusted_certificate() -> None:
    text = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)"
    assert explain_failure("ConnectError", text, "h:1").text == (
        "the certificate of the server at h:1 is not trusted (self-signed certificate): "
        "give its authority with --cacert, or use --insecure"
    )


def test_causes_are_looked_at() -> None:
    error = httpx.ConnectError("odd words")
    error.__cause__ = ConnectionRefusedError(111, "nope")
    assert explain_connection(error).text == "nothing listens: is the server running, and is the port right?"
    error.__cause__.__cause__ = error  # a ring must not hang it
    assert explain_connection(error).code == "connection-refused"


def test_control_characters_in_failures() -> None:
    assert "\x1b" not in str(explain_failure("ReadError", "x\x1b[2J", "h\x1b]0;t:1").text)
