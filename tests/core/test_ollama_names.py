"""Names as people type them: sent as typed, compared as Ollama compares them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import ollama_names as names


@pytest.mark.parametrize(
    ("typed", "host", "namespace", "model", "tag"),
    [
        ("glm-4.6", "registry.ollama.ai", "library", "glm-4.6", "latest"),
        ("qwen3:8b", "registry.ollama.ai", "library", "qwen3", "8b"),
        ("me/mine", "registry.ollama.ai", "me", "mine", "latest"),
        ("hf.co/bartowski/Llama-3.2-1B-GGUF:Q4_K_M", "hf.co", "bartowski", "llama-3.2-1b-gguf", "q4_k_m"),
        ("127.0.0.1:5123/library/tiny", "127.0.0.1:5123", "library", "tiny", "latest"),
        ("https://hub.example/a/b:c", "hub.example", "a", "b", "c"),
    ],
)
def test_a_name_is_read_as_ollama_reads_it(typed: str, host: str, namespace: str, model: str, tag: str) -> None:
    assert names.parse(typed) == names.OllamaName(host, namespace, model, tag)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("glm-4.6", "glm-4.6:latest", True),
        ("LLAMA3.1:8B", "llama3.1:8b", True),
        ("registry.ollama.ai/library/qwen3:latest", "qwen3", True),
        ("library/qwen3", "qwen3", True),
        ("qwen3:8b", "qwen3", False),
        ("hf.co/a/b:Q4_K_M", "hf.co/a/b:q4_k_m", True),
        ("127.0.0.1:5123/library/tiny", "tiny", False),
    ],
)
def test_names_are_compared_with_nothing_left_out(a: str, b: str, same: bool) -> None:
    assert names.same(a, b) is same
    assert names.same(b, a) is same


def test_the_installed_name_that_is_meant() -> None:
    installed = ["glm-4.6", "smollm2:latest", "Qwen3:8b"]
    assert names.find("glm-4.6", installed) == "glm-4.6"
    assert names.find("smollm2", installed) == "smollm2:latest"
    assert names.find("qwen3:8b", installed) == "Qwen3:8b"
    assert names.find("qwen3", installed) is None


def test_names_like_one_that_is_not_there() -> None:
    installed = ["llama3.1:8b", "qwen3:8b", "qwen3:32b", "smollm2:latest", "nomic-embed-text:latest"]
    assert names.closest("qwen3", installed)[:2] == ["qwen3:8b", "qwen3:32b"]
    assert names.closest("qwen3:30b", installed)[0] == "qwen3:32b"
    assert names.closest("lama3.1", installed) == ["llama3.1:8b"]
    assert names.closest("smolm2:1b", installed) == ["smollm2"]
    assert names.closest("nosuch", installed) == []
    assert names.closest("x", []) == []


def test_cloud_models_need_not_be_installed() -> None:
    assert names.is_cloud("gpt-oss:120b-cloud")
    assert names.is_cloud("kimi-k2:cloud")
    assert not names.is_cloud("cloud")
    assert not names.is_cloud("127.0.0.1:5123/library/cloudy")


@given(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=6))
def test_whatever_is_typed_has_a_reading(typed: str, installed: list[str]) -> None:
    assert names.same(typed, typed)
    assert len(names.closest(typed, installed)) <= 3
    found = names.find(typed, installed)
    assert found is None or found in installed
