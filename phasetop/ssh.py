"""The system's ssh: addresses, command lines, and what its failures mean. Nothing is started here.

Its configuration, agent, jump hosts and host-key checks apply, since it is the person's own `ssh` that runs. It never asks
for anything (a prompt could not be seen behind the view, and would hang it): what `ssh HOST` needs a person for fails here
with a line that says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from phasetop.faults import UsageError
from phasetop.visible import harmless

ALIVE_S: Final = 5
"""The far machine is asked so often whether it is there; three questions without an answer end the link."""
CONNECT_S: Final = 15
OPTIONS: Final = (
    *("-o", "BatchMode=yes"),  # no questions: not for passwords, nor for the keys of unknown hosts
    *("-o", f"ConnectTimeout={CONNECT_S}"),
    *("-o", f"ServerAliveInterval={ALIVE_S}"),
    *("-o", "ServerAliveCountMax=3"),
    *("-o", "ControlMaster=no"),  # an open connection is used, but none is left behind that outlives us
    *("-o", "RemoteCommand=none"),  # the configuration's own would make ssh refuse ours
    *("-o", "PermitLocalCommand=no"),  # it would write into what is read here
    *("-a", "-x", "-T"),  # no agent, no X11, no terminal for the far side
)
"""What every ssh of phasetop's is started with; the person's configuration has the rest."""

Kind = Literal["missing", "host-key", "refused", "name", "unreachable", "setup", "far", "lost"]
LASTING: Final[frozenset[Kind]] = frozenset(("missing", "host-key", "refused", "setup"))
"""Kinds that trying again does not mend."""

_HOST: Final = re.compile(r"[\w.:%-]+", re.ASCII)
_USER: Final = re.compile(r"[\w.+@\\-]+\$?", re.ASCII)  # also DOMAIN\name, name@domain, machine$
_WORDS: Final = 300


class Address(Struct, frozen=True):
    """Whom ssh connects to; what is None its configuration says.

    Attributes:
        host: a name, an address, or an alias of the configuration.
        user: the account.
        port: a TCP port.

    """

    host: str
    user: str | None = None
    port: int | None = None

    @property
    def destination(self) -> str:
        """``user@host`` as ssh takes it."""
        return self.host if self.user is None else f"{self.user}@{self.host}"

    def __str__(self) -> str:
        """As a person types it: ``user@host:port``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        name = host if self.user is None else f"{self.user}@{host}"
        return name if self.port is None else f"{name}:{self.port}"


def parse_address(text: str) -> Address:
    """``[USER@]HOST[:PORT]``, an IPv6 address in brackets.

    Raises:
        UsageError: it is none, holds a password, or would be taken for an option of ssh.
    """
    user, at, rest = text.rpartition("@")
    named = user if at else None
    if named is not None and ":" in named:
        raise UsageError("an ssh address holds no password: ssh has its keys and its agent")
    if match := re.fullmatch(r"\[([^\[\]]*)\](?::([^:]*))?", rest):
        host, port = match[1], match[2]
    else:
        host, colon, port = rest.partition(":")
        port = port if colon else None
        if port is not None and ":" in port:
            raise UsageError(f"{_shown(text)}: an IPv6 address stands in brackets, user@[{_shown(rest)}]")
    number = None
    if port is not None:
        if not (port.isascii() and port.isdecimal() and 1 <= int(port[:6]) <= 65535):
            raise UsageError(f"{_shown(text)}: {_shown(port)!r} is no port")
        number = int(port)
    for part, form, what in ((host, _HOST, "host"), (named, _USER, "user")):
        if part is not None and (part.startswith("-") or not form.fullmatch(part)):
            raise UsageError(f"{_shown(text)}: {_shown(part)!r} is no {what} that ssh could be given")
    return Address(host, named, number)


def command(address: Address, *words: str, options: Sequence[str] = (), stdin: bool = False) -> list[str]:
    """The command line of ssh.

    Args:
        address: the far machine.
        words: what is run there by the account's own shell, one word mostly: see `sh`.
        options: further ones of ssh's (``-N``, ``-L`` …).
        stdin: stdin is a pipe of ours that the far command reads (its end tells that we are gone); else ``-n``.

    """
    port = ("-p", str(address.port)) if address.port is not None else ()
    return ["ssh", *OPTIONS, *(() if stdin else ("-n",)), *options, *port, "--", address.destination, *words]


def sh(script: str) -> str:
    """The one word that has ``script`` run by a POSIX sh, whatever the account's own shell is (fish and csh too).

    Between single quotes all shells take all characters as they are but those that are refused here.

    Raises:
        ValueError: the script holds a quote, a backslash, an exclamation mark or a newline.
    """
    if bad := set(script) & set("'\\!\n"):
        raise ValueError(f"no script for every shell: it holds {bad}")
    return f"sh -c '{script}'"


class Failure(Struct, frozen=True):
    """Why ssh ended.

    Attributes:
        kind: what sort of trouble it is.
        text: what happened and what to do, in one line.

    """

    kind: Kind
    text: str

    @property
    def lasting(self) -> bool:
        """Whether trying again is no use."""
        return self.kind in LASTING


def not_installed() -> Failure:
    """There is no ssh to start."""
    return Failure("missing", "ssh is not installed here (Debian: apt-get install openssh-client)")


def why_it_ended(address: Address, status: int, stderr: bytes) -> Failure:
    """What an ssh that ended with ``status`` and said ``stderr`` means.

    Statuses but 255 are the far command's own; ssh gives 255 for whatever it could not do itself.
    """
    said = stderr.decode("utf-8", "replace")
    host = str(address)
    login = f"ssh {address.destination}" if address.port is None else f"ssh -p {address.port} {address.destination}"
    if status != 255:
        if status < 0:
            return Failure("lost", f"the ssh to {host} was ended by signal {-status}")
        if status == 127:
            return Failure("far", f"{host} has no sh to run what phasetop needs there{_last(said)}")
        return Failure("far", f"the command on {host} ended with status {status}{_last(said)}")
    for words, kind, text in (
        (
            "IDENTIFICATION HAS CHANGED",
            "host-key",
            f"{host} shows another key than the known one: another machine, or one set up anew (`{login}` tells more)",
        ),
        (
            "Host key verification failed",
            "host-key",
            f"the key of {host} is not known: connect once with `{login}` and look at it",
        ),
        (
            "Permission denied",
            "refused",
            f"{host} refused: `{login}` has to work without a password (ssh-copy-id, ssh-add)",
        ),
        (
            "Too many authentication failures",
            "refused",
            f"{host} refused so many keys: name the right one in ~/.ssh/config (IdentityFile, IdentitiesOnly)",
        ),
        ("Could not resolve", "name", f"no machine {host} is known{_last(said)}"),
        ("Bad configuration option", "setup", f"ssh's configuration has a mistake{_last(said)}"),
        ("Bad owner or permissions", "setup", f"ssh does not trust its configuration{_last(said)}"),
        ("invalid characters", "setup", f"ssh does not take {host} for a name{_last(said)}"),
        ("onnection refused", "unreachable", f"nothing answers ssh on {host}: connection refused"),
        ("timed out", "unreachable", f"{host} does not answer: connection timed out"),
        ("No route to host", "unreachable", f"{host} cannot be reached: no route to host"),
        ("etwork is unreachable", "unreachable", f"{host} cannot be reached: no network"),
    ):
        if words in said:
            return Failure(kind, text)  # type: ignore[arg-type]
    return Failure("lost", f"the link to {host} was lost{_last(said)}")


def _last(said: str) -> str:
    """The last thing that was said, in brackets."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f" ({_shown(lines[-1].removeprefix('ssh: '))})" if lines else ""


def _shown(text: str) -> str:
    return harmless(text, newlines=False)[:_WORDS]
