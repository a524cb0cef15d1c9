"""One generation: a thread that sends the request, stamps the stream and writes down what the parser makes of it."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
import msgspec

from phasetop import events as ev
from phasetop.backends.body import body_of
from phasetop.backends.endpoint import Endpoint
from phasetop.backends.protocol import Ask, Backend, HttpRequest, Outcome, Watch
from phasetop.backends.recorder import Recorder
from phasetop.backends.server_errors import KEY_NEEDED, explain_connection, explain_status, is_loading, needs_key, own_words
from phasetop.backends.stamped import SO_TIMESTAMPNS, Wire

_RETRY_S: Final = 0.1
_LAST_BYTES_S: Final = 1.0
"""What comes after a reply's own end (a proxy's words) is read so long; some servers keep the connection open for ever."""
_PROXIES: Final = ("nginx", "openresty", "caddy", "envoy", "traefik", "haproxy", "cloudflare", "apache", "istio")
_ERROR_BODY_BYTES: Final = 256 * 1024


class Generation:
    """The stream of one request, from the ask to its `end`.

    Args:
        recorder: where the events go.
        ask: what is asked, its history in it.
        endpoint: the server.
        backend: what speaks to it.
        sent: called once when the request's last byte was written (to ask for the prompt's tokens beside it).
        lost: called when the connection broke; returns detail and text where it knows why (the engine died).
        watch: what looks at it from beside it.
    """

    def __init__(
        self,
        recorder: Recorder,
        ask: Ask,
        endpoint: Endpoint,
        backend: Backend,
        sent: Callable[[], None],
        lost: Callable[[], tuple[str, str] | None],
        watch: Watch | None = None,
    ) -> None:
        self._recorder = recorder
        self._ask = ask
        self._endpoint = endpoint
        self._backend = backend
        self._sent = sent
        self._lost = lost
        self._watch = watch
        self._cancelled = threading.Event()
        self._detail: str | None = None
        self._wire = Wire()
        self.answer = bytearray()  # UTF-8: a character may be split over tokens
        self.calls: dict[int, dict[str, Any]] = {}
        self.finish: str | None = None

    def cancel(self, detail: str | None = None) -> None:
        """End it from another thread: a blocked read returns within about a millisecond."""
        self._detail = detail
        self._cancelled.set()
        if self._watch is not None:
            self._watch.stop(cancelled=True)
        self._wire.cut()

    def run(self) -> None:
        """Do it; the last event written is the request's `end`."""
        try:
            self._run()
        finally:
            if self._watch is not None:
                self._watch.stop()

    def _run(self) -> None:
        request = self._backend.request(self._ask)
        if self._watch is not None:
            self._watch.before()
        first = True
        while not self._cancelled.is_set():
            if not self._attempt(request, first=first):
                return
            self._cancelled.wait(_RETRY_S)
            self._wire = Wire()  # before it is asked again whether to go on: a cancel cuts the old one or this one
            first = False
        self._end("cancelled")

    def _attempt(self, request: HttpRequest, *, first: bool) -> bool:
        """One POST; True when the server still loads and it is to be tried again."""
        r, wire, recorder = self._ask.r, self._wire, self._recorder
        content = msgspec.json.encode(request.body)
        is_ours = False

        def trace(name: str, info: dict[str, Any]) -> None:
            nonlocal is_ours
            if name == "http11.send_request_body.started":
                is_ours = info["request"].method == b"POST"  # through a proxy's tunnel its CONNECT is traced, too
            elif name == "http11.send_request_body.complete" and is_ours:
                at = recorder.at(wire.written_ns or time.monotonic_ns())
                recorder.emit(ev.State(t=recorder.now(), s="sent", r=r, at=at))
                if first:
                    self._sent()
                    if self._watch is not None:
                        threading.Thread(target=self._watch.run, name=f"watch-{r}", daemon=True).start()

        try:
            with (
                self._endpoint.stream_client(wire) as client,
                client.stream(
                    "POST",
                    self._endpoint.url(request.path),
                    content=content,
                    headers={"content-type": "application/json"},
                    extensions={"trace": trace},
                ) as response,
            ):
                t = recorder.at(wire.t_ns)
                if response.status_code != 200:
                    return self._refused(response, request, first=first)
                slot = request.headers_mean_slot and not self._through_proxy(response)
                self._stream(response, request, headers_t=t if slot else None)
                return False
        except httpx.HTTPError as error:
            if self._cancelled.is_set():
                self._end("cancelled")
            else:
                fault = self._explain(error)
                detail = self._lost()
                if detail is not None:
                    fault = ev.Fault(status=fault.status, code=detail[0], text=detail[1])
                self._end("error", fault=fault, detail=detail[0] if detail else None)
            return False

    def _explain(self, error: httpx.HTTPError) -> ev.Fault:
        """A failed or broken connection in one line."""
        return explain_connection(error, self._endpoint.dialled, secrets=self._endpoint.secrets())

    def _through_proxy(self, response: httpx.Response) -> bool:
        """Whether somebody stands between: then the headers' time is theirs, and means no slot."""
        by = response.headers.get("server", "").lower()
        return self._endpoint.proxy is not None or "via" in response.headers or by.startswith(_PROXIES)

    def _stream(self, response: httpx.Response, request: HttpRequest, headers_t: int | None) -> None:
        """Read to the end. A build that tells progress sends it with the headers: only then they mean a slot."""
        recorder, wire, parser = self._recorder, self._wire, request.parser
        outcome: Outcome = "complete"
        why: str | None = None
        reads, unstamped = wire.reads, wire.unstamped
        try:
            for data in body_of(response):
                events = parser.feed(data, recorder.at(wire.t_ns)) if data else []
                if headers_t is not None and events:
                    if any(isinstance(event, ev.Prog) for event in events):
                        recorder.emit(ev.State(t=headers_t, s="headers", r=self._ask.r))
                    headers_t = None
                self._write(events)
                if parser.complete:
                    wire.last_call(_LAST_BYTES_S)
        except httpx.HTTPError as error:
            if not parser.complete:
                outcome, why = "broken", ev.shown(self._explain(error).text)
        if self._cancelled.is_set():
            outcome, why = "cancelled", None
        if SO_TIMESTAMPNS and wire.unstamped > unstamped and self._endpoint.uds is None:  # a tunnel's have none
            few = f"{wire.unstamped - unstamped} of {wire.reads - reads} reads came without a receive stamp"
            recorder.notice("stamps-read", f"{few}: their arrivals are when they were read here", r=self._ask.r)
        t = recorder.at(wire.t_ns) if outcome != "cancelled" else recorder.now()
        events = parser.close(t, outcome, why)
        if outcome == "broken" and (lost := self._lost()) is not None:
            fault = ev.Fault(code=lost[0], text=lost[1])
            events = [_named(event, lost[0], fault) for event in events]
        elif outcome == "cancelled" and self._detail is not None:
            events = [_named(event, self._detail, None) for event in events]
        self._write(events)

    def _write(self, events: list[ev.Event]) -> None:
        if not events:
            return
        if self._watch is not None:
            events = self._watch.take(events)
        self._recorder.emit_all(events)
        for event in events:
            if isinstance(event, ev.Tok):
                if event.c == "answer":
                    self.answer += _bytes(event)
                elif event.c == "tool":
                    self._collect_call(event)
            elif isinstance(event, ev.End):
                self.finish = event.finish

    def _collect_call(self, event: ev.Tok) -> None:
        tool = event.tool or ev.Tool(index=max(self.calls, default=0))
        call = self.calls.setdefault(tool.index, {"id": None, "name": None, "arguments": ""})
        call["id"] = tool.id or call["id"]
        call["name"] = tool.name or call["name"]
        call["arguments"] += _bytes(event).decode("utf-8", "replace")

    def _refused(self, response: httpx.Response, request: HttpRequest, *, first: bool) -> bool:
        """An answer that is no stream: loading → True (again later), else the error is the request's end."""
        body = b""
        try:
            for part in response.iter_bytes():
                body += part
                if len(body) > _ERROR_BODY_BYTES:
                    break
        except httpx.HTTPError:
            pass  # what came says enough
        if request.explain is not None:
            explained = request.explain(response.status_code, response.headers, body)
        else:
            explained = explain_status(response.status_code, response.headers, body, secrets=self._endpoint.secrets())
        fault = explained.fault
        recorder, r = self._recorder, self._ask.r
        if request.retry_while_loading and is_loading(fault) and not self._cancelled.is_set():
            if first:
                recorder.emit(ev.State(t=recorder.now(), s="loading", r=r, why=own_words(fault, redacted=recorder.redacted)))
            recorder.emit(ev.State(t=recorder.now(), s="retry", r=r, why="503"))
            return True
        if self._cancelled.is_set():
            self._end("cancelled")
        else:
            self._end("error", fault=ev.Fault(status=fault.status, code=fault.code, text=explained.line))
        return False

    def _end(self, finish: str, fault: ev.Fault | None = None, detail: str | None = None) -> None:
        t = self._recorder.now()
        if fault is not None and needs_key(fault):
            words = own_words(fault, redacted=self._recorder.redacted)
            self._recorder.notice(KEY_NEEDED, words, level="error", r=self._ask.r)
        self._write([ev.End(t=t, r=self._ask.r, finish=finish, detail=detail or self._detail, error=fault)])


def _named(event: ev.Event, detail: str, fault: ev.Fault | None) -> ev.Event:
    """An end that did not come by itself says why."""
    if isinstance(event, ev.End) and event.finish in ("cut", "error", "cancelled"):
        return msgspec.structs.replace(event, detail=detail, error=fault or event.error)
    return event


def _bytes(event: ev.Tok) -> bytes:
    """The text of a line as UTF-8, with the bytes that are no whole characters."""
    if event.b is None and isinstance(event.x, str):
        return event.x.encode("utf-8", "replace")
    pieces = event.x if isinstance(event.x, list) else [event.x]
    raw = event.b if isinstance(event.b, list) else [event.b] * len(pieces)
    parts: list[bytes] = []
    for piece, encoded in zip(pieces, raw, strict=False):
        if encoded:
            parts.append(base64.b64decode(encoded))
        elif isinstance(piece, str):
            parts.append(piece.encode("utf-8", "replace"))
    return b"".join(parts)
