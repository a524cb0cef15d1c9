"""``ssh://[USER@]HOST[:PORT]/MODEL``: a server on another machine, reached through the system's ssh.

What stands after the slash is what MODEL would be on that machine: a model's name, the server's URL as that machine sees it
(``http://127.0.0.1:9000``, in short ``:9000``), or nothing, which is what runs there.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from phasetop.checks import check_url, printable_url
from phasetop.faults import UsageError
from phasetop.ssh import Address, parse_address

SCHEME: Final = "ssh://"
_LONGEST: Final = 1000


class SshModel(Struct, frozen=True):
    """Whom ssh connects to, and what is asked there.

    Attributes:
        address: the far machine.
        url: the server's address as that machine sees it; None: its usual one.
        name: a model's name; None: what runs there.

    """

    address: Address
    url: str | None = None
    name: str | None = None

    @property
    def shown(self) -> str:
        """As it may be recorded and shown: no user, and nothing of the far URL that may be secret."""
        return shown_at(self.address, printable_url(self.url) if self.url is not None else self.name or "")


def is_ssh(text: str) -> bool:
    """Whether a MODEL argument means a server behind ssh."""
    return text.strip().lower().startswith(SCHEME)


def read_ssh_model(text: str) -> SshModel:
    """Read a MODEL argument.

    Raises:
        UsageError: no host, a password in it, or what is asked for there cannot be reached so.
    """
    where, _, what = text.strip()[len(SCHEME) :].partition("/")
    if "?" in where or "#" in where or len(text) > _LONGEST:
        raise UsageError("ssh://HOST/MODEL is expected, MODEL as on that machine: a name, http://127.0.0.1:PORT or nothing")
    if not where:
        raise UsageError("ssh:// names no machine: ssh://HOST/MODEL is expected")
    address = parse_address(where)
    what = what.strip()
    if what.startswith(":"):
        what = f"http://127.0.0.1{what}"
    if "://" in what:
        check_url(what, "on the far machine:")
        if urlsplit(what).password or urlsplit(what).username:
            raise UsageError("the far server's URL holds no password: give its key with --api-key")
        return SshModel(address, url=what)
    if what.lower().endswith(".gguf"):
        raise UsageError(f"{printable_name(what)}: a file is run by a server there; start one, and give its port: /:8080")
    if any(char.isspace() or not char.isprintable() for char in what):
        raise UsageError('a model\'s name has no spaces; a prompt is given with -p "…"')
    return SshModel(address, name=what or None)


def shown_at(address: Address, what: str) -> str:
    """``ssh://HOST[:PORT]/WHAT``, without the user."""
    return f"{SCHEME}{Address(address.host, None, address.port)}/{what}"


def printable_name(what: str) -> str:
    """A file's name without its folders."""
    return what.rsplit("/", 1)[-1]
