"""The doctor's findings as a file that can be attached to a public issue: Markdown that names no person and no place.

What is known to name one (host, user, home folder, addresses, models) is taken out wherever it stands; what looks like an
address, a path in somebody's home, a mail address or a device's serial number goes by its form. The head says what went.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from phasetop import __version__
from phasetop.capabilities import Check, Metric, by_section, folded_checks, folded_metrics
from phasetop.doctor_text import summary
from phasetop.session import Session
from phasetop.visible import harmless

LEFT_OUT: Final = (
    "host name and user names, paths under home folders, hosts of servers' addresses and IP addresses (ports stay), "
    "names of models, ids of devices and sessions; values of the environment and keys are never looked at"
)
_FORMS: Final = (
    (re.compile(r"(?P<before>\w+://)[^\s/@]*@"), r"\g<before>"),
    (re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"), "[address]"),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "[mail]"),
    (re.compile(r"(?:/home|/Users|/root|[A-Za-z]:\\Users)(?:[/\\][^\s:,;()'\"]*)?"), "[home]"),
    (re.compile(r"~(?:[/\\][^\s:,;()'\"]*)"), "[home]"),
    (re.compile(r"\b(?:GPU|MIG)-[0-9a-fA-F-]{6,}"), "[device]"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "[id]"),
)
_MAYBE_V6: Final = re.compile(r"(?<![\w:.])\[?([0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*)(?:%\w+)?\]?")
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1", "[::1]")
_NOBODYS: Final = ("root", "admin", "user", "ubuntu", "debian", "localhost", "/root")
"""Names that name nobody, and stand in the doctor's own sentences."""
_LEAST_LETTERS: Final = 3
"""A name shorter than that would take parts out of every other word."""


def secrets_of(session: Session) -> dict[str, str]:
    """What names a person, a place or a model here → what stands for it."""
    found: dict[str, str] = {}
    hello = session.hello
    if hello is not None and hello.host.name:
        for name in (hello.host.name, hello.host.name.partition(".")[0]):
            found[name] = "[host]"
    for word in (hello.argv or ()) if hello is not None else ():
        host = urlsplit(word).hostname if "://" in word else None  # of a server that was asked for and is not there
        if host is not None and host not in _LOOPBACK:
            found[host] = "[address]"
    try:
        found[str(Path.home())] = "[home]"
    except RuntimeError:
        pass
    try:
        found[getpass.getuser()] = "[user]"
    except (OSError, KeyError, ImportError):
        pass
    for versions in session.servers.values():
        server = versions.at()
        host = urlsplit(server.url).hostname if server is not None and server.url else None
        if host is not None and host not in _LOOPBACK:
            found[host] = "[address]"
    for finding in session.findings.items:
        host = urlsplit(finding.url).hostname if finding.url else None
        if host is not None and host not in _LOOPBACK:
            found[host] = "[address]"
    for models in session.models.values():
        model = models.at()
        if model is not None and model.name:
            found[model.name] = "[model]"
    return {
        name: instead for name, instead in found.items() if len(name) >= _LEAST_LETTERS and name.casefold() not in _NOBODYS
    }


class Redactor:
    """Takes out of texts what names a person or a place."""

    def __init__(self, secrets: dict[str, str]) -> None:
        ordered = sorted(secrets, key=len, reverse=True)  # a name within another one goes with it
        self._instead = {name.casefold(): secrets[name] for name in ordered}
        words = "|".join(map(re.escape, ordered))
        self._known = re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])", re.IGNORECASE) if words else None

    def __call__(self, text: str) -> str:
        """The text without them; loopback addresses are everybody's and stay."""
        kept = {f"\x00{i}\x00": name for i, name in enumerate(_LOOPBACK)}
        for mark, name in kept.items():
            text = re.sub(rf"(?<![\w.:]){re.escape(name)}(?![\w.])", mark, text)
        if self._known is not None:
            text = self._known.sub(lambda match: self._instead[match[0].casefold()], text)
        for form, instead in _FORMS:
            text = form.sub(instead, text)
        text = _MAYBE_V6.sub(_address, text)
        for mark, name in kept.items():
            text = text.replace(mark, name)
        return text


def _address(match: re.Match[str]) -> str:
    """What stands for an IPv6 address; a time of day, or another thing with colons, stays."""
    try:
        ip_address(match[1])
    except ValueError:
        return match[0]
    return "[address]"


def report(session: Session, checks: Sequence[Check], metrics: Sequence[Metric]) -> str:
    """The Markdown text."""
    redact = Redactor(secrets_of(session))
    return "\n".join(_lines(checks, metrics, redact)) + "\n"


def _lines(checks: Sequence[Check], metrics: Sequence[Metric], redact: Redactor) -> Iterator[str]:
    yield f"# phasetop doctor, phasetop {__version__}"
    yield ""
    yield f"Left out: {LEFT_OUT}. Read it before you attach it."
    yield ""
    yield summary(checks)
    for title, here in by_section(tuple(checks)):
        yield ""
        yield f"## {title}"
        yield ""
        yield from _table(
            ("check", "state", "found", "what to do"), ((c.id, c.state, c.text, c.todo) for c in folded_checks(here)), redact
        )
    yield ""
    yield "## figures"
    yield ""
    rows = ((metric.name, metric.source, metric.why_not_better) for metric in folded_metrics(metrics))
    yield from _table(("figure", "source", "why from nothing better"), rows, redact)


def _table(head: Sequence[str], rows: Iterable[Sequence[str | None]], redact: Redactor) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(_cell(text, redact) for text in row)} |"


def _cell(text: str | None, redact: Redactor) -> str:
    """Plain text in a table: no markup of its own, no line breaks."""
    plain = harmless(redact(" ".join((text or "").split())), newlines=False)
    return re.sub(r"([\\|<>`*_\[\]])", r"\\\1", plain)
