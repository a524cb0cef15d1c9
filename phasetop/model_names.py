"""Names of models: how one that a person typed is read, and how one that a server gave is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from msgspec import Struct

from phasetop.faults import UsageError

_SHARD = re.compile(r"-\d{5}-of-\d{5}$")


class ModelArgument(Struct, frozen=True):
    """What the MODEL argument means: a server's URL, a file, a name, or nothing given."""

    kind: Literal["url", "file", "name", "none"]
    text: str = ""


def read_model_argument(text: str | None) -> ModelArgument:
    """Read MODEL in DESIGN's order: ``://`` → a URL; ``.gguf`` or an existing regular file → a file; else a name.

    Raises:
        UsageError: it has a space in it (a prompt without -p), it is a folder, or the file is not there.
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


def display_name(served: str) -> str:
    """A server's name for a model as it is shown: never a path, without .gguf and shard suffix where it is a file's."""
    name = served
    if name.lower().endswith(".gguf"):
        name = re.split(r"[/\\]", name)[-1][: -len(".gguf")]
        name = _SHARD.sub("", name)
    elif name.startswith(("/", "~", "./", "../")) or re.match(r"[A-Za-z]:\\", name):
        name = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    return name or "model"
