"""What is said of a recording when the run is over: that it is not compressed, and, once ever, that texts are in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from phasetop import places
from phasetop.output import say

if TYPE_CHECKING:
    from phasetop.lifeline import Lifeline

NAME: Final = "told-of-texts"
"""The file in the state folder by which it is known that it was said."""
TEXT: Final = (
    "the recording holds what was asked and answered, for you alone; --redact leaves the texts out (said this once)"
)


def tell_of_recording(lifeline: Lifeline) -> None:
    """Say what is to be said; where nothing can be remembered, nothing of texts."""
    if lifeline.not_zipped is not None:
        say(lifeline.not_zipped)
    hello = lifeline.follower.session.hello
    if lifeline.kept is None or hello is None or hello.redacted:
        return
    try:
        (places.make_private(places.state_folder()) / NAME).touch(mode=0o600, exist_ok=False)
    except OSError:
        return
    say(TEXT)
