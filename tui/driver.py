"""The terminal's input without what no person typed, and its output without what changes nothing.

Late answers of the terminal (to the questions of `terminal`, or of a program before this one) and mouse reports in the
old form would reach the view as keys, and bytes that are no UTF-8 would end the thread that reads. So the bytes are sifted
before they are decoded.
"""

from __future__ import annotations

import asyncio
import os
import re
import selectors
from codecs import getincrementaldecoder
from collections.abc import Callable
from functools import cached_property
from typing import Final

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from phasetop.tui.shadow import Shadow

_NO_KEYS: Final = re.compile(
    rb"\x1b\](?=\d)[^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: the ground's colour, a clipboard
    rb"|\x1b[P_^][^\x1b]*\x1b\\"  # DCS, APC, PM: what a terminal says of itself
    rb"|\x1b\[[?>=][0-9;]*c"  # DA: its attributes
    rb"|\x1b\[M[\x20-\xff]{3}",  # the mouse in the form of X10, which no UTF-8 holds
    re.DOTALL,
)
_BEGUN: Final = re.compile(
    rb"\x1b\]\d[^\x07\x1b]*\x1b?\Z|\x1b[P_^][^\x1b]+\x1b?\Z|\x1b\[(?:[?>=][0-9;]*|M[\x20-\xff]{0,2})?\Z"
)
_LONGEST: Final = 4096
"""Of a sequence that never ends no more is held back."""


class Sieve:
    """Takes reads of the terminal, gives back what was typed; what is cut in two waits for its other half."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """The bytes that are keys, pastes, the mouse, or reports that the view asked for."""
        data = _NO_KEYS.sub(b"", self._held + data)
        self._held = b""
        begun = _BEGUN.search(data)
        if begun is not None and len(begun[0]) < _LONGEST:
            self._held = begun[0]
            data = data[: begun.start()]
        return data


class TerminalDriver(LinuxDriver):
    """Textual's driver, with its input sifted; `lost` is called (on the input's thread) when the terminal is gone."""

    lost: Callable[[], None] | None = None
    _size: os.terminal_size | None = None

    @cached_property
    def shadow(self) -> Shadow:
        """What the terminal shows."""
        return Shadow()

    def write(self, data: str) -> None:
        """Send what is not there yet; of a terminal of another size nothing is known."""
        try:
            size = os.get_terminal_size(self.fileno)
        except OSError:
            size = None
        if size != self._size:
            self._size = size
            self.forget()
        if sent := self.shadow.send(data):
            super().write(sent)

    def forget(self) -> None:
        """Something else may stand on the terminal: send all again that is drawn."""
        self.shadow.forget(self._size.columns if self._size is not None else 0)

    def _sigcont_application(self, *arguments: object) -> None:
        """Go on: as Textual does after ctrl-Z; after a SIGSTOP, which nobody can prepare for, as `_set_up_again`."""
        if self._key_thread is None or not self._key_thread.is_alive():
            super()._sigcont_application(*arguments)
        else:  # not here: what was interrupted may hold the lock of the output's queue
            asyncio.get_running_loop().call_soon_threadsafe(self._set_up_again)

    def _set_up_again(self) -> None:
        """Set the terminal's modes again, on it as it was before.

        Textual alone would begin a second time beside what runs: two threads then share the keys, one of them never ends,
        and what the terminal was like before is forgotten.
        """
        before, writer = self.attrs_before, self._writer_thread
        self.disable_input()
        if writer is not None:
            writer.stop()
        super().resume_application_mode()
        self.attrs_before = before
        self.forget()

    def run_input_thread(self) -> None:
        """Read and dispatch until the application mode ends."""
        parser, sieve = XTermParser(self._debug), Sieve()
        decode = getincrementaldecoder("utf-8")("replace").decode
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            last = False
            while not last:
                last = self.exit_event.is_set()
                if selector.select(0.1):
                    try:
                        data = os.read(self.fileno, 4096)
                    except OSError:
                        data = b""
                    if not data:
                        if self.lost is not None:
                            self.lost()
                        return
                    if text := decode(sieve.feed(data)):
                        for message in parser.feed(text):
                            self.process_message(message)
                for message in parser.tick():
                    self.process_message(message)
