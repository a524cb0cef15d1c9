"""Fetching a model: one file over HTTP, resumed where it was cut, checked, and in place only when it is whole.

What came so far lies beside the file as ``.part`` (with what is needed to go on in ``.part.json``), also after a cancel or
a cut. This is the one place in phasetop that follows redirects: hubs send downloads to other hosts. The hub's token
(HF_TOKEN) goes to the hub alone, whatever it redirects to.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import httpx

from phasetop import __version__, model_store
from phasetop.backends.file_lock import alone
from phasetop.faults import EXIT_INTERRUPTED, PhasetopError
from phasetop.model_store import Source, shown_url

Progress = Callable[[int, int | None], None]
"""Told (bytes that are here, bytes in all or None)."""

MAGIC: Final = b"GGUF"
_HOPS: Final = 8
_TRIES: Final = 4
_PAUSE_S: Final = 0.5
_TIMEOUT: Final = httpx.Timeout(10.0, read=30.0)
_SPARE_BYTES: Final = 16 << 20  # a disk is never filled to its last byte


class DownloadError(PhasetopError):
    """It did not come; the text is one plain line."""


class DownloadCancelled(DownloadError):
    """Somebody cancelled it; what came is kept."""

    exit_status = EXIT_INTERRUPTED


class _Cut(Exception):
    """The connection broke; going on may help."""


class _Changed(Exception):
    """What is here belongs to another file than the server has now: start over."""


def get(
    spec: str,
    *,
    on_progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    folder: Path | None = None,
) -> Path:
    """Fetch a model and return its file; one that is here already is returned at once.

    Args:
        spec: what `model_store.source` reads.
        on_progress: told how much is here, often.
        cancelled: asked often; True ends the download.
        folder: None: the models folder.

    Raises:
        UsageError: ``spec`` is nothing that could be fetched.
        DownloadCancelled: ``cancelled`` said so; the same call goes on from there.
        DownloadError: it did not come; why, in one line.

    """
    source = model_store.source(spec, folder=folder)
    return _Download(source, on_progress or (lambda *_: None), cancelled or (lambda: False)).run()


class _Download:
    """One file on its way."""

    def __init__(self, source: Source, on_progress: Progress, cancelled: Callable[[], bool]) -> None:
        self.source = source
        self.on_progress = on_progress
        self.cancelled = cancelled
        self.part = source.path.with_name(source.path.name + ".part")
        self.about = source.path.with_name(source.path.name + ".part.json")
        self.sha256 = source.sha256
        self.total = source.file_bytes
        self.at = source.url  # where the redirects led
        self.resumed = False
        self.began = False

    def run(self) -> Path:
        path = self.source.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with alone(path, self._wait_turn):
                if path.is_file():
                    return path
                self._fetch()
                os.replace(self.part, path)
                self.about.unlink(missing_ok=True)
        except OSError as error:
            self._explain(error)
        return path

    def _wait_turn(self) -> None:
        """Another process fetches the same file: show how far it is."""
        self._check_cancelled()
        try:
            self.on_progress(self.part.stat().st_size, self.total)
        except OSError:
            pass
        time.sleep(0.1)

    def _fetch(self) -> None:
        """Try until the part is whole and right; a try that brought something is followed by another."""
        tries = 0
        while True:
            before = self._size()
            try:
                with _client() as client:
                    self._attempt(client)
                self._check_whole()
                return
            except _Changed:
                self._discard()
                tries += 1
            except _Cut as cut:
                tries = 0 if self._size() > before else tries + 1
                if tries >= _TRIES:
                    raise DownloadError(self._cut_line(str(cut))) from None
            if tries >= _TRIES:
                raise DownloadError(f"{shown_url(self.source.url)} changes while it is fetched; try again later")
            self._pause(tries)

    def _attempt(self, client: httpx.Client) -> None:
        """One request, from where the part ends."""
        have = self._size()
        headers, known = {}, self._read_about()
        if have and (known.get("validator") or self.sha256):
            headers["Range"] = f"bytes={have}-"
            if validator := known.get("validator"):
                headers["If-Range"] = validator
        else:
            have = 0
        try:
            with self._open(client, headers) as response:
                self._check_status(response)
                if response.status_code == 416:
                    self._judge_416(response, have)
                    return
                start = _range_start(response) if response.status_code == 206 else 0
                if start not in (0, have):
                    raise _Changed
                self.began, self.resumed = True, start > 0
                self._set_total(response, start)
                self._write_about(response)
                self._receive(response, start)
        except httpx.TransportError as error:
            self._check_cancelled()
            why = _plain_transport_error(error, self.at)
            if isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol) and not self.began:
                raise DownloadError(why) from None  # it was never there: waiting helps nobody
            raise _Cut(why) from error

    @contextmanager
    def _open(self, client: httpx.Client, headers: dict[str, str]) -> Iterator[httpx.Response]:
        """The answer at the end of the redirects; the hub's token goes to the hub only."""
        url = self.source.url
        token = os.environ.get("HF_TOKEN", "").strip()
        for _ in range(_HOPS):
            self.at = url
            self._check_cancelled()
            own = {"Authorization": f"Bearer {token}"} if token and model_store.origin(url) == self.source.hub else {}
            try:
                request = client.build_request("GET", url, headers={**headers, **own})
            except (httpx.InvalidURL, UnicodeError, ValueError):
                raise DownloadError(f"{shown_url(url)} is no URL that can be asked") from None
            response = client.send(request, stream=True)
            try:
                self._learn_checksum(response, url)
                if not response.is_redirect:
                    with _shut_when(self.cancelled, response):
                        yield response
                    return
                target = str(response.url.join(response.headers["location"]))
            except httpx.InvalidURL:
                raise DownloadError(f"{shown_url(url)} redirects to nowhere") from None
            finally:
                response.close()
            if not target.startswith(("https://", "http://")) or (
                url.startswith("https://") and target.startswith("http://")
            ):
                raise DownloadError(f"{shown_url(url)} redirects to {shown_url(target)}, which is not safe to follow")
            url = target
        raise DownloadError(f"{shown_url(self.source.url)} redirects too often")

    def _learn_checksum(self, response: httpx.Response, url: str) -> None:
        """A hub tells the sha256 of its large files: as the linked etag, or as the etag."""
        if self.source.hub is None or self.source.sha256 is not None or model_store.origin(url) != self.source.hub:
            return
        for header in ("x-linked-etag", "etag"):
            etag = response.headers.get(header, "").removeprefix("W/").strip('"')
            if re.fullmatch(r"[0-9a-f]{64}", etag):
                if self.sha256 not in (None, etag) and self._size():
                    raise _Changed
                self.sha256 = etag
                return

    def _check_status(self, response: httpx.Response) -> None:
        status, url = response.status_code, shown_url(self.source.url)
        if status in (200, 206, 416):
            return
        if status in (401, 403):
            hint = "set HF_TOKEN to a token that may read it" if self.source.hub else "it wants a login"
            raise DownloadError(f"{url}: access refused ({status}); {hint}")
        if status in (404, 410):
            raise DownloadError(f"{url}: there is no such file ({status})")
        if status == 429 or status >= 500:
            raise _Cut(f"the server answered {status}")
        raise DownloadError(f"{url}: the server answered {status}")

    def _judge_416(self, response: httpx.Response, have: int) -> None:
        """Nothing after what is here: it is whole, or it is something else."""
        match = re.fullmatch(r"bytes \*/(\d+)", response.headers.get("content-range", ""))
        if match is None or int(match[1]) != have:
            raise _Changed
        self.total = have

    def _set_total(self, response: httpx.Response, start: int) -> None:
        length = response.headers.get("content-length", "")
        match = re.fullmatch(r"bytes \d+-\d+/(\d+)", response.headers.get("content-range", ""))
        total = int(match[1]) if match else start + int(length) if length.isdigit() else None
        if self.source.file_bytes is not None and total not in (None, self.source.file_bytes):
            text = f"has {total:,} bytes where {self.source.file_bytes:,} were expected"
            raise DownloadError(f"{shown_url(self.source.url)} {text}: it is another file")
        self.total = total if total is not None else self.total
        if self.total is not None:
            free = shutil.disk_usage(self.part.parent).free
            if self.total - start + _SPARE_BYTES > free:
                raise OSError(errno.ENOSPC, "")

    def _receive(self, response: httpx.Response, start: int) -> None:
        done = start
        with open(self.part, "r+b" if start else "wb") as file:
            file.truncate(start)
            file.seek(start)
            self.on_progress(done, self.total)
            for chunk in response.iter_raw():
                file.write(chunk)
                if done < len(MAGIC) <= done + len(chunk):
                    file.flush()
                    self._check_magic()
                done += len(chunk)
                self.on_progress(done, self.total)
                self._check_cancelled()
            file.flush()
            os.fsync(file.fileno())
        self._check_cancelled()  # a reply without a length ends quietly when it is shut
        if self.total is not None and done < self.total:
            raise _Cut("the connection was closed too early")

    def _check_magic(self) -> None:
        with open(self.part, "rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                return
        self._discard()
        raise DownloadError(f"{shown_url(self.source.url)} is no GGUF file (a page, perhaps): nothing was kept")

    def _check_whole(self) -> None:
        self._check_magic()
        if self.sha256 is None:
            return
        digest = hashlib.sha256()
        with open(self.part, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
                self._check_cancelled()
        if digest.hexdigest() != self.sha256:
            if self.resumed:
                raise _Changed
            self._discard()
            text = f"what came is not the file that was expected (its sha256 is {digest.hexdigest()[:12]}…,"
            raise DownloadError(f"{text} not {self.sha256[:12]}…): it was removed; try again")

    def _check_cancelled(self) -> None:
        if self.cancelled():
            raise DownloadCancelled("cancelled; the same command goes on from there")

    def _pause(self, tries: int) -> None:
        end = time.monotonic() + _PAUSE_S * 2**tries
        while time.monotonic() < end:
            self._check_cancelled()
            time.sleep(0.05)

    def _size(self) -> int:
        try:
            return self.part.stat().st_size
        except OSError:
            return 0

    def _discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.about.unlink(missing_ok=True)

    def _read_about(self) -> dict[str, Any]:
        try:
            about = json.loads(self.about.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return about if isinstance(about, dict) else {}

    def _write_about(self, response: httpx.Response) -> None:
        """What tells, when this is resumed, whether the server still has the same file (a weak etag does not)."""
        etag = response.headers.get("etag", "")
        validator = etag if etag.startswith('"') else response.headers.get("last-modified")
        self.about.write_text(json.dumps({"validator": validator, "total": self.total}), encoding="utf-8")

    def _cut_line(self, why: str) -> str:
        have, total = self._size(), self.total
        kept = f"; {have:,}{f' of {total:,}' if total else ''} bytes are kept, and the same command goes on" if have else ""
        return f"{why}{kept}"

    def _explain(self, error: OSError) -> NoReturn:
        folder = self.source.path.parent
        if error.errno == errno.ENOSPC:
            need = "" if self.total is None else f" ({(self.total - self._size()) / 1e9:.2f} GB more are needed)"
            raise DownloadError(f"the disk is full at {folder}{need}; what came is kept") from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise DownloadError(f"cannot write to {folder}; XDG_CACHE_HOME can name another place") from None
        raise DownloadError(f"cannot write {self.source.path.name} in {folder}: {error.strerror or error}") from None


def _client() -> httpx.Client:
    """Redirects are followed by hand; the environment's proxy counts: this goes out to the world."""
    headers = {"Accept-Encoding": "identity", "User-Agent": f"phasetop/{__version__}"}
    return httpx.Client(follow_redirects=False, timeout=_TIMEOUT, headers=headers)


def _range_start(response: httpx.Response) -> int:
    match = re.match(r"bytes (\d+)-", response.headers.get("content-range", ""))
    return int(match[1]) if match else -1


def _plain_transport_error(error: httpx.TransportError, url: str) -> str:
    where = shown_url(url)
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
        why = re.sub(r"^\[Errno -?\d+\] ", "", str(error))
        return f"cannot reach {where}" + (f": {why}" if why else "")
    if isinstance(error, httpx.ReadTimeout):
        return f"{where}: nothing came for {_TIMEOUT.read:.0f} s"
    if isinstance(error, httpx.UnsupportedProtocol | httpx.ProxyError):
        return f"{where}: {error}"
    return f"{where}: the connection broke"


@contextmanager
def _shut_when(cancelled: Callable[[], bool], response: httpx.Response) -> Iterator[None]:
    """End a blocked read as soon as ``cancelled`` says so: a thread shuts the socket down."""
    over = threading.Event()
    stream = response.extensions.get("network_stream")
    sock: Any = stream.get_extra_info("socket") if stream else None

    def watch() -> None:
        while not over.wait(0.05):
            if cancelled():
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                return

    watcher = threading.Thread(target=watch, daemon=True)
    if sock is not None:
        watcher.start()
    try:
        yield
    finally:
        over.set()
        if sock is not None:
            watcher.join()
