"""Reads the header of a GGUF file: its metadata and the table of its tensors, never their data.

Any version (1 to 3, either byte order), whole or in parts (``-00001-of-0000N.gguf``). Long arrays, such as a vocabulary, are
skipped without being decoded. A file is not to be trusted: each length and count is bounded by what the file can hold and by
what a model can need, so that a torn or lying one ends in one `GgufError`, in bounded time and memory.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from phasetop.gguf_window import NUMBERS, SIZES, GgufError, Window
from phasetop.tensor_types import BY_NUMBER

__all__ = ["GgufError", "Header", "Skipped", "Tensor", "item_text", "read_header"]

Value: TypeAlias = int | float | bool | str | tuple[int, ...] | tuple[float, ...] | tuple[bool, ...]

MAX_KEYS: Final = 16_384
MAX_TENSORS: Final = 65_536
MAX_KEY_BYTES: Final = 65_535
MAX_NAME_BYTES: Final = 255
MAX_PARTS: Final = 1024
MAX_STRINGS: Final = 4_000_000
"""Strings in arrays, all together: the largest vocabulary with its merges has under one million."""
MAX_ARRAY: Final = 2**31
KEPT_ARRAY: Final = 4096
"""Numbers in arrays of up to this length are read; they are one a layer."""
KEPT_NUMBERS: Final = 65_536
KEPT_TEXT_BYTES: Final = 1 << 20
KEPT_TEXTS_BYTES: Final = 8 << 20
"""A longer text is passed over; more text than this together is no model's."""
MAX_DIMENSION: Final = 2**44

_MAGIC: Final = b"GGUF"
_STRING, _ARRAY = 8, 9
_PART: Final = re.compile(r"(?P<stem>.+)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: dimensions as ggml has them, the fastest first. ``size_bytes`` None: a type that is not known here."""

    name: str
    shape: tuple[int, ...]
    type: str
    size_bytes: int | None

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n


@dataclass(frozen=True, slots=True)
class Skipped:
    """An array that was passed over: how many elements, whether they are strings, where its first one lies in the file."""

    count: int
    strings: bool
    offset: int


@dataclass(frozen=True, slots=True)
class Header:
    """What the header of a model says.

    Attributes:
        version: of the format.
        values: metadata by key; arrays of numbers as tuples.
        skipped: the arrays that were passed over, by key.
        tensors: of all parts, in their order.
        files: the parts, the one with the metadata first.
        file_bytes: their sizes together.
        missing_bytes: how much of the tensors' data the files lack (a header that was cut off, an unfinished download).

    """

    version: int
    big_endian: bool
    values: Mapping[str, Value]
    skipped: Mapping[str, Skipped]
    tensors: tuple[Tensor, ...]
    files: tuple[Path, ...]
    file_bytes: int
    missing_bytes: int = 0

    def text(self, key: str) -> str | None:
        """A value that is a text."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def number(self, key: str) -> int | None:
        """A value that is a whole number."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_header(path: str | os.PathLike[str]) -> Header:
    """The header of the model that a file is, or is a part of.

    Raises:
        GgufError: it cannot be read, is no GGUF file, or lies; or a part of it is not there.
    """
    path = Path(path)
    first = _read_part(path)
    count = first.number("split.count") or 1
    named = _PART.fullmatch(path.name)
    if count <= 1 or named is None:
        if count > 1:
            raise GgufError(
                f"{path.name}: it says that it is one of {count} parts, but is not named NAME-00001-of-{count:05}.gguf"
            )
        return first
    if count > MAX_PARTS or int(named["count"]) != count:
        raise GgufError(f"{path.name}: it says that it is one of {count} parts, and its name says {int(named['count'])}")
    parts = []
    for no in range(1, count + 1):
        part = path.with_name(f"{named['stem']}-{no:05}-of-{count:05}{path.suffix}")
        if not part.exists():
            raise GgufError(f"{part.name}: this part of the model is not beside the others")
        read = first if part == path else _read_part(part)
        if (read.number("split.no") or 0) != no - 1 or (read.number("split.count") or 0) != count:
            raise GgufError(f"{part.name}: it says that it is part {(read.number('split.no') or 0) + 1}")
        parts.append(read)
    return _joined(parts)


def item_text(header: Header, key: str, index: int) -> str | None:
    """One string of an array that was passed over, e.g. a token of the vocabulary; None where there is none.

    Raises:
        GgufError: the file is not what it was when its header was read.
    """
    array = header.skipped.get(key)
    if array is None or not array.strings or not 0 <= index < array.count:
        return None
    path = header.files[0]
    try:
        with path.open("rb") as file:
            window = Window(file, path.name, os.fstat(file.fileno()).st_size, header.version, big=header.big_endian)
            window.skip(array.offset)
            window.skip_strings(index)
            return window.text(window.length())
    except OSError as error:
        raise GgufError(f"{path.name}: {(error.strerror or str(error)).lower()}") from None


def _joined(parts: Sequence[Header]) -> Header:
    first = parts[0]
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    said = first.number("split.tensors.count")
    if said is not None and said != len(tensors):
        raise GgufError(f"{first.files[0].name}: it says that its parts have {said} tensors, and they have {len(tensors)}")
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise GgufError(f"{first.files[0].name}: two of its parts have a tensor of the same name")
    return Header(
        version=first.version,
        big_endian=first.big_endian,
        values=first.values,
        skipped=first.skipped,
        tensors=tensors,
        files=tuple(part.files[0] for part in parts),
        file_bytes=sum(part.file_bytes for part in parts),
        missing_bytes=sum(part.missing_bytes for part in parts),
    )


def _read_part(path: Path) -> Header:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise GgufError(f"{path.name}: it is no regular file")
        with path.open("rb") as file:
            return _parse(file, path, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise GgufError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:  # a name that no file can have
        raise GgufError(f"{path}: {error}") from None


def _parse(file: BinaryIO, path: Path, size: int) -> Header:
    version, big = _version(file.read(8), path.name)
    window = Window(file, path.name, size, version, big=big)
    window.skip(8)
    n_tensors, n_keys = window.length(), window.length()
    if n_keys > MAX_KEYS or n_keys * 13 > size:
        raise window.lie(f"it says that it has {n_keys:,} keys")
    if n_tensors > MAX_TENSORS or n_tensors * 24 > size:
        raise window.lie(f"it says that it has {n_tensors:,} tensors")
    values: dict[str, Value] = {}
    skipped: dict[str, Skipped] = {}
    budget = _Budget()
    for n in range(n_keys):
        window.place = f"key {n + 1} of {n_keys}"
        key = window.name(MAX_KEY_BYTES)
        if key in values or key in skipped:
            raise window.lie(f"it has the key {key[:80]!r} twice")
        window.place = f"{key[:80]} (key {n + 1} of {n_keys})"
        read = _value(window, budget)
        if isinstance(read, Skipped):
            skipped[key] = read
        elif read is not None:
            values[key] = read
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
        raise window.lie(f"its alignment {alignment!r} is no power of two")
    tensors, data_bytes = _tensors(window, n_tensors, alignment)
    data_at = -(-window.at // alignment) * alignment
    return Header(
        version=version,
        big_endian=big,
        values=values,
        skipped=skipped,
        tensors=tensors,
        files=(path,),
        file_bytes=size,
        missing_bytes=max(0, data_at + data_bytes - size) if data_bytes else 0,
    )


def _version(start: bytes, name: str) -> tuple[int, bool]:
    """(version, big-endian): the version is a small number in one of the two byte orders."""
    if start[:4] != _MAGIC:
        raise GgufError(f"{name}: it is no GGUF file")
    if len(start) < 8:
        raise GgufError(f"{name}: it ends in its first eight bytes")
    little, big = int.from_bytes(start[4:], "little"), int.from_bytes(start[4:], "big")
    version = little if little & 0xFFFF else big
    if not 1 <= version <= 3:
        raise GgufError(f"{name}: GGUF version {min(little, big):,} is not known here (1 to 3 are)")
    return version, version != little


def _tensors(window: Window, count: int, alignment: int) -> tuple[tuple[Tensor, ...], int]:
    """The table of tensors, and how many bytes of data they say there are."""
    tensors: list[Tensor] = []
    names: set[str] = set()
    end = 0
    for n in range(count):
        window.place = f"tensor {n + 1} of {count}"
        name = window.name(MAX_NAME_BYTES)
        if name in names:
            raise window.lie(f"it has the tensor {name!r} twice")
        names.add(name)
        n_dimensions = window.u32()
        if n_dimensions > 4:
            raise window.lie(f"the tensor {name!r} has {n_dimensions:,} dimensions")
        shape = tuple(window.length() for _ in range(n_dimensions))
        number, offset = window.u32(), window.u64()
        if number > 1000:
            raise window.lie(f"the tensor {name!r} is of type {number:,}")
        elements = 1
        for extent in shape:
            elements *= extent
        if elements > MAX_DIMENSION or any(extent > MAX_DIMENSION for extent in shape):
            raise window.lie(f"the tensor {name!r} has {elements:,} elements")
        if offset % alignment or offset > 2**60:
            raise window.lie(f"the tensor {name!r} lies at {offset:,}, which is no multiple of {alignment}")
        kind = BY_NUMBER.get(number)
        size = None
        if kind is not None and shape:
            try:
                size = kind.row_bytes(shape[0]) * (elements // shape[0] if shape[0] else 0)
            except ValueError as error:
                raise window.lie(f"the tensor {name!r}: {error}") from None
        elif kind is not None:
            size = kind.block_bytes if kind.block == 1 else None
        end = max(end, offset + (size or 0))
        tensors.append(Tensor(name, shape, kind.name if kind is not None else f"type {number}", size))
    return tuple(tensors), end


def _value(window: Window, budget: _Budget) -> Value | Skipped | None:
    """The value that comes next; None for a text that is too long to keep."""
    kind = window.u32()
    if kind == _STRING:
        length = window.length()
        if length > KEPT_TEXT_BYTES:
            window.skip(length)
            return None
        budget.texts_bytes -= length
        if budget.texts_bytes < 0:
            raise window.lie("it has more text than any model")
        return window.text(length)
    if kind != _ARRAY:
        if kind not in NUMBERS:
            raise window.lie(f"a value of type {kind:,}")
        return window.numbers(kind, 1)[0]
    item, count = window.u32(), window.length()
    if item == _STRING:
        budget.strings -= count
        if budget.strings < 0 or count * window.length_bytes > window.size - window.at:
            raise window.lie(f"it says that it has {count:,} strings")
        skipped = Skipped(count, True, window.at)
        window.skip_strings(count)
        return skipped
    if item not in NUMBERS:
        raise window.lie(f"an array of type {item:,}")
    if count > MAX_ARRAY or count * SIZES[item] > window.size - window.at:
        raise window.lie(f"it says that it has {count:,} numbers")
    if count > KEPT_ARRAY or count > budget.numbers:
        skipped = Skipped(count, False, window.at)
        window.skip(count * SIZES[item])
        return skipped
    budget.numbers -= count
    return window.numbers(item, count)


@dataclass(slots=True)
class _Budget:
    """How much may still be kept."""

    strings: int = MAX_STRINGS
    numbers: int = KEPT_NUMBERS
    texts_bytes: int = KEPT_TEXTS_BYTES
