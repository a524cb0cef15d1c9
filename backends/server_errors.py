"""What went wrong, from a server's answer or a failed connection: a `Fault` for the file and one plain line for a person.

A fault's text is in the server's own words where it gave any (made harmless, never a page of HTML, never a key); the line
says what happened and what to do. Pure: statuses, headers, bytes and exceptions go in, nothing is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from phasetop import events as ev
from phasetop.backends.plain_text import MAX_TEXT, clean_url, harmless
from phasetop.backends.server_json import load

_MAX_BODY: Final = 256 * 1024  # of an error's body, what is looked at
_IN_LINE: Final = 170  # characters of the server's own words inside a line: the advice after them must fit

KEY_NEEDED: Final = "key-needed"
_KEY_LINE: Final = "give it with --api-key or LLAMA_API_KEY"


@dataclass(frozen=True, slots=True)
class Explained:
    """An error: as it is recorded, and as one line that says what happened and what to do."""

    fault: ev.Fault
    line: str

    def as_fault(self) -> ev.Fault:
        """The fault with the line for a person as its text, as it is written."""
        return ev.Fault(status=self.fault.status, code=self.fault.code, text=self.line)


def is_loading(fault: ev.Fault) -> bool:
    """Whether the server only says that it is still loading its model: wait and try again."""
    return fault.status == 503 and isinstance(fault.text, str) and re.search(r"\bloading\b", fault.text, re.I) is not None


def own_words(fault: ev.Fault, *, redacted: bool) -> str:
    """The error in words; of an answer that a server gave, where texts are left out, what is known besides its own words."""
    if not redacted or fault.status is None:
        return ev.shown(fault.text)
    if needs_key(fault):
        return f"the server wants a key, or another one ({fault.status}): --api-key, or LLAMA_API_KEY"
    code = f" ({fault.code})" if fault.code is not None else ""
    return f"the server answered {fault.status}{code}"


def needs_key(fault: ev.Fault) -> bool:
    """Whether the server wants a key that it did not get, or another one."""
    return fault.code == KEY_NEEDED


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _sentence(text: str) -> str:
    return text.rstrip(" .")


# -- answers ------------------------------------------------------------------------------------------------------------


def explain_status(status: int, headers: Mapping[str, str], body: bytes, *, secrets: Iterable[str] = ()) -> Explained:
    """An HTTP answer that is no success.

    Args:
        status: its status.
        headers: its headers, names in any case.
        body: what came of its body, possibly cut or empty.
        secrets: what must not show: the key that was sent.

    """
    if 300 <= status < 400:
        return _redirect(status, headers, secrets)
    if is_html(body, headers):
        return _page(status)
    said = read_error(load(body[:_MAX_BODY]))
    return _explain(status, said or Said(body[: 16 * MAX_TEXT].decode("utf-8", "replace").strip()), secrets)


def explain_error(error: Any, *, secrets: Iterable[str] = ()) -> Explained:
    """An error object (or text) that a server sent inside a stream it had begun with 200.

    The fault's status is then the one that the server gives the error itself.
    """
    said = read_error(error) or Said(text=str(error or ""))
    return _explain(said.status, said, secrets)


def explain_no_stream(body: bytes, *, secrets: Iterable[str] = ()) -> Explained:
    """Bytes that came where a stream was expected and are none: a proxy's words, a page, a bare error object."""
    if is_html(body, {}):
        return _page(200)
    value = load(body[:_MAX_BODY])
    said = read_error(value)
    if said is not None:
        return _explain(said.status, said, secrets)
    text = harmless(body[: 16 * MAX_TEXT].decode("utf-8", "replace"), secrets=secrets)
    if not text:
        return Explained(ev.Fault(text="the answer is empty"), "the server's answer is empty: look at its log")
    line = f"the server, or a proxy before it, sent this instead of a stream: {_sentence(text)}"
    return Explained(ev.Fault(text=text), harmless(line, secrets=secrets))


def is_html(body: bytes, headers: Mapping[str, str]) -> bool:
    """Whether a body is a web page, by its type or its beginning."""
    begin = body[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    if begin.startswith((b"{", b"[")):
        return False
    return begin.startswith((b"<!doctype", b"<html", b"<head", b"<body", b"<?xml")) or "html" in kind.lower()


@dataclass(frozen=True, slots=True)
class Said:
    """What an error object says: its own status and code, its text, numbers of tokens where it has them."""

    text: str
    status: int | None = None
    code: str | None = None
    prompt: int | None = None
    context: int | None = None


def read_error(value: Any, depth: int = 4) -> Said | None:
    """The error in a JSON value, whoever wrote it; None where it holds none.

    Known forms: ``{"error": {code, message, type}}``, ``{"error": "text"}`` (with an object inside the text, as Ollama
    passes its runner's on), ``{"object": "error", "message": …}``, ``{"code", "message"}``, ``{"errors": [...]}``,
    ``{"detail": "text" | [{"msg"}]}``.
    """
    if depth <= 0:
        return None
    if isinstance(value, list):
        return next((said for item in value[:8] if (said := read_error(item, depth - 1))), None)
    if not isinstance(value, dict):
        return None
    for key in ("error", "errors", "detail"):
        inner = value.get(key)
        if isinstance(inner, str) and inner:
            nested = (
                read_error(load(inner.encode("utf-8", "replace")), depth - 1) if inner.lstrip().startswith("{") else None
            )
            return nested or Said(text=inner, status=_status(value.get("code")), code=_code(value))
        if isinstance(inner, (dict, list)) and (said := read_error(inner, depth - 1)):
            return said
        if inner and key == "error":
            return Said(text="an error without a text")
    text = value.get("message") or value.get("msg")
    if not isinstance(text, str) or not text:
        return None
    numbers = [
        n if isinstance(n, int) and 0 < n < 2**53 else None for n in (value.get("n_prompt_tokens"), value.get("n_ctx"))
    ]
    return Said(text, _status(value.get("code")), _code(value), *numbers)


def _status(code: Any) -> int | None:
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _code(value: Mapping[str, Any]) -> str | None:
    found = next(
        (v for v in (value.get("type"), value.get("code"), value.get("error_type")) if isinstance(v, str) and v), None
    )
    return harmless(found, 64) if found else None


_CONTEXT: Final = re.compile(
    r"\(?(\d+) tokens?\)?[^.]*?(?:exceeds?|longer|larger)[^.]*?(?:context|limit)[^.(]*\(?(\d+)", re.I
)
_LENGTH: Final = re.compile(
    r"maximum context length is (\d+) tokens.*?(?:requested|contains|has|your messages resulted in)[^\d]*(\d+)", re.I | re.S
)


def _context_numbers(said: Said) -> tuple[int, int] | None:
    """(tokens of the prompt, tokens of the context) where an error says that the one does not fit the other."""
    if said.prompt is not None and said.context is not None:
        return said.prompt, said.context
    text = said.text[:1000]
    if found := _CONTEXT.search(text):
        return int(found[1][:12]), int(found[2][:12])
    if found := _LENGTH.search(text):
        return int(found[2][:12]), int(found[1][:12])
    return None


def _explain(status: int | None, said: Said, secrets: Iterable[str]) -> Explained:
    secrets = tuple(secrets)
    text = harmless(said.text, secrets=secrets)
    code = harmless(said.code, 64, secrets) if said.code else None
    fault = ev.Fault(status=status, code=code, text=text or (_phrase(status) if status else "an error without a text"))
    line = _line(status, said, _sentence(harmless(said.text, _IN_LINE, secrets)))
    if status == 401:
        fault.code = KEY_NEEDED
    return Explained(fault, harmless(line, secrets=secrets))


_ADVICE: Final[Mapping[int, str]] = {
    403: "it does not allow this address, or the key may not do this",
    404: "nothing is there at this address; is it an LLM server's, and is its path whole?",
    405: "this address takes no such request; is it an LLM server's, and is its path whole?",
    408: "it, or a proxy before it, gave up waiting; try again, or ask the model server itself",
    413: "the request is too large for it, or for a proxy before it",
    429: "it takes no more requests now; wait and try again",
    502: "a proxy answered that cannot reach the model server; is that running?",
    503: "it is busy or not ready; wait and try again",
    504: "it, or a proxy before it, gave up waiting; try again, or ask the model server itself",
}
"""What to do about a status, where the server's own words do not say it better."""
_NO_MODEL: Final = re.compile(
    r"\bmodel\b.*\b(not found|does not exist|not exist|unknown)\b|\bno such model\b|not found.*\bmodel\b"
)


def _line(status: int | None, said: Said, text: str) -> str:
    """What happened and what to do, by what the server said and its status."""
    lower = text.lower()
    if numbers := _context_numbers(said):
        needs = f"the request needs {numbers[0]:,} tokens and the context holds {numbers[1]:,}"
        return f"{needs}: shorten it, or start the server with a larger context"
    if status == 401:
        return f"the server wants an API key ({text or 'none or a wrong one was sent'}): {_KEY_LINE}"
    if status == 503 and re.search(r"\bloading\b", lower):
        return "the server is still loading its model: wait until it is ready"
    if _NO_MODEL.search(lower):
        return f"{text}: `phasetop models` lists what there is"
    if "model is not loaded" in lower or "model name is missing" in lower:
        return f"{text}: this server has several models, name one with --model"
    if "logprobs" in lower and "tools" in lower:
        return f"the server refused the request ({text}): ask without log-probabilities, or without tools"
    if status == 501:
        return f"the server does not offer this ({text or _phrase(501)})"
    if status is None:
        return f"the server reported an error{_said(text)}"
    answer = f"the server answered {_phrase(status)}{_said(text, status)}"
    if status in _ADVICE:
        return f"{answer}: {_ADVICE[status]}"
    if status >= 500:
        return f"{answer}: look at the server's log"
    if status >= 400:
        return f"the server refused the request{_said(text) or f' ({_phrase(status)})'}"
    return f"{answer}, which is no answer to this request"


def _said(text: str, status: int | None = None) -> str:
    """The server's words in brackets, unless they only repeat its status."""
    repeats = status is not None and text.lower() in (_phrase(status).lower(), _phrase(status).lower().partition(" ")[2])
    return f" ({text})" if text and not repeats else ""


def _redirect(status: int, headers: Mapping[str, str], secrets: Iterable[str]) -> Explained:
    location = next((value for name, value in headers.items() if name.lower() == "location"), "")
    target = harmless(clean_url(location.strip()), 200, secrets) if location.strip() else ""
    if not target:
        line = f"the server answered {_phrase(status)} and named no target"
        return Explained(ev.Fault(status=status, code="redirect", text=line), line)
    line = f"the server redirects to {target}, and redirects are not followed: give the right address"
    return Explained(ev.Fault(status=status, code="redirect", text=f"redirect to {target}"), harmless(line, secrets=secrets))


def _page(status: int) -> Explained:
    text = f"a web page instead of an answer ({_phrase(status)})"
    if status == 401:
        line = f"a proxy or a web server wants a login ({_phrase(status)}): if it takes the server's key, {_KEY_LINE}"
        return Explained(ev.Fault(status=status, code=KEY_NEEDED, text=text), line)
    what = "a proxy or a web server answered, not the model server"
    do = "is the model server behind it running?" if status in (500, 502, 503, 504) else "is this its address?"
    line = f"{what} ({_phrase(status)}): {do}"
    return Explained(ev.Fault(status=status, code="web-page", text=text), line)


# -- connections --------------------------------------------------------------------------------------------------------

_Rule = tuple[str, str, str]
_CONNECTION_RULES: Final[tuple[_Rule, ...]] = (
    # (pattern over exception names and texts, code, what it means and what to do; {at} is " at HOST:PORT" or nothing)
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError",
        "tls-untrusted",
        "the certificate of the server{at} is not trusted ({why}): give its authority with --cacert, or use --insecure",
    ),
    (
        r"WRONG_VERSION_NUMBER|HTTP_REQUEST|UNKNOWN_PROTOCOL|record layer failure|RECORD_LAYER_FAILURE",
        "tls-failed",
        "the server{at} does not speak TLS: is it http rather than https?",
    ),
    (r"\bSSL|\bTLS\b", "tls-failed", "the TLS connection to the server{at} failed ({why})"),
    (
        r"gaierror|Name or service not known|nodename nor servname|failure in name resolution|No address associated",
        "host-unknown",
        "the name of the server{at} is not known here: check the address, and the network",
    ),
    (
        r"ConnectionRefusedError|Connection refused|actively refused|Errno 111\b|Errno 61\b",
        "connection-refused",
        "nothing listens{at}: is the server running, and is the port right?",
    ),
    (
        r"Network is unreachable|No route to host|Host is down|ENETUNREACH|EHOSTUNREACH|Errno 10[01]\b|Errno 113\b",
        "no-route",
        "no way leads to the server{at}: check the address, and the network",
    ),
    (r"ProxyError", "proxy-failed", "the proxy did not connect ({why})"),
    (
        r"ConnectTimeout|timed out during connect",
        "timeout",
        "the server{at} did not take the connection in time: is the address right, and does a firewall stand between?",
    ),
    (r"PoolTimeout|ReadTimeout|WriteTimeout|TimeoutError|timed out", "timeout", "the server{at} did not answer in time"),
    (
        r"ConnectionResetError|Connection reset|BrokenPipe|Broken pipe|ConnectionAborted|forcibly closed",
        "connection-reset",
        "the connection to the server{at} was reset: did the server stop?",
    ),
    (
        r"incomplete chunked read|incomplete message body|without sending complete message body|IncompleteRead|EndOfStream",
        "connection-closed",
        "the server{at} closed the connection before the reply was whole: did it stop?",
    ),
    (
        r"disconnected without sending|closed connection without|RemoteDisconnected",
        "connection-closed",
        "the server{at} closed the connection without an answer: did it stop?",
    ),
    (
        r"illegal chunk|invalid chunk|chunk size",
        "connection-closed",
        "the server{at} broke the reply off with bytes that are no HTTP: does a proxy stand between?",
    ),
    (
        r"illegal status line|illegal header line|BadStatusLine|RemoteProtocolError",
        "bad-http",
        "what listens{at} does not speak HTTP as it should ({why}): is this the server's port, and is it http or https?",
    ),
    (r"UnsupportedProtocol|InvalidURL|LocalProtocolError", "bad-address", "this address cannot be used ({why})"),
    (r"DecodingError|zlib|gzip", "bad-encoding", "the server{at} sent a compressed answer that is broken ({why})"),
    (r"TooManyRedirects", "redirect", "the server{at} redirects without end"),
    (r"All connection attempts failed|ConnectError", "connection-failed", "no connection to the server{at} ({why})"),
    (r"ReadError|WriteError|CloseError|NetworkError", "connection-reset", "the connection to the server{at} broke ({why})"),
    (
        r"PermissionError|Permission denied|Operation not permitted",
        "not-allowed",
        "this machine does not allow the connection{at}",
    ),
)
_RULES: Final = tuple((re.compile(pattern, re.I), code, text) for pattern, code, text in _CONNECTION_RULES)
_VERIFY: Final = re.compile(r"certificate verify failed:\s*(.*?)\s*(?:\(_ssl|$)", re.I)


def explain_connection(error: BaseException, where: str = "", *, secrets: Iterable[str] = ()) -> ev.Fault:
    """A failed or broken connection: a code, and one line that says what happened and what to do.

    Args:
        error: what the transport raised; its causes are looked at too.
        where: the server's address (``127.0.0.1:8080`` or a URL), named in the line.
        secrets: what must not show.

    """
    chain: list[BaseException] = []
    seen: BaseException | None = error
    while seen is not None and seen not in chain and len(chain) < 8:
        chain.append(seen)
        seen = seen.__cause__ or seen.__context__
    names = " ".join(kind.__name__ for link in chain for kind in type(link).__mro__ if kind not in _TOO_BROAD)
    return explain_failure(
        names, "\n".join(text for link in chain if (text := str(link).replace("\n", " "))), where, secrets=secrets
    )


_TOO_BROAD: Final = (object, BaseException, Exception, OSError, ConnectionError, ValueError)


def explain_failure(names: str, text: str, where: str = "", *, secrets: Iterable[str] = ()) -> ev.Fault:
    """The same from exception names and texts (a line each, the outermost first) as they come from another process."""
    found = f"{names} {text[:2000]}"
    at = f" at {harmless(clean_url(where) if '://' in where else where, 120, secrets)}" if where else ""
    verify = _VERIFY.search(text)
    own = text.partition("\n")[0] or (names.split() or ["unknown"])[0]
    why = harmless(verify[1] if verify and verify[1] else own, 120, secrets)
    for pattern, code, meaning in _RULES:
        if pattern.search(found):
            return ev.Fault(code=code, text=harmless(meaning.format(at=at, why=why), secrets=secrets))
    return ev.Fault(
        code="connection-failed", text=harmless(f"the connection to the server{at} failed ({why})", secrets=secrets)
    )
