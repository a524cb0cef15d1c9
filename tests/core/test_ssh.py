"""Addresses and command lines for ssh, and its failures in plain words (what OpenSSH 9.2 said, word for word)."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.faults import UsageError
from phasetop.ssh import OPTIONS, Address, command, parse_address, sh, why_it_ended

FAR = Address("box", "me")


@pytest.mark.parametrize(
    ("text", "address", "destination"),
    [
        ("me@box", Address("box", "me"), "me@box"),
        ("box", Address("box"), "box"),
        ("me@box:2222", Address("box", "me", 2222), "me@box"),
        ("me@[fe80::1%eth0]:22", Address("fe80::1%eth0", "me", 22), "me@fe80::1%eth0"),
        ("[::1]", Address("::1"), "::1"),
        ("me@dom.ain@box.example", Address("box.example", "me@dom.ain"), "me@dom.ain@box.example"),
        ("gpu_box-2", Address("gpu_box-2"), "gpu_box-2"),
    ],
)
def test_addresses(text: str, address: Address, destination: str) -> None:
    assert parse_address(text) == address
    assert address.destination == destination
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-oProxyCommand=x", "no host"),
        ("-l@box", "no user"),
        ("me@-v", "no host"),
        ("me:secret@box", "no password"),
        ("me@box:port", "no port"),
        ("me@box:0", "no port"),
        ("me@box:65536", "no port"),
        ("me@box:" + "9" * 5000, "no port"),
        ("me@::1", "in brackets"),
        ("", "no host"),
        ("me@", "no host"),
        ("@box", "no user"),
        ("me@a b", "no host"),
        ("me@`id`", "no host"),
        ("me@$(id)", "no host"),
        ("$HOME@box", "no user"),
        ("me@box\n", "no host"),
        ("me@bóx", "no host"),
    ],
)
def test_what_ssh_is_never_given(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        parse_address(text)
    assert "secret" not in str(raised.value)


@given(st.text())
def test_any_address_is_refused_or_is_no_option(text: str) -> None:
    try:
        address = parse_address(text)
    except UsageError:
        return
    words = command(address, "true")
    assert words[words.index("--") + 1 :] == [address.destination, "true"]
    assert not address.destination.startswith("-")
    assert address.destination.isprintable()


def test_the_command_asks_nobody_and_reads_no_keyboard() -> None:
    assert command(FAR, sh("uname")) == ["ssh", *OPTIONS, "-n", "--", "me@box", "sh -c 'uname'"]
    with_port = command(Address("box", None, 22), options=("-N",), stdin=True)
    assert with_port == ["ssh", *OPTIONS, "-N", "-p", "22", "--", "box"]
    assert "BatchMode=yes" in OPTIONS


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh"])
def test_a_script_arrives_whole_in_every_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell}: not there")
    script = 'x="a  b"; for y in "$x" $((1+1)) *; do printf "%s|" "$y"; break; done; [ -n "$x" ] && echo "{$x}" `echo c` #d'
    said = subprocess.run([shell, "-c", sh(script)], capture_output=True, text=True, check=True).stdout
    assert said == "a  b|{a  b} c\n"


@pytest.mark.parametrize("bad", ["it's", "a\\b", "a!b", "a\nb"])
def test_no_script_that_a_shell_would_change(bad: str) -> None:
    with pytest.raises(ValueError, match="every shell"):
        sh(bad)


CHANGED = b"""@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
Host key for box has changed and you have requested strict checking.
Host key verification failed.
"""


@pytest.mark.parametrize(
    ("status", "stderr", "kind", "words"),
    [
        (255, CHANGED, "host-key", "me@box shows another key than the known one"),
        (255, b"Host key verification failed.\r\n", "host-key", "connect once with `ssh me@box`"),
        (255, b"Authorized use only\nme@box: Permission denied (publickey).\n", "refused", "without a password"),
        (255, b"ssh: Could not resolve hostname box: Name or service not known\n", "name", "no machine me@box is known"),
        (255, b"ssh: connect to host box port 22: Connection refused\n", "unreachable", "nothing answers ssh on me@box"),
        (255, b"ssh: connect to host box port 22: Connection timed out\n", "unreachable", "does not answer"),
        (255, b"ssh: connect to host box port 22: No route to host\n", "unreachable", "no route"),
        (
            255,
            b"c: line 1: Bad configuration option: foo\nc: terminating, 1 bad configuration options\n",
            "setup",
            "(c: term",
        ),
        (255, b"Connection to box closed by remote host.\r\n", "lost", "(Connection to box closed by remote host.)"),
        (255, b"", "lost", "the link to me@box was lost"),
        (-9, b"", "lost", "signal 9"),
        (127, b"bash: line 1: sh: command not found\n", "far", "me@box has no sh"),
        (1, b"no \x1b[2J such file\n", "far", "status 1 (no ␛[2J such file)"),
    ],
)
def test_failures_in_plain_words(status: int, stderr: bytes, kind: str, words: str) -> None:
    failure = why_it_ended(FAR, status, stderr)
    assert failure.kind == kind
    assert words in failure.text
    assert "\n" not in failure.text
    assert "\x1b" not in failure.text
    assert failure.lasting == (kind in ("host-key", "refused", "setup", "missing"))


def test_a_port_is_part_of_the_advice() -> None:
    failure = why_it_ended(Address("box", None, 2222), 255, b"Host key verification failed.")
    assert "`ssh -p 2222 box`" in failure.text
