"""Names of Ollama's models: how one that a person typed is compared with those that are installed, and which are close.

A name is ``[host/][namespace/]model[:tag]``; what is left out is registry.ollama.ai, library and latest, and letters' case
means nothing (`types/model/name.go` in Ollama's source). A name is always *sent* as it was typed: only Ollama decides.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

HOST: Final = "registry.ollama.ai"
NAMESPACE: Final = "library"
TAG: Final = "latest"
_CLOSE: Final = 0.55
"""Names less alike than this are not offered."""


@dataclass(frozen=True, slots=True)
class OllamaName:
    """A name with nothing left out, in small letters."""

    host: str
    namespace: str
    model: str
    tag: str

    @property
    def short(self) -> str:
        """The name as Ollama lists it, without what is the default, ``:latest`` too."""
        front = ""
        if self.host != HOST:
            front = f"{self.host}/{self.namespace}/"
        elif self.namespace != NAMESPACE:
            front = f"{self.namespace}/"
        return front + self.model + ("" if self.tag == TAG else f":{self.tag}")


def parse(typed: str) -> OllamaName:
    """Read a name; whatever was typed gives one, and what makes no sense is equal to none that is installed."""
    rest = typed.strip().lower().partition("://")[2] or typed.strip().lower()
    tag = ""
    if rest.rfind(":") > rest.rfind("/"):  # a colon before a slash is a registry's port
        rest, _, tag = rest.rpartition(":")
    front, _, model = rest.rpartition("/")
    host, _, namespace = front.rpartition("/")
    return OllamaName(host or HOST, namespace or NAMESPACE, model, tag or TAG)


def same(a: str, b: str) -> bool:
    """Whether two names mean one model."""
    return parse(a) == parse(b)


def find(typed: str, installed: Iterable[str]) -> str | None:
    """The installed name that ``typed`` means, as Ollama lists it; None: none does."""
    wanted = parse(typed)
    return next((name for name in installed if parse(name) == wanted), None)


def closest(typed: str, installed: Sequence[str], n: int = 3) -> list[str]:
    """At most ``n`` installed names like ``typed``, the likest first: the same model with another tag, then by spelling."""
    wanted = parse(typed)
    scored: list[tuple[float, int, str]] = []
    for i, name in enumerate(installed):
        other = parse(name)
        if other.model == wanted.model:
            score = 2.0 + _alike(wanted.tag, other.tag)
        else:
            score = max(_alike(wanted.short, other.short), _alike(wanted.model, other.model))
        if score >= _CLOSE:
            scored.append((-score, i, name.removesuffix(f":{TAG}")))
    return list(dict.fromkeys(name for _, _, name in sorted(scored)))[:n]


def _alike(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()


def is_cloud(typed: str) -> bool:
    """Whether a name is of a model that Ollama runs elsewhere (``gpt-oss:120b-cloud``): it need not be installed."""
    tag = parse(typed).tag
    return tag == "cloud" or tag.endswith("-cloud")
