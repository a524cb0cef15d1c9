"""The chats that a collector keeps: whole where one goes on, each message once, and nothing of a request that ended."""

from __future__ import annotations

import gc
import weakref
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from phasetop.backends.chat import Conversation
from phasetop.backends.recorder import Recorder
from phasetop.backends.target import Target
from phasetop.backends.turn import Turn


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


@given(st.lists(st.integers(-1, 30), max_size=30))
def test_history_is_the_chain_of_parents(links: list[int]) -> None:
    chat, whole = Conversation(), dict[int, list[dict[str, Any]]]()
    for r, link in enumerate(links):
        parent = link if 0 <= link < r else None
        chat.add(r, parent, [said("user", f"q{r}")], f"a{r}", {})
        whole[r] = [*(whole[parent] if parent is not None else []), said("user", f"q{r}"), said("assistant", f"a{r}")]
    for r, messages in whole.items():
        assert chat.history(r) == messages
    assert chat.history(None) == chat.history(999) == []


def test_an_empty_reply_is_left_out_and_calls_are_kept_in_order() -> None:
    chat = Conversation()
    chat.add(0, None, [said("user", "q")], "", {})
    assert chat.history(0) == [said("user", "q")]
    chat.add(1, 0, [said("user", "w")], "", {1: {"id": "b", "name": "y"}, 0: {"id": "a", "name": "x", "arguments": "{}"}})
    assert [call["id"] for call in chat.history(1)[-1]["tool_calls"]] == ["a", "b"]


def test_where_a_prompt_differs_from_its_parents() -> None:
    chat = Conversation()
    assert chat.diverge(0, None, (1, 2, 3)) is None
    assert chat.diverge(1, 0, (1, 2, 4, 5)) == 2
    assert chat.diverge(2, 0, (1, 2, 3, 4)) == 3
    assert chat.diverge(3, 7, (1,)) is None


class Nothing:
    """A target that is no longer there, and an owner that only listens."""

    endpoint = backend = None

    def wait_ready(self, cancelled: object) -> None:
        return None

    def finished(self, turn: Turn) -> None:
        return None


def test_a_turn_that_ended_holds_nothing_of_those_before_it() -> None:
    recorder = Recorder(None, -1)
    nothing = cast(Any, Nothing())
    first = Turn(0, nothing, recorder, cast(Target, nothing), [])
    second = Turn(1, nothing, recorder, cast(Target, nothing), [first])
    first.run()
    second.run()
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
    assert second.done.is_set()
    assert second.generation is None
