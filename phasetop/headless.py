"""`run` without a view: the reply's text as it comes, then the summary or one JSON object, then the exit status."""

from __future__ import annotations

import codecs
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Final, TextIO

from phasetop import events as ev
from phasetop.columns import ANSWER, THINK
from phasetop.events import shown
from phasetop.faults import (
    EXIT_FAILED,
    EXIT_HUNG_UP,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PIPE,
    EXIT_TERMINATED,
    EXIT_USAGE,
)
from phasetop.lifeline import Lifeline
from phasetop.output import print_json, say, silence_stdout, tell, writing
from phasetop.plan import Plan
from phasetop.progress_line import ProgressLine
from phasetop.recorded_words import tell_of_recording
from phasetop.recording import settle
from phasetop.session import Run, Session
from phasetop.visible import harmless

POLL_S: Final = 0.016
USAGE_CODES: Final = ("several-models", "usage")
"""Faults that the command line has to answer: exit 2."""


class Interrupts:
    """ctrl-C cancels, twice stops; SIGTERM and SIGHUP stop. Restores what was before on leaving the block."""

    def __init__(self) -> None:
        self.count = 0
        self.status: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        self._take(signal.SIGINT, self._interrupt)
        self._take(signal.SIGTERM, self._leave(EXIT_TERMINATED))
        if hasattr(signal, "SIGHUP"):
            self._take(signal.SIGHUP, self._leave(EXIT_HUNG_UP))
        return self

    def __exit__(self, *exception: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    def _take(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        self._before[number] = signal.signal(number, handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.count += 1
        if self.count > 1:
            self.status = EXIT_INTERRUPTED

    def _leave(self, status: int) -> Callable[[int, FrameType | None], None]:
        def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
            self.status = status

        return leave


class TextOut:
    """Streams a request's text: the answer to stdout, thinking to stderr (or stdout where asked).

    Into a pipe the bytes go as they are; on a terminal control characters are made visible.
    """

    def __init__(self, run_json: bool, show_thinking: bool) -> None:
        self._answer = sys.stderr if run_json else sys.stdout
        self._think = self._answer if show_thinking else sys.stderr
        self._next = 0
        self._pending = b""  # bytes of a character that is not whole yet
        self._last: TextIO | None = None
        self._ends_line = True
        self._stderr_open = False  # the last line there has no end yet
        self.wrote = False

    def write_new(self, run: Run) -> None:
        """Write what came since the last call. Raises `BrokenPipeError` when nobody reads stdout any more."""
        tokens = run.tokens
        for i in range(self._next, len(tokens)):
            channel = tokens.channel[i]
            if channel not in (ANSWER, THINK):
                continue
            text = self._whole(tokens.raw_bytes.get(i), tokens.text[i])
            if text:
                self._write(self._answer if channel == ANSWER else self._think, text)
        self._next = len(tokens)

    def _whole(self, raw: bytes | None, text: str | int) -> str:
        """A token's text; bytes that are no whole character wait for the rest of it."""
        if raw is None and not self._pending:
            return shown(text)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        done = decoder.decode(self._pending + (raw if raw is not None else shown(text).encode("utf-8", "replace")))
        self._pending = decoder.getstate()[0]
        return done

    def _write(self, out: TextIO, text: str) -> None:
        if self._last is not None and out is not self._last and not self._ends_line:
            self._put(self._last, "\n", only_terminal=True)
            self._stderr_open = self._stderr_open and not sys.stderr.isatty()
        self._put(out, text)
        self._last, self._ends_line, self.wrote = out, text.endswith("\n"), True
        if out is sys.stderr:
            self._stderr_open = not self._ends_line

    def _put(self, out: TextIO, text: str, *, only_terminal: bool = False) -> None:
        try:
            if out.isatty():
                out.write(harmless(text))
            elif not only_terminal:
                out.buffer.write(text.encode("utf-8", "replace"))
            out.flush()
        except OSError:
            if out is not sys.stderr:  # words beside the result are no reason to stop
                raise

    def end(self) -> None:
        """What is left of a character that never got whole, as one that cannot be read; a newline before a summary."""
        if self._pending:
            self._pending = b""
            self._write(self._last or self._answer, "\ufffd")
        if self._last is None:
            return
        together = _are_one(sys.stdout, sys.stderr)
        if self._last is sys.stdout and not self._last.isatty():  # it holds the text and nothing else
            open_line = not self._ends_line if together else self._stderr_open
        else:
            if not self._ends_line and self._last is sys.stdout:
                self._put(self._last, "\n")
            open_line = self._stderr_open and not (together and self._last is sys.stdout)
        if open_line:
            self._put(sys.stderr, "\n")


def _are_one(one: TextIO, other: TextIO) -> bool:
    """Whether both go to the same file or pipe."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def run_headless(lifeline: Lifeline, plan: Plan) -> int:
    """Ask, stream, sum up; returns the exit status. Closes the lifeline."""
    out = TextOut(plan.json is not None, plan.show_thinking)
    with Interrupts() as interrupts:
        try:
            with writing():
                command = lifeline.ask(
                    api="raw" if plan.api == "raw" else "chat",
                    messages=plan.messages,
                    prompt=plan.prompt,
                    tools=plan.tools,
                    settings=plan.settings,
                )
                status = _follow(lifeline, command, out, interrupts)
        except BrokenPipeError:
            silence_stdout()
            return EXIT_PIPE
        finally:
            lifeline.close()
    session = lifeline.follower.session
    run = session.runs.get(0)
    if run is None or run.info.at() is None:
        run = _never_asked(session, plan)
        say("the collector died before it could ask" + _last_words(lifeline))
    try:
        out.write_new(run)
        out.end()
        _report(session, run, plan, lifeline, wrote=out.wrote)
    except BrokenPipeError:
        silence_stdout()
        return EXIT_PIPE
    return status if status is not None else exit_status(run)


def _follow(lifeline: Lifeline, command: int, out: TextOut, interrupts: Interrupts) -> int | None:
    """Stream until the request has ended; a status where a signal decided it."""
    follower = lifeline.follower
    cancelled = False
    told = 0
    r: int | None = None
    progress = ProgressLine()
    while not follower.ended:
        came = follower.poll()
        session = follower.session
        if came and session.tasks.items:
            progress.follow(session)
        if r is None:
            r = _became(session, command)
            if r == -1:
                return EXIT_FAILED
        if came:
            told = tell_notices(session, told)
            if r is not None and r in session.runs:
                out.write_new(session.runs[r])
                if session.runs[r].ends.items:
                    return EXIT_INTERRUPTED if interrupts.count and cancelled else None
        if interrupts.status is not None:
            return interrupts.status
        if interrupts.count and not cancelled and r is not None:
            cancelled = True
            lifeline.cancel(r)
        if not came:
            time.sleep(POLL_S)
    return None


def _never_asked(session: Session, plan: Plan) -> Run:
    """The request as it would have been, cut: nothing is known of it but what was asked."""
    messages = plan.messages if plan.api == "chat" else None
    asked = plan.settings or None
    session.apply(ev.Request(t=0, r=0, api=plan.api, messages=messages, prompt=plan.prompt, tools=plan.tools, asked=asked))
    settle(session, session.last_t, "collector-died")
    return session.runs[0]


def _became(session: Session, command: int) -> int | None:
    """The request that a command became; −1 when it was refused; None: not answered yet."""
    for control in session.controls.items:
        if control.id == command and control.op == "ask":
            if not control.ok:
                say(control.why or "the collector refused the request")
                return -1
            return control.r
    return None


_WORTH_TELLING: Final = ("warn", "error")
_TOLD_INFO: Final = ("found", "batch-reduced", "reply-limit", "model-ignored", "no-props")
_TOLD_OTHERWISE: Final = ("key-needed", "collector-died", "not-installed", "server-lost")


def tell_notices(session: Session, told: int) -> int:
    """Warnings go to stderr as they come, each once; returns how many notices were looked at."""
    for notice in session.notices.items[told:]:
        if (notice.level in _WORTH_TELLING or notice.code in _TOLD_INFO) and notice.code not in _TOLD_OTHERWISE:
            say(notice.text)
    return len(session.notices.items)


def exit_status(run: Run) -> int:
    """0 fine; 1 failed or cut; 2 when the command line has to say more; 130 cancelled."""
    end = run.ends.last()
    if end is None or end.finish == "cut":
        return EXIT_FAILED
    if end.finish == "error":
        return EXIT_USAGE if end.error is not None and end.error.code in USAGE_CODES else EXIT_FAILED
    return EXIT_INTERRUPTED if end.finish == "cancelled" else EXIT_OK


def _report(session: Session, run: Run, plan: Plan, lifeline: Lifeline, *, wrote: bool) -> None:
    kept = None if lifeline.kept is None else lifeline.kept_as
    end = run.ends.last()
    usage = exit_status(run) == EXIT_USAGE
    if plan.json is not None and not usage:
        from phasetop import report

        print_json(report.request_object(session, run, kept_as=kept), plan.json)
    if end is not None and end.error is not None:
        say(error_line(session, end.error))
    elif end is not None and end.finish == "cut":
        say("the reply was cut: the stream ended before its end" + (_last_words(lifeline) if end.detail else ""))
    if plan.json is None and not usage and (wrote or end is None or end.error is None):
        from phasetop import summary

        for line in summary.lines(session, run, kept, lifeline.not_kept):
            tell(line)
    tell_of_recording(lifeline)


def error_line(session: Session, error: ev.Fault) -> str:
    """What went wrong; where redaction left out a server's words, what is known besides them."""
    if not isinstance(error.text, int):
        return shown(error.text)
    state = session.server_states.last()
    if state is not None and state.s == "gone" and state.why:
        return state.why
    known = ", ".join(str(each) for each in (error.status, error.code) if each is not None)
    return f"the request failed{f' ({known})' if known else ''}: the server's words are left out by --redact"


def _last_words(lifeline: Lifeline) -> str:
    words = [line for line in lifeline.log_tail().splitlines() if line.strip()]
    return f" ({harmless(words[-1][:200], newlines=False)})" if words else ""
