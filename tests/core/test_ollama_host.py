"""OLLAMA_HOST as Ollama's own clients read it: its table (envconfig/config_test.go), and addresses to listen on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.ollama_host import ollama_url

TABLE = {
    "": "http://127.0.0.1:11434",
    "1.2.3.4": "http://1.2.3.4:11434",
    ":1234": "http://127.0.0.1:1234",  # Ollama's client dials an empty host, which is this machine
    "1.2.3.4:1234": "http://1.2.3.4:1234",
    "example.com": "http://example.com:11434",
    "example.com:1234": "http://example.com:1234",
    ":66000": "http://127.0.0.1:11434",
    ":-1": "http://127.0.0.1:11434",
    "example.com:port": "http://example.com:11434",
    "[::1]": "http://[::1]:11434",
    "::1": "http://[::1]:11434",
    "[::1]:1337": "http://[::1]:1337",
    " 1.2.3.4 ": "http://1.2.3.4:11434",
    '"1.2.3.4"': "http://1.2.3.4:11434",
    ' " 1.2.3.4 " ': "http://1.2.3.4:11434",
    "'1.2.3.4'": "http://1.2.3.4:11434",
    "http://1.2.3.4": "http://1.2.3.4:80",
    "http://1.2.3.4:4321": "http://1.2.3.4:4321",
    "https://1.2.3.4": "https://1.2.3.4:443",
    "https://1.2.3.4:4321": "https://1.2.3.4:4321",
    "https://example.com/ollama": "https://example.com:443/ollama",
    "https://example.com/ollama/": "https://example.com:443/ollama",
    "ollama.com": "https://ollama.com:443",
    "localhost": "http://localhost:11434",
    "0.0.0.0": "http://127.0.0.1:11434",
    "0.0.0.0:1234": "http://127.0.0.1:1234",
    "[::]": "http://[::1]:11434",
    "[::]:1234": "http://[::1]:1234",
    "https://0.0.0.0:4321": "https://127.0.0.1:4321",
    "192.168.1.5:8080": "http://192.168.1.5:8080",
}


@pytest.mark.parametrize(("value", "url"), TABLE.items())
def test_every_form_of_the_table(value: str, url: str) -> None:
    assert ollama_url(value) == url


def test_nothing_set() -> None:
    assert ollama_url(None) == "http://127.0.0.1:11434"


def test_a_password_stays_with_its_host_and_the_query_goes() -> None:
    assert ollama_url("https://me:key@example.com/o?token=1#x") == "https://me:key@example.com:443/o"


@given(st.text(max_size=40))
def test_whatever_is_set_gives_an_address(value: str) -> None:
    assert "://" in ollama_url(value)
