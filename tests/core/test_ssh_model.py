"""``ssh://…`` as MODEL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.faults import UsageError
from phasetop.plan import plan
from phasetop.ssh import Address
from phasetop.ssh_model import is_ssh, read_ssh_model


@pytest.mark.parametrize(
    ("typed", "address", "url", "name", "shown"),
    [
        ("ssh://box", Address("box"), None, None, "ssh://box/"),
        ("ssh://box/", Address("box"), None, None, "ssh://box/"),
        ("SSH://box/llama3.1:8b", Address("box"), None, "llama3.1:8b", "ssh://box/llama3.1:8b"),
        ("ssh://me@box:2222/m", Address("box", "me", 2222), None, "m", "ssh://box:2222/m"),
        ("ssh://box/hf.co/a/b:Q4", Address("box"), None, "hf.co/a/b:Q4", "ssh://box/hf.co/a/b:Q4"),
        ("ssh://box/:9000", Address("box"), "http://127.0.0.1:9000", None, "ssh://box/http://127.0.0.1:9000"),
        ("ssh://[::1]:22/", Address("::1", None, 22), None, None, "ssh://[::1]:22/"),
        ("ssh://box/https://gpu2:8443/v1?k=1", Address("box"), "https://gpu2:8443/v1?k=1", None, "ssh://box/https://gpu2:8443/v1"),
    ],
)  # fmt: skip
def test_what_is_meant(typed: str, address: Address, url: str | None, name: str | None, shown: str) -> None:
    assert is_ssh(typed)
    found = read_ssh_model(typed)
    assert (found.address, found.url, found.name, found.shown) == (address, url, name, shown)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("ssh://me:secret@box/m", "no password"),
        ("ssh://", "no machine"),
        ("ssh:///m", "no machine"),
        ("ssh://-oProxyCommand=x/m", "no host"),
        ("ssh://box/a b", "no spaces"),
        ("ssh://box/m.gguf", "started|server there"),
        ("ssh://box/http://me:secret@127.0.0.1:1/", "no password"),
        ("ssh://box/ftp://x", "no server's address"),
        ("ssh://box/:x", "port"),
        ("ssh://box?x", "is expected"),
    ],
)
def test_what_is_refused(typed: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        read_ssh_model(typed)
    assert "secret" not in str(refused.value)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = read_ssh_model("ssh://" + text)
    except UsageError:
        return
    assert found.shown.startswith("ssh://")
    assert found.url is None or found.name is None


def test_the_plan_says_no_user_in_what_is_recorded() -> None:
    start = plan("ssh://me@box:22/llama3.1:8b", {"prompt": "x"}).start
    assert start.argv == ["run", "ssh://box:22/llama3.1:8b"]
    assert start.target is not None
    assert (start.target.ssh, start.target.url, start.target.model) == ("me@box:22", None, "llama3.1:8b")
    named = plan("ssh://box/:9000", {"prompt": "x", "served_model": "b", "backend": "ollama"}).start.target
    assert named is not None
    assert (named.backend, named.url, named.model) == ("ollama", "http://127.0.0.1:9000", "b")


@pytest.mark.parametrize(
    ("model", "given", "says"),
    [
        ("ssh://box/", {"backend": "embedded"}, "embedded"),
        ("ssh://box/", {"proxy": "http://p:1"}, "--proxy"),
        ("ssh://box/m", {"served_model": "n"}, "twice"),
    ],
)
def test_what_does_not_go_together(model: str, given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan(model, {"prompt": "x", **given})
