"""What the view is given: where the session comes from, and who may be asked to do something.

Both are structural: whatever has these members will do, a live session, a replay, a file that another machine writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from phasetop.alternatives import Alternative
    from phasetop.session import Session
    from phasetop.standing import Standing


class Source(Protocol):
    """A Session that may still grow."""

    @property
    def session(self) -> Session:
        """What is known so far; another object only where another session came in its place: the view takes that up."""
        ...

    @property
    def live(self) -> bool:
        """True while more may come; then the view's clock runs on between events."""
        ...

    def poll(self) -> bool:
        """Apply what is new, without waiting; True when something came. Called once a frame.

        Raises:
            PhasetopError: the session cannot be read on; the view ends and raises it again.

        """
        ...

    def alternatives(self, r: int, i: int) -> tuple[tuple[Alternative, ...], ...]:
        """What each token of line ``i`` of request ``r`` could have been; empty where that was not told."""
        ...

    @property
    def standing(self) -> Standing | None:
        """What is to be said of the way it comes by: a link that is lost; None while there is nothing."""
        ...

    def now(self) -> int:
        """Time since the session's anchor, ns: the present while it is live, else the last event's ``t``."""
        ...


class Lifeline(Protocol):
    """The way back to the collector. A watcher or a replay has none: it is read-only."""

    @property
    def kept(self) -> str | None:
        """Where the recording is kept; None while it would go at the end."""
        ...

    def ask(self, text: str) -> None:
        """Send ``text`` as the next turn, with the chat so far as its history; after the running request, if one runs."""
        ...

    def again(self, r: int, *, cache: bool) -> None:
        """Send what request ``r`` sent once more; without ``cache`` the server is asked not to use its prompt cache.

        Raises:
            PhasetopError: it cannot be repeated; the view shows why.

        """
        ...

    def set_key(self, key: str) -> None:
        """Give the server's API key, which it refused to answer without."""
        ...

    def mark(self, at: int, label: str) -> None:
        """Leave a mark at a moment (ns since the anchor) in the session."""
        ...

    def want_logprobs(self, n: int) -> None:
        """Ask for log-probabilities and ``n`` alternatives with each token, from the next request on."""
        ...

    def cancel(self, r: int) -> None:
        """End request ``r``; what came of it stays."""
        ...

    def discover(self) -> None:
        """Look around again: what can be reached and measured from here comes as findings."""
        ...

    def pull(self, model: str) -> None:
        """Let Ollama fetch a model that it lacks; the session goes on with it when it is there."""
        ...

    def cancel_task(self, task: int) -> None:
        """End a task that is no request: what is fetched."""
        ...

    def keep(self, name: str | None) -> str:
        """Keep the recording and return its name or path.

        Raises:
            PhasetopError: it cannot be kept; the view shows why.

        """
        ...

    def stop(self) -> None:
        """The view ends: no further commands come."""
        ...
