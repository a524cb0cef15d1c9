"""The reader of GGUF headers: what they say, in every version, in parts; and files that are torn or lie."""

from __future__ import annotations

import os
import struct
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasetop.gguf import GgufError, Header, item_text, read_header
from tests.core.gguf_writer import STRING, Gguf, small

HEADERS = sorted((Path(__file__).parents[1] / "data" / "kv" / "headers").glob("*.gguf"))


def read(path: Path, written: bytes) -> Header:
    path.write_bytes(written)
    return read_header(path)


@pytest.mark.parametrize(("version", "big"), [(1, False), (2, False), (3, False), (3, True)])
def test_a_header_of_every_version(tmp_path: Path, version: int, big: bool) -> None:
    header = read(tmp_path / "m.gguf", small(version=version, big=big).written())
    assert (header.version, header.big_endian) == (version, big)
    assert header.text("general.architecture") == "llama"
    assert header.number("llama.block_count") == 2
    assert header.values["llama.attention.head_count_kv"] == (2, 1)
    assert header.values["llama.flag"] is True
    assert header.values["llama.large"] == 2**40
    assert header.values["llama.rope.freq_base"] == 10000.0
    assert header.values["tokenizer.ggml.scores"] == (0.0, -1.0, -2.0)
    assert header.skipped["tokenizer.ggml.tokens"].count == 3
    assert [item_text(header, "tokenizer.ggml.tokens", n) for n in (-1, 0, 1, 2, 3)] == [None, "<s>", "</s>", "é", None]
    assert [(t.name, t.shape, t.type, t.size_bytes) for t in header.tensors] == [
        ("token_embd.weight", (64, 3), "F16", 384),  # 192 numbers of two bytes
        ("blk.0.attn_k.weight", (64, 32), "Q8_0", 2176),  # 2,048 numbers, 32 of them in 34 bytes
        ("output_norm.weight", (64,), "F32", 256),
    ]
    assert header.missing_bytes > 0  # the data of the tensors is not there


def test_the_headers_of_real_architectures() -> None:
    assert len(HEADERS) == 50
    for path in HEADERS:
        header = read_header(path)
        assert header.text("general.architecture")
        assert header.tensors
        assert all(tensor.size_bytes is not None for tensor in header.tensors)


def test_a_real_model_is_read_whole(small_model: Path) -> None:
    header = read_header(small_model)
    assert header.number("llama.block_count") == 30
    assert header.skipped["tokenizer.ggml.tokens"].count == 49152
    assert len(header.tensors) == 272
    assert sum(t.size_bytes or 0 for t in header.tensors) == 96_576_768  # what llama-server's /v1/models says: meta.size
    assert sum(t.elements for t in header.tensors) == 134_515_008  # meta.n_params
    assert header.file_bytes == small_model.stat().st_size
    assert header.missing_bytes == 0
    assert item_text(header, "tokenizer.ggml.tokens", 2) == "<|im_end|>"


@settings(max_examples=60)
@given(texts=st.lists(st.binary(max_size=90), max_size=900), at=st.integers(0, 899))
def test_strings_are_passed_over_exactly(tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], at: int) -> None:
    keys = [("tokenizer.ggml.tokens", (STRING,), texts), ("after", 4, 77)]
    header = read(tmp_path_factory.mktemp("strings") / "m.gguf", Gguf(keys=keys).written())
    assert header.number("after") == 77
    said = item_text(header, "tokenizer.ggml.tokens", at)
    assert said == (texts[at].decode("utf-8", "replace") if at < len(texts) else None)


def test_strings_longer_than_what_is_in_memory(tmp_path: Path) -> None:
    texts = ["a" * 300, "b" * (3 << 20), "c", *["d" * 5] * 600]
    keys = [("tokenizer.ggml.tokens", (STRING,), texts), ("after", 4, 77)]
    header = read(tmp_path / "m.gguf", Gguf(keys=keys).written())
    assert header.number("after") == 77
    assert item_text(header, "tokenizer.ggml.tokens", 2) == "c"


def test_long_arrays_and_texts_are_passed_over(tmp_path: Path) -> None:
    keys = [
        ("tokenizer.ggml.token_type", (5,), range(5000)),
        ("tokenizer.chat_template", STRING, "x" * (2 << 20)),
        ("after", 4, 77),
    ]
    header = read(tmp_path / "m.gguf", Gguf(keys=keys).written())
    assert header.number("after") == 77
    assert header.skipped["tokenizer.ggml.token_type"].count == 5000
    assert header.text("tokenizer.chat_template") is None


def parts(tmp_path: Path, count: int = 3) -> list[Path]:
    found = []
    for no in range(count):
        one = small() if no == 0 else Gguf(keys=[("general.architecture", STRING, "llama")])
        one.keys += [("split.no", 2, no), ("split.count", 2, count), ("split.tensors.count", 5, 3)]
        one.tensors = [(f"blk.{no}.attn_k.weight", (64, 32), 8, 0)]
        path = tmp_path / f"m-Q8_0-{no + 1:05}-of-{count:05}.gguf"
        path.write_bytes(one.written())
        found.append(path)
    return found


def test_a_model_in_parts_is_read_whole_whichever_part_is_named(tmp_path: Path) -> None:
    paths = parts(tmp_path)
    for path in paths:
        header = read_header(path)
        assert header.files == tuple(paths)
        assert [tensor.name for tensor in header.tensors] == [f"blk.{no}.attn_k.weight" for no in range(3)]
        assert header.text("general.name") == "Tiny"
        assert header.file_bytes == sum(each.stat().st_size for each in paths)


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    paths = parts(tmp_path)
    paths[1].unlink()
    with pytest.raises(GgufError, match=r"m-Q8_0-00002-of-00003\.gguf: this part of the model is not beside the others"):
        read_header(paths[2])


def test_parts_that_contradict_each_other(tmp_path: Path) -> None:
    paths = parts(tmp_path)
    paths[1].write_bytes(paths[2].read_bytes())
    with pytest.raises(GgufError, match=r"00002-of-00003\.gguf: it says that it is part 3"):
        read_header(paths[0])
    renamed = tmp_path / "whole.gguf"
    renamed.write_bytes(paths[0].read_bytes())
    with pytest.raises(GgufError, match="one of 3 parts, but is not named"):
        read_header(renamed)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nothing.gguf", "no such file"),
        ("folder.gguf", "no regular file"),
        ("empty.gguf", "no GGUF file"),
        ("text.gguf", "no GGUF file"),
        ("four.gguf", "ends in its first eight bytes"),
        ("version.gguf", "GGUF version 9 is not known here"),
    ],
)
def test_what_is_no_gguf_file(tmp_path: Path, name: str, text: str) -> None:
    contents = {"empty.gguf": b"", "text.gguf": b"hello, world", "four.gguf": b"GGUF", "version.gguf": b"GGUF\x09\0\0\0"}
    (tmp_path / "folder.gguf").mkdir()
    if name in contents:
        (tmp_path / name).write_bytes(contents[name])
    with pytest.raises(GgufError, match=text):
        read_header(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(GgufError, match="no regular file"):
        read_header(tmp_path / "pipe.gguf")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_torn_at_every_byte(tmp_path: Path, version: int) -> None:
    whole, path = small(version=version).written(), tmp_path / "m.gguf"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(GgufError) as caught:
            read_header(path)
        assert "\n" not in str(caught.value)
    assert read(path, whole).tensors


def lying(**keys: object) -> bytes:
    return Gguf(**keys).written()  # type: ignore[arg-type]


HUGE = struct.pack("<Q", 2**62)
KEY = struct.pack("<Q", 1) + b"k"
LIES = {
    "keys": lying(n_keys=2**63),
    "tensors": lying(n_tensors=2**63),
    "many keys": lying(n_keys=20_000) + b"\0" * 600_000,
    "a key's length": lying(n_keys=1) + HUGE + b"x" * 40,
    "an empty key": lying(n_keys=1) + struct.pack("<Q", 0) + b"x" * 40,
    "a text's length": lying(n_keys=1) + KEY + struct.pack("<I", 8) + HUGE,
    "a type": lying(n_keys=1) + KEY + struct.pack("<I", 13) + b"x" * 40,
    "an array's type": lying(n_keys=1) + KEY + struct.pack("<II", 9, 77) + b"x" * 40,
    "an array of arrays": lying(n_keys=1) + KEY + struct.pack("<IIQ", 9, 9, 1) + b"x" * 40,
    "an array of numbers": lying(n_keys=1) + KEY + struct.pack("<II", 9, 4) + HUGE + b"x" * 40,
    "an array of strings": lying(n_keys=1) + KEY + struct.pack("<II", 9, 8) + HUGE + b"x" * 40,
    "a string's length": lying(n_keys=1) + KEY + struct.pack("<IIQ", 9, 8, 3) + HUGE + b"x" * 40,
    "a key twice": lying(keys=[("a", 4, 1), ("a", 4, 2)]),
    "the alignment": lying(keys=[("general.alignment", 4, 0)]),
    "dimensions": lying(tensors=[("t", (1,) * 5, 0, 0)]),
    "a tensor's size": lying(tensors=[("t", (2**40, 2**40), 0, 0)]),
    "a tensor's type": lying(tensors=[("t", (32,), 2**31, 0)]),
    "a tensor's block": lying(tensors=[("t", (33,), 8, 0)]),
    "a tensor's place": lying(tensors=[("t", (32,), 8, 7)]),
    "a tensor twice": lying(tensors=[("t", (32,), 8, 0), ("t", (32,), 8, 64)]),
    "a tensor's name": lying(tensors=[("t" * 300, (32,), 8, 0)]),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_end_in_one_clear_error(tmp_path: Path, lie: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(LIES[lie])
    with pytest.raises(GgufError, match=r"^m\.gguf: "):
        read_header(path)


def test_a_tensor_of_a_type_that_is_newer_than_this_version(tmp_path: Path) -> None:
    header = read(tmp_path / "m.gguf", Gguf(tensors=[("t", (32,), 99, 0)]).written())
    assert (header.tensors[0].type, header.tensors[0].size_bytes) == ("type 99", None)


@settings(max_examples=150)
@given(noise=st.binary(max_size=400), version=st.sampled_from([1, 2, 3]))
def test_noise_is_an_error_or_a_header(tmp_path_factory: pytest.TempPathFactory, noise: bytes, version: int) -> None:
    path = tmp_path_factory.mktemp("noise") / "m.gguf"
    path.write_bytes(b"GGUF" + version.to_bytes(4, "little") + noise)
    try:
        read_header(path)
    except GgufError:
        pass


@settings(max_examples=150)
@given(st.data())
def test_a_damaged_header_is_an_error_or_a_header(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    raw = bytearray(small().written())
    for at in data.draw(st.lists(st.integers(8, len(raw) - 1), min_size=1, max_size=6)):
        raw[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "m.gguf"
    path.write_bytes(raw)
    try:
        read_header(path)
    except GgufError:
        pass


@pytest.mark.parametrize("size", [8, 60, 300])
def test_a_large_hostile_file_takes_little_memory(tmp_path: Path, size: int) -> None:
    """An array of strings that fills the file, of lengths that take the quick way, the slow one, or both."""
    count = (24 << 20) // (size + 8)
    one = struct.pack("<Q", size) + b"x" * size
    path = tmp_path / "m.gguf"
    body = lying(n_keys=1) + KEY + struct.pack("<IIQ", 9, 8, min(count, 4_000_000)) + one * count
    path.write_bytes(body[:-5])
    del body
    tracemalloc.start()
    began = time.process_time()
    try:
        read_header(path)
    except GgufError:
        pass
    took, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 << 20
    assert took < 5  # a second at most without the tracing
