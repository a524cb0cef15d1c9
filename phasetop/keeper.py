"""What the view may tell the collector of its own run: ask, ask again, cancel, keep; `phasetop.tui.source.Lifeline`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from phasetop import prompts
from phasetop.faults import PhasetopError
from phasetop.lifeline import Lifeline
from phasetop.plan import Plan


class _Asked(Struct, frozen=True):
    """One request as it was sent, to be sent again."""

    messages: list[dict[str, Any]] | None
    prompt: str | None
    parent: int | None


class Keeper:
    """The lifeline of a view."""

    def __init__(self, lifeline: Lifeline, plan: Plan) -> None:
        self._lifeline = lifeline
        self._plan = plan
        self._asked: dict[int, _Asked] = {}  # by the command's id
        self._looking: int | None = None  # the last look around

    @property
    def kept(self) -> str | None:
        """What the recording is called; None while it would go at the end."""
        return self._lifeline.kept_as

    def begin(self) -> None:
        """Send what the command line brought."""
        self._send(_Asked(self._plan.messages if self._plan.api != "raw" else None, self._plan.prompt, None), None)

    def ask(self, text: str) -> None:
        """Send the next turn with the chat so far as its history; after the running request, if one runs."""
        if not self._plan.start.redact:
            prompts.add(text)
        runs = self._lifeline.follower.session.runs
        last = max(runs, default=None)
        if self._plan.api == "raw":
            self._send(_Asked(None, text, None), last)
            return
        messages = [{"role": "user", "content": text}]
        if not runs:
            messages = [*(m for m in self._plan.messages if m.get("role") == "system"), *messages]
        self._send(_Asked(messages, None, last), last)

    def again(self, r: int, *, cache: bool) -> None:
        """Send what request ``r`` sent once more, with the same history.

        Raises:
            PhasetopError: it was not asked from here.
        """
        session = self._lifeline.follower.session
        command = next((c.id for c in session.controls.items if c.op == "ask" and c.r == r and c.id is not None), None)
        asked = self._asked.get(command) if command is not None else None
        if asked is None:
            raise PhasetopError("that request was not asked from here, so it cannot be asked again")
        settings = {} if cache else {"cache_prompt": False}
        self._send(asked, max(session.runs, default=None), settings)

    def _send(self, asked: _Asked, after: int | None, settings: dict[str, Any] | None = None) -> None:
        plan = self._plan
        command = self._lifeline.ask(
            api="raw" if plan.api == "raw" else "chat",
            messages=asked.messages,
            prompt=asked.prompt,
            parent=asked.parent,
            after=after,
            tools=plan.tools,
            settings={**plan.settings, **(settings or {})},
        )
        self._asked[command] = asked

    def set_key(self, key: str) -> None:
        """Give the server's API key: it travels on the pipe and is written nowhere."""
        self._lifeline.set(api_key=key)

    def mark(self, at: int, label: str) -> None:
        """Leave a mark at a moment, ns since the anchor."""
        self._lifeline.mark(at, label)

    def want_logprobs(self, n: int) -> None:
        """Ask for log-probabilities and ``n`` alternatives from the next request on."""
        self._lifeline.set(logprobs=n)

    def cancel(self, r: int) -> None:
        """End request ``r``; what came of it stays."""
        self._lifeline.cancel(r)

    def discover(self) -> None:
        """Let the collector look around again, unless it still does.

        Other servers' models are not written into this session.
        """
        answered = (control.id for control in self._lifeline.follower.session.controls.items)
        if self._looking is None or self._looking in answered:
            self._looking = self._lifeline.discover(models=False, machine=True)

    def pull(self, model: str) -> None:
        """Let Ollama fetch a model that it lacks (notice `not-installed`); the session goes on with it when it is there."""
        self._lifeline.get(model, "ollama")

    def cancel_task(self, task: int) -> None:
        """End a task: what is fetched; Ollama keeps what came of it for the next time."""
        self._lifeline.cancel_task(task)

    def keep(self, name: str | None) -> str:
        """Keep the recording; returns what it is called. Raises `PhasetopError` when it cannot be kept."""
        session = self._lifeline.follower.session
        model = next((m.name for versions in session.models.values() if (m := versions.at()) and m.name), None)
        self._lifeline.keep(name, model)
        return self._lifeline.kept_as or ""

    def stop(self) -> None:
        """The view ends: no further commands come."""
        self._lifeline.stop()
