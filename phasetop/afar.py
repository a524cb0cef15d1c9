"""A session of another machine, followed through links that may be cut anywhere.

Whole lines count: after a cut the far file is read on behind the last whole line that came, so nothing is lost and nothing
comes twice, also where the cut is within a line or within a character.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from phasetop import codec, far
from phasetop import events as ev
from phasetop.alternatives import Alternative
from phasetop.faults import FormatError, PhasetopError
from phasetop.inflow import HEAD_BYTES, Inflow
from phasetop.link import Connection
from phasetop.parts import SUFFIX, part_name, split_stem, stem_of
from phasetop.present import Present
from phasetop.recording import check_hello, notice, settle, why_it_ended
from phasetop.session import Session
from phasetop.ssh import Address, Failure
from phasetop.standing import Standing
from phasetop.unzipped import GZIP_MAGIC
from phasetop.visible import harmless

GIVE_UP_S: Final = 600.0
"""A link that did not come back in this time is lost for good."""
PAUSES_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Before each further try; the last one again and again."""
_SILENT_S: Final = 3
_QUIET_S: Final = 30
"""A writer says something every ten seconds: after this silence it seems gone, where no lock tells."""

Connect = Callable[[Address], Connection]


class FarSession:
    """The session in a file of another machine; `phasetop.tui.source.Source` has the contract.

    Args:
        address: the far machine.
        name: what the file is called there: a path, a recording's name, ``@last``, a live session's id.
        connection: one whose script is ready and idle; None: `connect` makes it.
        connect: makes connections.
        clock: seconds of a steady clock.
    """

    def __init__(
        self,
        address: Address,
        name: bytes,
        connection: Connection | None = None,
        *,
        connect: Connect = Connection,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = address
        self.lost: str | None = None  # why it is over, where the link is lost for good
        self._names = [name]  # what the file may be called there
        self._gone_on: ev.Part | None = None  # the further part that is followed
        self._connect = connect
        self._clock = clock
        self._inflow = Inflow()
        self._present = Present(lambda: int(clock() * 1e9))
        self._known = False  # the file was opened once
        self._gone = False
        self._opened: far.Opened | None = None  # by this connection
        self._started_at = 0  # the offset that this connection began with
        self._before = b""  # the end of what it brought last: a word may be cut in two
        self._failed: Failure | None = None
        self._since = 0.0
        self._tries = 0
        self._again_at = 0.0
        self._names_left: list[bytes] = []
        self._link: Connection | None = connection
        if connection is not None:
            self._ask()
        else:
            self._link = connect(address)

    @property
    def session(self) -> Session:
        """What is known so far."""
        return self._inflow.session

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return not self._gone

    def now(self) -> int:
        """The far session's present, as far as it is known: the last event where nothing comes."""
        known = self.live and self._failed is None
        return self._present.at(self.session.last_t) if known else self.session.last_t

    def alternatives(self, r: int, i: int) -> tuple[tuple[Alternative, ...], ...]:
        """What each token of a line could have been, read again from the copy."""
        return self._inflow.alternatives(r, i)

    def copied(self) -> bytes | None:
        """The bytes of the far file that came."""
        return self._inflow.copied()

    @property
    def standing(self) -> Standing | None:
        """What is to be said of the link; None while there is nothing."""
        if self.lost is not None:
            return Standing("link lost", self.lost)
        if self._gone:
            return None
        if self._failed is not None:
            lost = f"link lost {self._clock() - self._since:.0f} s"
            return Standing(lost, f"{lost}, trying again: {self._failed.text}")
        if self._opened is None:
            return Standing("connecting", f"connecting to {self.address}")
        silent = int(self._present.silent_ns / 1e9)
        if silent < _SILENT_S:
            return None
        why = "the link hangs, or the far machine does"
        if silent >= _QUIET_S:
            why = "its writer may be gone" if self._opened.held == "unknown" else "the far run hangs"
        return Standing(f"silent {silent} s", f"nothing has come for {silent} s: {why}")

    def poll(self) -> bool:
        """Take what came, without waiting; True when something did. Connects again by itself.

        Raises:
            PhasetopError: the first connection failed, or there is no such session.
            FormatError: the file is no session's, or of a newer format.
        """
        if self._gone:
            return False
        if self._link is None:
            if self._clock() >= self._again_at:
                self._tries += 1
                self._link = self._connect(self.address)
            return False
        came, link = False, self._link
        for said in link.read():
            came = self._hear(said) or came
            if self._link is None:
                break
        if came:
            self._present.read(self.session.last_t)
        if self.session.bye is not None:
            self._gone = True
            self.close()
        elif self._opened is not None and self._goes_on():
            self.close()
        elif self._link is not None and self._opened is not None and self._all_of_it(link.freed_at):
            self._end(why_it_ended(self.session))
            return True
        elif self._link is not None and link.failure is not None:
            self._fail(link.failure)
            return came or self._gone
        return came

    def _all_of_it(self, freed_at: int | None) -> bool:
        return freed_at is not None and self._inflow.size >= freed_at

    def _goes_on(self) -> bool:
        """Whether all of this file came and the session goes on in another: that is asked for over a new connection."""
        part = self.session.goes_on
        if part is None or part.part <= self._inflow.part or self._inflow.size > self._inflow.whole:
            return False
        folder, slash, name = self._names[0].rpartition(b"/")
        stem = split_stem(stem_of(os.fsdecode(name)))[0]
        self._names = [folder + slash + os.fsencode(part_name(stem, part.part) + SUFFIX)]
        if other := stem_of(os.path.basename(part.file or "")):  # it lies in the live folder there, perhaps
            self._names.append(os.fsencode(other))
        self._gone_on, self._opened, self._again_at = part, None, 0.0
        self._inflow.go_on()
        return True

    def _hear(self, said: far.Said) -> bool:
        """Obey what the far side says; True when the session grew."""
        match said:
            case far.Ready():
                self._ask()
            case far.Refused(why):
                self._refused(why)
            case far.Opened():
                self._open(said)
            case far.Data(data):
                return self._take(data)
        return False

    def _ask(self) -> None:
        """Ask for what follows the last whole line."""
        self._inflow.resume()
        self._started_at, self._before = self._inflow.whole, b""
        self._names_left = list(self._names)
        self._ask_for(self._names_left.pop(0))

    def _ask_for(self, name: bytes) -> None:
        assert self._link is not None
        hello = self.session.hello
        session = hello.session if hello is not None and self._gone_on is None else None
        self._link.send(far.follow_line(self._started_at, name, session))

    def _refused(self, why: str) -> None:
        if self._names_left:
            self._ask_for(self._names_left.pop(0))
            return
        if self._gone_on is not None and not self._inflow.size:
            self._fail(Failure("far", f"part {self._gone_on.part} of the session is not there yet"))
            return
        if self._known:
            self._lose("the far file is gone: its run has ended and was not kept")
            return
        self.close()
        name = harmless(self._names[0].decode("utf-8", "replace"), newlines=False)
        wrong = f"there is no session {name!r}" if why == "none" else f"{name!r} cannot be read"
        raise PhasetopError(f"{self.address}: {wrong}")

    def _open(self, opened: far.Opened) -> None:
        """Compare what stands there with what came before; another session is read from its beginning."""
        if not self._known:
            try:
                _check(opened.first)
            except FormatError as error:
                self.close()
                path = harmless(opened.path.decode("utf-8", "replace"), newlines=False)
                raise FormatError(f"{self.address}:{path}: {error}") from None
            self._known = True
        elif self._started_at and (opened.size < self._started_at or opened.first != self._inflow.first):
            self._inflow.start_over()
            self._fail(Failure("lost", "another session stands there now"))
            return
        self._names = [opened.path]
        self._opened, self._failed, self._tries = opened, None, 0

    def _take(self, data: bytes) -> bool:
        """Apply bytes, up to where the far `tail` begins again with the first line: the file was cut back there."""
        assert self._opened is not None
        looked = self._before + data
        at_start = self._inflow.size - len(self._before) == self._started_at
        again = looked.find(far.HELLO, 1 if at_start else 0)
        if again >= 0:
            data = data[: max(0, again - len(self._before))]
        self._before = looked[1 - len(far.HELLO) :]
        new = self.session.hello is None
        came = self._inflow.take(data)
        if new and self.session.hello is not None and self._opened.polls_s:
            text = f"the far tail looks once in {self._opened.polls_s} s: tokens come in bunches, their times are right"
            notice(self.session, "far-polls", text)
        if again >= 0:
            self._fail(Failure("lost", "the far file was cut back"))
        return came

    def _fail(self, failure: Failure) -> None:
        """The connection is over: try again later, or never."""
        self.close()
        if not self._known:
            raise PhasetopError(failure.text)
        if self._failed is None:
            self._since = self._clock()
        self._failed, self._opened = failure, None
        if failure.lasting or self._clock() - self._since > GIVE_UP_S:
            self._lose(failure.text)
            return
        self._again_at = self._clock() + PAUSES_S[min(self._tries, len(PAUSES_S) - 1)]

    def _lose(self, why: str) -> None:
        self.lost = why
        self._end("link-lost")

    def _end(self, why: str) -> None:
        """Nothing comes any more: what ran is cut."""
        self.close()
        self._gone = True
        settle(self.session, self.session.last_t, why)

    def close(self) -> None:
        """End the connection, here and there."""
        if self._link is not None:
            self._link.close()
            self._link = None


def _check(first: bytes) -> None:
    """Refuse what is no session of a format that this version reads. Raises `FormatError`."""
    if first.startswith(far.HELLO) and len(first) >= HEAD_BYTES - 1:
        return  # too long to be shown whole
    if first.startswith(GZIP_MAGIC):
        raise FormatError("a packed recording is not read over ssh: copy it here (scp), then `phasetop replay` it")
    try:
        event = codec.decode_lean(first)
    except codec.BadLine:
        event = None
    if event is None:
        raise FormatError("this is no phasetop session: its first line is none's")
    check_hello(event)
