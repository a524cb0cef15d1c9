"""Sessions written down as event lines, the way a file holds them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from phasetop import codec
from phasetop.session import Session

sys.path.insert(0, str(Path(__file__).parents[2]))  # helpers beside the tests: tests.core.gguf_writer

Build = Callable[..., Session]


@pytest.fixture(scope="session")
def session_of() -> Build:
    """Make a Session of events given as the dicts that their lines hold, through the real decoder."""

    def build(*lines: dict[str, Any]) -> Session:
        session = Session()
        for line in lines:
            event = codec.decode_lean(msgspec.json.encode(line))
            assert event is not None, line
            session.apply(event)
        return session

    return build
