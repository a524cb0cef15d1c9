"""Fetching a model from a server of our own: whole, resumed, cut, cancelled, refused, and with a token that stays home."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phasetop import model_store
from phasetop.backends import download
from phasetop.backends.download import DownloadCancelled, DownloadError, get
from phasetop.faults import UsageError

if TYPE_CHECKING:
    from tests.conftest import Home

pytestmark = pytest.mark.usefixtures("state_home")

MODEL = b"GGUF" + bytes(range(256)) * 4096
SHA256 = hashlib.sha256(MODEL).hexdigest()


@dataclass
class Hub:
    """A server with one model; what it does wrong is set by the test, what it was asked is written down."""

    url: str = ""
    body: bytes = MODEL
    etag: str | None = '"one"'
    ranges: bool = True
    status: int = 200
    fail_times: int = 0  # how often the status above is given; 0: always
    cut_after: int | None = None  # bytes sent before the connection is closed, once
    redirect: str | None = None
    linked_etag: str | None = None
    length: bool = True
    hold: threading.Event | None = None  # waits for it after half of the body
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def header(self, name: str) -> list[str | None]:
        """That header in each request so far."""
        return [headers.get(name) for _, headers in self.asked]


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        hub = self.hub
        hub.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        if hub.redirect is not None:
            self.send_response(302)
            self.send_header("Location", hub.redirect)
            if hub.linked_etag:
                self.send_header("X-Linked-Etag", f'"{hub.linked_etag}"')
            self.end_headers()
            return
        if hub.status != 200 and (hub.fail_times == 0 or len(hub.asked) <= hub.fail_times):
            self.send_error(hub.status)
            return
        body, start = hub.body, 0
        wanted, valid = self.headers.get("Range"), self.headers.get("If-Range") in (None, hub.etag)
        if wanted and hub.ranges and valid:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if hub.etag:
            self.send_header("ETag", hub.etag)
        if hub.length:
            self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        rest = body[start:]
        if hub.cut_after is not None:
            rest, hub.cut_after = rest[: hub.cut_after], None
        try:
            if hub.hold is not None:
                self.wfile.write(rest[: len(rest) // 2])
                self.wfile.flush()
                hub.hold.wait(30)
                rest = rest[len(rest) // 2 :]
            self.wfile.write(rest)
        except OSError:
            pass
        self.close_connection = True


@pytest.fixture
def serve() -> Iterator[Callable[..., Hub]]:
    """Start hubs; each is on another port, so another origin."""
    servers: list[ThreadingHTTPServer] = []
    hubs: list[Hub] = []

    def start(**behaviour: Any) -> Hub:
        hub = Hub(**behaviour)
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": hub}))
        server.daemon_threads = False
        hub.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        servers.append(server)
        hubs.append(hub)
        return hub

    try:
        yield start
    finally:
        for hub in hubs:
            if hub.hold is not None:
                hub.hold.set()
        for server in servers:
            server.shutdown()
            server.server_close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_PAUSE_S", 0.0)


def parts(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.part"))


def test_whole(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve()
    seen: list[tuple[int, int | None]] = []
    path = get(f"{hub.url}/m/Tiny.gguf", on_progress=lambda *a: seen.append(a), folder=tmp_path)
    assert path.name == "Tiny.gguf"
    assert path.read_bytes() == MODEL
    assert seen[0] == (0, len(MODEL))
    assert seen[-1] == (len(MODEL), len(MODEL))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert [file.name for file in path.parent.iterdir()] == ["Tiny.gguf"]
    assert hub.header("accept-encoding") == ["identity"]


def test_what_is_here_is_not_asked_for(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve()
    assert get(f"{hub.url}/m.gguf", folder=tmp_path) == get(f"{hub.url}/m.gguf", folder=tmp_path)
    assert len(hub.asked) == 1


def test_cut_in_the_middle_goes_on_from_there(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve(cut_after=300_000)
    assert get(f"{hub.url}/m.gguf", folder=tmp_path).read_bytes() == MODEL
    assert hub.header("range") == [None, "bytes=300000-"]
    assert hub.header("if-range") == [None, '"one"']


def cancelled_half_way(hub: Hub, folder: Path, spec: str | None = None) -> Path:
    """Fetch until half is here, then cancel; the part. From here on the server holds nothing back."""
    done: list[int] = []
    with pytest.raises(DownloadCancelled, match="goes on from there"):
        get(
            spec or f"{hub.url}/m.gguf",
            on_progress=lambda n, _: done.append(n),
            cancelled=lambda: done[-1:] >= [1],
            folder=folder,
        )
    assert hub.hold is not None
    hub.hold.set()
    (part,) = parts(folder)
    return part


def test_cancel_then_resume(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve(hold=threading.Event())
    part = cancelled_half_way(hub, tmp_path)
    have = part.stat().st_size
    assert 0 < have < len(MODEL)
    assert part.read_bytes() == MODEL[:have]
    assert get(f"{hub.url}/m.gguf", folder=tmp_path).read_bytes() == MODEL
    assert hub.header("range") == [None, f"bytes={have}-"]


def test_cancel_ends_a_read_that_waits(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve(hold=threading.Event())
    cancel = threading.Event()

    def progress(done: int, total: int | None) -> None:
        if done >= len(MODEL) // 2:
            threading.Timer(0.05, cancel.set).start()  # the server says nothing more from here on

    with pytest.raises(DownloadCancelled):
        get(f"{hub.url}/m.gguf", on_progress=progress, cancelled=cancel.is_set, folder=tmp_path)
    assert hub.hold is not None
    assert not hub.hold.is_set()


def test_a_file_that_changed_is_fetched_from_the_start(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve(hold=threading.Event())
    cancelled_half_way(hub, tmp_path)
    hub.etag, hub.body = '"two"', b"GGUF" + MODEL[::-1]
    assert get(f"{hub.url}/m.gguf", folder=tmp_path).read_bytes() == hub.body


@pytest.mark.parametrize("etag", ['"one"', None, 'W/"weak"'])
def test_server_without_ranges(serve: Callable[..., Hub], tmp_path: Path, etag: str | None) -> None:
    hub = serve(ranges=False, cut_after=300_000, etag=etag)
    assert get(f"{hub.url}/m.gguf", folder=tmp_path).read_bytes() == MODEL
    assert len(hub.asked) == 2


def test_a_part_that_is_whole_already(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve(hold=threading.Event())
    part = cancelled_half_way(hub, tmp_path)
    part.write_bytes(MODEL)  # killed between the last byte and the rename
    assert get(f"{hub.url}/m.gguf", folder=tmp_path).read_bytes() == MODEL
    assert not parts(tmp_path)


def test_a_server_that_never_gets_further(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve(status=503)
    with pytest.raises(DownloadError, match="the server answered 503"):
        get(f"{hub.url}/m.gguf", folder=tmp_path)
    assert len(hub.asked) == 4


def test_a_busy_server_is_asked_again(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve(status=429, fail_times=2)
    assert get(f"{hub.url}/m.gguf", folder=tmp_path).read_bytes() == MODEL


@pytest.mark.parametrize(
    ("status", "says"), [(404, "there is no such file"), (401, "it wants a login"), (403, "access refused"), (418, "418")]
)
def test_refusals(serve: Callable[..., Hub], tmp_path: Path, status: int, says: str) -> None:
    hub = serve(status=status)
    with pytest.raises(DownloadError, match=says) as caught:
        get(hub.url.replace("://", "://me:hush@") + "/m.gguf?key=hush", folder=tmp_path)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(hub.asked) == 1


def test_nobody_there(free_port: int, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"cannot reach http://127\.0\.0\.1:\d+/m\.gguf: Connection refused"):
        get(f"http://127.0.0.1:{free_port}/m.gguf", folder=tmp_path)


def test_a_page_is_no_model(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve(body=b"<html>please log in</html>" * 1000)
    with pytest.raises(DownloadError, match="no GGUF file"):
        get(f"{hub.url}/m.gguf", folder=tmp_path)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


# The hub: checksums and the token.


def as_hub(hub: Hub, monkeypatch: pytest.MonkeyPatch, token: str | None = None) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)


def test_hub_checksum_holds(serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store = serve()
    hub = serve(redirect=f"{store.url}/cas/1", linked_etag=SHA256)
    as_hub(hub, monkeypatch)
    path = get("hf:Some/Repo/m.gguf", folder=tmp_path)
    assert path.read_bytes() == MODEL
    assert hub.asked[0][0] == "/Some/Repo/resolve/main/m.gguf"


@pytest.mark.parametrize("where", ["linked", "etag"])
def test_hub_checksum_that_is_wrong(
    serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    wrong = "0" * 64
    store = serve()
    hub = serve(redirect=f"{store.url}/x", linked_etag=wrong) if where == "linked" else serve(etag=f'"{wrong}"')
    as_hub(hub, monkeypatch)
    with pytest.raises(DownloadError, match=f"its sha256 is {SHA256[:12]}….*removed"):
        get("hf:Some/Repo/m.gguf", folder=tmp_path)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_a_rotten_part_is_fetched_again(serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = serve(etag=f'"{SHA256}"', hold=threading.Event())
    as_hub(hub, monkeypatch)
    part = cancelled_half_way(hub, tmp_path, "hf:Some/Repo/m.gguf")
    part.write_bytes(b"GGUF" + b"\0" * (part.stat().st_size - 4))
    assert get("hf:Some/Repo/m.gguf", folder=tmp_path).read_bytes() == MODEL


def test_another_hosts_etag_is_no_checksum(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve(etag='"' + "0" * 64 + '"')
    assert get(f"{hub.url}/m.gguf", folder=tmp_path).read_bytes() == MODEL


def test_token_stays_with_the_hub(serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store = serve()
    hub = serve(redirect=f"{store.url}/signed?key=hush")
    as_hub(hub, monkeypatch, token="hf_secret")
    get("hf:Some/Repo/m.gguf", folder=tmp_path)
    assert hub.header("authorization") == ["Bearer hf_secret"]
    assert store.header("authorization") == [None]
    assert not any("hf_secret" in str(file.read_bytes()[:4096]) for file in tmp_path.rglob("*") if file.is_file())


def test_token_goes_to_no_other_host(serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    other = serve()
    get(f"{other.url}/m.gguf", folder=tmp_path)
    assert other.header("authorization") == [None]


def test_userinfo_stays_with_its_host(serve: Callable[..., Hub], tmp_path: Path) -> None:
    store = serve()
    first = serve(redirect=f"{store.url}/m.gguf")
    get(first.url.replace("://", "://me:hush@") + "/m.gguf", folder=tmp_path)
    assert first.header("authorization") != [None]
    assert store.header("authorization") == [None]


def test_hub_asks_for_a_token(serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = serve(status=401)
    as_hub(hub, monkeypatch)
    with pytest.raises(DownloadError, match="set HF_TOKEN"):
        get("hf:Some/Repo/m.gguf", folder=tmp_path)


def test_redirect_in_a_circle(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve(redirect="/again?key=hush")
    with pytest.raises(DownloadError, match="redirects too often") as caught:
        get(f"{hub.url}/m.gguf", folder=tmp_path)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/m.gguf"])
def test_redirect_to_nowhere_good(serve: Callable[..., Hub], tmp_path: Path, target: str) -> None:
    hub = serve(redirect=target)
    with pytest.raises(DownloadError, match="redirects to"):
        get(f"{hub.url}/m.gguf", folder=tmp_path)


def test_known_model_of_another_size(serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    as_hub(serve(), monkeypatch)
    with pytest.raises(DownloadError, match="it is another file"):
        get("smollm2", folder=tmp_path)


# Names, disks, and two at once.


def test_hostile_names_stay_in_the_folder(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve()
    for path in ("/..%2f..%2fetc%2fx.gguf", "/a/../../y.gguf", "/%2e%2e", "/z%1b%5b31m.gguf"):
        found = get(hub.url + path, folder=tmp_path / "models")
        assert found.resolve().is_relative_to(tmp_path / "models")
        assert found.name.isprintable()
    assert {entry.name for entry in tmp_path.iterdir()} <= {"models", "home"}  # home: the fixture's


def test_full_disk(serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = serve()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(DownloadError, match=r"the disk is full at .*0\.00 GB more"):
        get(f"{hub.url}/m.gguf", folder=tmp_path)


def test_disk_that_fills_on_the_way(serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_room(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    hub = serve()
    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(DownloadError, match="what came is kept"):
        get(f"{hub.url}/m.gguf", folder=tmp_path)
    assert parts(tmp_path)


def test_no_permission(serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*a: Any, **k: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(DownloadError, match=r"cannot write to .*; XDG_CACHE_HOME"):
        get("http://127.0.0.1:9/m.gguf", folder=tmp_path)


def test_two_at_once_fetch_it_once(serve: Callable[..., Hub], tmp_path: Path) -> None:
    hub = serve(hold=threading.Event())
    waiting = threading.Event()
    found: list[Path] = []

    def second(done: int, total: int | None) -> None:
        waiting.set()

    def fetch(progress: Callable[[int, int | None], None]) -> None:
        found.append(get(f"{hub.url}/m.gguf", on_progress=progress, folder=tmp_path))

    started = threading.Event()
    threads = [threading.Thread(target=fetch, args=(lambda *_: started.set(),))]
    threads[0].start()
    assert started.wait(10)
    threads.append(threading.Thread(target=fetch, args=(second,)))
    threads[1].start()
    assert waiting.wait(10)  # it is told how far the first one is
    assert hub.hold is not None
    hub.hold.set()
    for thread in threads:
        thread.join(20)
    assert len(hub.asked) == 1
    assert found[0] == found[1]
    assert found[0].read_bytes() == MODEL


def test_by_default_it_becomes_a_fetched_model(serve: Callable[..., Hub], state_home: Home) -> None:
    path = get(f"{serve().url}/Tiny.gguf")
    assert path.is_relative_to(state_home.cache)
    assert model_store.find("tiny") == path


def test_nonsense_is_a_wrong_usage() -> None:
    with pytest.raises(UsageError, match="smollm2"):
        get("llama99:8b")
