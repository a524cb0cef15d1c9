"""Names of models: how one that a person typed is read, and how one that a server gave is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from msgspec import Struct

from phasetop.faults import UsageError

_IPV4 = r"\d{1,3}(?:\.\d{1,3}){3}"
_ADDRESS = re.compile(
    rf"(?:localhost|{_IPV4}|\[[0-9a-fA-F:]+\])"  # a machine
    r"(?::\d{1,5}(?:/(?:v1|api)(?:/.*)?|/[^/]*)?)?"  # its port, and a path that servers have: no namespace/model
)
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")


class ModelArgument(Struct, frozen=True):
    """What the MODEL argument means: a server's URL, a file, a name, or nothing given."""

    kind: Literal["url", "file", "name", "none"]
    text: str = ""


def read_model_argument(text: str | None) -> ModelArgument:
    """Read MODEL in DESIGN's order: ``://`` → a URL; ``.gguf`` or an existing regular file → a file; else a name.

    Raises:
        UsageError: it has a space in it (a prompt without -p), is a folder, an address without http://, or no file is there.
    """
    if text is None or not text.strip():
        return ModelArgument("none")
    if "://" in text:
        return ModelArgument("url", text.strip())
    path = Path(text).expanduser()
    if text.lower().endswith(".gguf") or path.is_file():
        if not path.is_file():
            raise UsageError(f"{text}: no such file")
        return ModelArgument("file", str(path.resolve()))
    check_no_path(text)
    check_no_address(text)
    if any(char.isspace() for char in text):
        raise UsageError(f'a model\'s name has no spaces; for a prompt: -p "{text[:60]}"')
    return ModelArgument("name", text)


def check_no_path(text: str) -> None:
    """Refuse what is meant as a path, where no file is: no server has a model of such a name.

    Raises:
        UsageError: it is a folder, or nothing is there.
    """
    if text.startswith(("/", "./", "../", "~")) or text in (".", ".."):
        is_folder = Path(text).expanduser().is_dir()
        raise UsageError(f"{text} is a folder: a model is a .gguf file" if is_folder else f"{text}: no such file")


def check_no_address(text: str) -> None:
    """Refuse a server's address without its ``http://``.

    ``box:8080`` may be a model's name and tag, ``127.0.0.1:5000/library/tiny`` one of Ollama's of a registry there: they
    are let through.

    Raises:
        UsageError: it is one.
    """
    if re.match(r"https?:", text):
        raise UsageError(f"{text[:80]} is no address: http://HOST:PORT is expected")
    if _ADDRESS.fullmatch(text):
        raise UsageError(f"{text[:80]}: a server's address begins with http://, so http://{text[:80]}")


def meant_otherwise(text: str) -> str:
    """What a name that no server has may be instead, as the end of a sentence ("; …"); "" where nothing suggests itself."""
    path = Path(text).expanduser()
    try:
        if path.is_dir():
            return f"; {text} is a folder here, a model is a .gguf file"
        files = [each.name for each in path.parent.iterdir() if each.name.lower().endswith(".gguf")]
    except OSError:
        return ""
    if re.fullmatch(r"[\w.-]+:\d{2,5}(?:/.*)?", text):
        return f"; if a server is meant: http://{text}"
    from difflib import get_close_matches

    close = get_close_matches(path.name, files, 1, 0.8)
    return f"; is {path.with_name(close[0])} meant?" if close else ""


def display_name(served: str) -> str:
    """A server's name for a model as it is shown: never a path, without .gguf and shard suffix where it is a file's."""
    name = served
    if name.lower().endswith(".gguf"):
        name = re.split(r"[/\\]", name)[-1][: -len(".gguf")]
        name = _SHARD.sub("", name)
    elif name.startswith(("/", "~", "./", "../")) or re.match(r"[A-Za-z]:\\", name):
        name = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    return name or "model"
