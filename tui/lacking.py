"""A model that Ollama lacks: the offer to pull it, the pull, and the request asked again when it is there."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from phasetop import events as ev
from phasetop.faults import PhasetopError
from phasetop.session import Session
from phasetop.tasks import unended
from phasetop.tui.asking import Asking
from phasetop.visible import clean

NOT_INSTALLED: Final = "not-installed"


class Lack(Struct, frozen=True):
    """The model that is lacking, what is like it, and when that was told (ns since the anchor)."""

    model: str
    closest: tuple[str, ...]
    t: int


def lacking(session: Session) -> Lack | None:
    """What Ollama lacks and nobody pulls; None where nothing is, or it came. A pull that failed can be tried again."""
    notice = next((n for n in reversed(session.notices.items) if n.code == NOT_INSTALLED), None)
    about = (notice.about or {}) if notice is not None else {}
    model, closest = about.get("model"), about.get("closest")
    if notice is None or not isinstance(model, str) or not model or ready_since(session, notice.t):
        return None
    pull = pull_since(session, notice.t)
    if pull is not None and pull.state in ("run", "ok"):
        return None
    names = tuple(name for name in closest if isinstance(name, str)) if isinstance(closest, list) else ()
    return Lack(model, names, notice.t)


def ready_since(session: Session, t: int) -> bool:
    """Whether the server became ready after ``t``."""
    return any(state.s == "ready" and state.t > t for state in session.server_states.items)


def pull_since(session: Session, t: int) -> ev.Task | None:
    """How far the newest pull is that was begun after ``t``; None: none was, or nothing was told of it yet."""
    begun = next((c for c in reversed(session.controls.items) if c.op == "get" and c.ok and c.t > t), None)
    if begun is None or begun.task is None:
        return None
    return next((task for task in reversed(session.tasks.items) if task.task == begun.task), None)


def fetched(session: Session) -> ev.Task | None:
    """The task that runs, whole: a pull, not one of the layers that it tells of as tasks of their own, begun after it."""
    return next(iter(unended(session.tasks.items)), None)


def offer_words(lack: Lack, *, typing: bool = False) -> str:
    """The offer, on one row; while one is ``typing``, y is a letter."""
    close = f" · closest: {', '.join(lack.closest)}" if lack.closest else ""
    return clean(f"pull {lack.model}? {'esc, then y' if typing else 'y'} pulls it{close}")


class _Pull(Struct, frozen=True):
    """What was asked for: when, as of which moment of the session, and the request that is to be asked again."""

    model: str
    t: int
    r: int | None


class Lacking(Asking):
    """The key that pulls, and what follows from it."""

    _pull: _Pull | None = None
    _offered: bool = False

    @property
    def offer(self) -> str | None:
        """What is offered; None: nothing, or it is obeyed."""
        if self._lifeline is None or self._pull is not None:
            return None
        lack = lacking(self._source.session)
        return None if lack is None else offer_words(lack, typing=self.asking)

    def do_pull(self) -> None:
        """Pull the model that is lacking."""
        session = self._source.session
        lack = lacking(session)
        if self._lifeline is None or lack is None or self._pull is not None:
            return
        run = session.last_run()
        end = run.ends.last() if run is not None else None
        failed = run.r if run is not None and end is not None and end.finish == "error" else None
        self._pull = _Pull(lack.model, max(lack.t, session.last_t), failed)
        self._lifeline.pull(lack.model)

    def do_end_task(self) -> None:
        """End what is fetched."""
        task = fetched(self._source.session)
        if self._lifeline is not None and task is not None:
            self._lifeline.cancel_task(task.task)
            self.say(clean(f"ending: {task.title or 'what is fetched'}"))

    def pulled(self) -> None:
        """Time went on: ask again as soon as the model is there; say why it did not come.

        An offer that has just come takes the keys from an empty ask line, so that one key is enough.
        """
        offered = self.offer is not None
        if offered and not self._offered and not self.line.text:
            self.asking = False
        self._offered = offered
        asked, session = self._pull, self._source.session
        if asked is None or self._lifeline is None:
            return
        refused = next((c for c in session.controls.items if c.op == "get" and not c.ok and c.t >= asked.t), None)
        task = pull_since(session, asked.t - 1)
        if refused is not None or (task is not None and task.state in ("failed", "cancelled")):
            why = refused.why if refused is not None else task.why if task is not None else None
            if why is None and task is not None and task.state == "cancelled":
                why = f"the pull of {asked.model} was ended; what came of it is kept for the next time"
            self._pull = None
            self.say(clean(why or f"{asked.model} did not come"))
        elif ready_since(session, asked.t):
            self._pull = None
            if asked.r is None:
                self.say(clean(f"{asked.model} is there"))
                return
            try:
                self._lifeline.again(asked.r, cache=True)
            except PhasetopError as error:
                self.say(str(error))
                return
            self._newest()
