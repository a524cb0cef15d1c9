"""Files of the kernel's, read with few system calls: the same bytes as Python's own files have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phasetop.backends import kernel_files


def test_a_file_of_many_pages_comes_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(range(256)) * 300)
    assert kernel_files.read(tmp_path / "f") == bytes(range(256)) * 300
    (tmp_path / "f").write_bytes(b"")
    assert kernel_files.read(tmp_path / "f") == b""


@pytest.mark.skipif(not os.path.exists("/proc/vmstat"), reason="Linux has it")
def test_what_the_kernel_writes_a_page_at_a_time_comes_whole() -> None:
    """The names in it do not change from one reading to the next."""
    names = [line.split()[0] for line in Path("/proc/vmstat").read_bytes().splitlines()]
    assert [line.split()[0] for line in kernel_files.read("/proc/vmstat").splitlines()] == names


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"1")
    before = os.dup(0)
    os.close(before)
    for _ in range(3):
        kernel_files.read(tmp_path / "f")
        assert kernel_files.number(tmp_path) is None  # a folder: it can be opened, and not read
        assert kernel_files.number(tmp_path / "g") is None
    after = os.dup(0)
    os.close(after)
    assert after == before


@pytest.mark.parametrize(
    ("text", "value"), [(b"12\n", 12), (b" -3 \n", -3), (b"max\n", None), (b"", None), (b"1 2\n", None), (b"0x1\n", None)]
)
def test_a_number_alone(tmp_path: Path, text: bytes, value: int | None) -> None:
    (tmp_path / "f").write_bytes(text)
    assert kernel_files.number(tmp_path / "f") == value


@pytest.mark.parametrize(
    ("name", "value"),
    [(b"a", 1), (b"in", 2), (b"pswpin", 7), (b"last", 9), (b"swpin", None), (b"las", None), (b"none", None)],
)
def test_a_number_behind_its_name(name: bytes, value: int | None) -> None:
    assert kernel_files.field(b"a 1\nin 2\nzpswpin 8\npswpin 7\nlast 9", name) == value


def test_a_name_without_a_number() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        kernel_files.field(b"a x\n", b"a")
