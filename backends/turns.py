"""The requests of a session: what each is asked with, what it goes on from, and which of them run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from phasetop import events as ev
from phasetop.backends.chat import Conversation
from phasetop.backends.commands import Command
from phasetop.backends.protocol import Ask, Pieces
from phasetop.backends.recorder import Recorder
from phasetop.backends.samplers import Samplers
from phasetop.backends.scene import RequestScene
from phasetop.backends.settings import SERVER_SIDE
from phasetop.backends.target import Target
from phasetop.backends.turn import Turn
from phasetop.faults import UsageError
from phasetop.setting_names import unknown

EMBEDDED_MAX_TOKENS: Final = 512
"""A reply of the embedded model ends here unless told otherwise: a small model may never end by itself."""


class Turns:
    """A `turn.Owner`.

    Attributes:
        logprobs: what is asked for from the next request on, where it says nothing itself.

    """

    def __init__(self, recorder: Recorder, target: Target | None, sampler: Samplers) -> None:
        self.logprobs: int | None = None
        self._recorder = recorder
        self._target = target
        self._sampler = sampler
        self._guard = threading.Lock()
        self._turns: dict[int, Turn] = {}  # those that run
        self._asked: dict[int, Ask] = {}  # likewise
        self._parents: dict[int, int | None] = {}
        self._applied: dict[int, dict[str, Any]] = {}
        self._chat = Conversation()

    def ask(self, command: Command, answer: Callable[[int], None]) -> None:
        """Begin a request; ``answer`` is told its r before anything is written of it.

        Raises:
            UsageError: it would go on from what there is not.
        """
        target, recorder = self._target, self._recorder
        assert target is not None
        parent = command.get("parent")
        if parent is not None and parent not in self._parents:
            raise UsageError(f"there is no request {parent} to go on from")
        running = {turn.r: turn for turn in self.all_running()}
        before = [running[r] for r in dict.fromkeys((command.get("after"), parent)) if r in running]
        settings = {k: v for k, v in (command.get("settings") or {}).items() if v is not None}
        if self.logprobs is not None:
            settings.setdefault("logprobs", self.logprobs)
        r = recorder.new_id("r")
        ask = Ask(
            r=r,
            api="raw" if command.get("api") == "raw" else "chat",
            messages=list(command.get("messages") or ()),
            prompt=command.get("prompt"),
            tools=command.get("tools"),
            settings=settings,
        )
        turn = Turn(r, self, recorder, target, before)
        with self._guard:
            self._turns[r] = turn
            self._asked[r], self._parents[r] = ask, parent
        answer(r)
        recorder.emit(
            ev.Request(
                t=recorder.now(),
                r=r,
                v=target.v,
                m=target.m,
                parent=parent,
                api=ask.api,
                messages=ask.messages if ask.api == "chat" else None,
                prompt=ask.prompt if ask.api == "raw" else None,
                tools=ask.tools,
                asked=settings or None,
                labels=command.get("labels") or None,
            )
        )
        _spawn(turn.run, f"request-{r}")

    def build(self, turn: Turn) -> Ask:
        """The ask with its history; and say which model answers, with which settings, now that it is known."""
        ask, parent = self._asked[turn.r], self._parents[turn.r]
        if ask.api == "chat":
            ask = replace(ask, messages=[*self._chat.history(parent), *ask.messages])
        target, recorder = self._target, self._recorder
        assert target is not None
        assert target.backend is not None
        embedded = target.backend.name == "embedded"
        if embedded and ask.settings.get("max_tokens") is None:
            ask = replace(ask, settings={**ask.settings, "max_tokens": EMBEDDED_MAX_TOKENS})
            recorder.notice("reply-limit", f"the reply ends at {EMBEDDED_MAX_TOKENS} tokens: -n N changes that", r=turn.r)
        unused = target.backend.unused(ask.settings)
        if unused:
            why = {reason: [name for name, other in unused.items() if other == reason] for reason in unused.values()}
            text = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in why.items())
            recorder.notice("settings-ignored", f"not asked of this server: {text}", level="warn", r=turn.r)
        for text in unknown(target.backend.name, ask.settings):
            recorder.notice("setting-unknown", text, level="warn", r=turn.r)
        if embedded:  # it was started with those: what came of them, its options say
            started = {name: value for name, (value, _) in target.engine.options().items()} if target.engine else {}
            unused = dict.fromkeys(SERVER_SIDE & ask.settings.keys(), "")
            ask = replace(ask, settings={k: v for k, v in ask.settings.items() if k not in unused})
        else:
            started = {}
        asked = {name: value for name, value in ask.settings.items() if name not in unused}
        applied = {**target.backend.defaults, **asked, **{name: started[name] for name in unused if name in started}}
        self._applied[turn.r] = applied
        recorder.emit(ev.Request(t=recorder.now(), r=turn.r, m=target.m, applied=applied))
        return ask

    def scene(self, ask: Ask) -> RequestScene:
        """What a backend's watch may do in this session."""
        assert self._target is not None
        return RequestScene(
            ask, self._recorder, self._target, self._sampler, self._applied.get(ask.r, {}), self._write_prompt
        )

    def sent(self, ask: Ask) -> None:
        """Ask for the prompt's tokens beside the request, once, on a connection of its own."""
        _spawn(self._pieces, f"prompt-{ask.r}", ask)

    def _pieces(self, ask: Ask) -> None:
        target = self._target
        pieces = target.backend.pieces(ask) if target is not None and target.backend is not None else None
        if pieces is not None:
            self._write_prompt(ask, pieces)

    def _write_prompt(self, ask: Ask, pieces: Pieces) -> None:
        recorder = self._recorder
        recorder.emit(
            ev.Prompt(
                t=recorder.now(),
                r=ask.r,
                rendered=pieces.rendered,
                pieces=list(pieces.pieces),
                ids=list(pieces.ids),
                source=pieces.source,
                n=len(pieces.ids),
                diverge=self._chat.diverge(ask.r, self._parents[ask.r], pieces.ids),
            )
        )

    def finished(self, turn: Turn) -> None:
        """A request ended: what it said becomes the history of those that go on from it, and nothing else of it is kept."""
        generation, asked = turn.generation, self._asked[turn.r]
        reply = generation.answer.decode("utf-8", "replace") if generation is not None else ""
        calls = generation.calls if generation is not None else {}
        self._chat.add(turn.r, self._parents[turn.r], asked.messages, reply, calls)
        with self._guard:
            del self._asked[turn.r], self._turns[turn.r]
            self._applied.pop(turn.r, None)

    def all_running(self) -> list[Turn]:
        """Those that run, the oldest first."""
        with self._guard:
            return list(self._turns.values())

    def running(self, r: int) -> Turn | None:
        """One of them; None where it does not run."""
        return self._turns.get(r)


def _spawn(call: Callable[..., None], name: str, *args: Any) -> None:
    threading.Thread(target=call, args=args, name=name, daemon=True).start()
