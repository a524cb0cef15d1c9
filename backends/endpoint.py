"""A server's address: what a person typed made a base URL, with its key and its TLS, and short questions to it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx
import msgspec

from phasetop.backends.locality import is_local
from phasetop.backends.stamped import Wire, plain_client, stamped_client, tls_context
from phasetop.checks import check_key, check_url, printable_url
from phasetop.faults import UsageError

QUESTION_TIMEOUT_S: Final = 5.0
_MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024


def base_url(typed: str) -> str:
    """``http://host:8080/prefix/v1/`` → ``http://host:8080/prefix``: no userinfo, query, fragment or API path.

    Addresses that only a server can listen on become ones that a client can reach: 0.0.0.0 → 127.0.0.1, [::] → [::1].

    Raises:
        UsageError: no http(s) URL, or one without a host.
    """
    check_url(typed.strip())
    parts = urlsplit(typed.strip())
    host, port = parts.hostname or "", parts.port
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - replaced, not bound
    netloc = f"[{host}]" if ":" in host else host
    if port is not None:
        netloc += f":{port}"
    path = parts.path.rstrip("/")
    for api in ("/v1/chat/completions", "/chat/completions", "/completion", "/v1"):
        path = path.removesuffix(api)
    return urlunsplit((parts.scheme.lower(), netloc, path.rstrip("/"), "", ""))


@dataclass
class Endpoint:
    """A server and how to speak to it.

    Attributes:
        base: scheme, host, port and path prefix.
        api_key: sent as a bearer token; may change while the session runs.
        context: TLS for https.
        proxy: an http proxy's URL.
        uds: a unix socket that leads there (an ssh tunnel's mouth); ``base`` is then as the far machine sees it.
        far: how it is called then: ``ssh://HOST/http://…``.
    """

    base: str
    api_key: str | None = None
    context: ssl.SSLContext | None = None
    proxy: str | None = None
    uds: str | None = None
    far: str | None = None

    @classmethod
    def open(
        cls,
        typed: str,
        api_key: str | None,
        cacert: str | None = None,
        *,
        insecure: bool = False,
        proxy: str | None = None,
    ) -> Endpoint:
        """The endpoint of a URL as typed.

        Raises:
            UsageError: no URL, a proxy that is none, or a certificate file that cannot be used.
        """
        base = base_url(typed)
        if proxy is not None and urlsplit(proxy).scheme not in ("http", "https"):
            raise UsageError(f"--proxy {printable_url(proxy)}: http://HOST:PORT is expected")
        try:
            httpx.URL(base).host  # noqa: B018 - httpx knows more of what a name cannot be
        except (httpx.InvalidURL, UnicodeError):
            raise UsageError(f"{base}: no machine can have such a name") from None
        try:
            context = tls_context(base, cacert, insecure)
        except OSError as error:  # ssl.SSLError is one
            where = f"--cacert {cacert}" if cacert else "SSL_CERT_FILE or SSL_CERT_DIR"
            raise UsageError(f"{where}: {error.strerror or error}") from None
        return cls(base, check_key(api_key or _userinfo_key(typed)), context, proxy)

    def headers(self) -> dict[str, str]:
        """What every request carries: the key, if there is one."""
        return {"authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    @property
    def dialled(self) -> str:
        """The address that TCP goes to: the proxy's where there is one."""
        return f"{printable_url(self.proxy)} (the proxy)" if self.proxy else self.shown

    @property
    def shown(self) -> str:
        """How it is called in what is written and shown."""
        return self.far or self.base

    @property
    def local(self) -> bool:
        """Whether the server runs on this machine."""
        return self.uds is None and is_local(self.base)

    def secrets(self) -> tuple[str, ...]:
        """What must never be written or shown."""
        return (self.api_key,) if self.api_key else ()

    def url(self, path: str) -> str:
        """The URL of an API path."""
        return self.base + path

    def stream_client(self, wire: Wire) -> httpx.Client:
        """A client of its own for one generation."""
        return stamped_client(wire, self.context, self.headers(), self.proxy, self.uds)

    def get(self, path: str, timeout_s: float = QUESTION_TIMEOUT_S) -> httpx.Response:
        """Ask something short. Raises `httpx.HTTPError`."""
        return self._ask("GET", path, None, timeout_s)

    def post(self, path: str, body: dict[str, Any], timeout_s: float = QUESTION_TIMEOUT_S) -> httpx.Response:
        """Ask something short with a body. Raises `httpx.HTTPError`."""
        return self._ask("POST", path, body, timeout_s)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, timeout_s: float) -> httpx.Response:
        with (
            plain_client(self.context, self.headers(), timeout_s, self.proxy, self.uds) as client,
            client.stream(method, self.url(path), json=body) as response,
        ):
            parts: list[bytes] = []
            size = 0
            for part in response.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > _MAX_ANSWER_BYTES:
                    raise httpx.ReadError("the answer is longer than 32 MiB", request=response.request)
            return httpx.Response(
                response.status_code, headers=_plain_headers(response), content=b"".join(parts), request=response.request
            )


def _plain_headers(response: httpx.Response) -> dict[str, str]:
    """The headers of an answer that was decoded already."""
    return {
        k: v for k, v in response.headers.items() if k not in ("content-encoding", "content-length", "transfer-encoding")
    }


def _userinfo_key(typed: str) -> str | None:
    """A password given in the URL serves as the key, and is shown nowhere."""
    try:
        return urlsplit(typed).password
    except ValueError:
        return None


def json_of(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of a good answer; {} for anything else."""
    if response.status_code != 200:
        return {}
    try:
        value = msgspec.json.decode(response.content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}
