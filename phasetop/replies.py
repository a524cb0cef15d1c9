"""What was said: the text of a reply by channel, its tool calls, and the chat that led to it."""

from __future__ import annotations

from typing import Any

from phasetop import events as ev
from phasetop.columns import LIVE, TOOL
from phasetop.session import Run, Session


def channel_text(run: Run, channel: int, lines: int) -> tuple[str | None, int]:
    """The text that the first ``lines`` lines carry on a channel, and its length in UTF-8 bytes.

    Bytes that are no whole characters are joined over tokens; what stays broken becomes U+FFFD. None where redaction left it
    out.
    """
    tokens = run.tokens
    parts: list[bytes] = []
    missing = False
    size = 0
    for i in range(lines):
        if tokens.channel[i] != channel:
            continue
        raw, text = tokens.raw_bytes.get(i), tokens.text[i]
        if raw is not None:
            parts.append(raw)
            size += len(raw)
        elif isinstance(text, int):
            missing = True
            size += text
        elif text:
            parts.append(text.encode("utf-8", "replace"))
            size += len(parts[-1])
    return (None if missing else b"".join(parts).decode("utf-8", "replace")), size


def tool_calls(run: Run, lines: int) -> list[dict[str, Any]]:
    """The calls in the first ``lines`` lines, in order: index, id, name, and the arguments as the string that came.

    A line without a `Tool` goes on with the call before it. Arguments that redaction left out are None.
    """
    tokens = run.tokens
    calls: dict[int, dict[str, Any]] = {}
    pieces: dict[int, list[bytes] | None] = {}
    index = 0
    for i in range(lines):
        if tokens.channel[i] != TOOL:
            continue
        tool = tokens.tool.get(i)
        if tool is not None:
            index = tool.index
        call = calls.setdefault(index, {"index": index, "id": None, "name": None, "arguments": ""})
        if tool is not None:
            call["id"], call["name"] = call["id"] or tool.id, call["name"] or tool.name
        text = tokens.text[i]
        got = pieces.setdefault(index, [])
        if isinstance(text, int):
            pieces[index] = None if text else got
        elif got is not None:
            got.append(tokens.raw_bytes.get(i) or text.encode("utf-8", "replace"))
    for key, call in calls.items():
        found = pieces[key]
        call["arguments"] = None if found is None else b"".join(found).decode("utf-8", "replace")
    return list(calls.values())


def chat(session: Session, run: Run, cursor: int = LIVE) -> list[dict[str, Any]]:
    """All messages that a request sent, the history of its chain first: each earlier request's own, then its reply."""
    chain: list[Run] = [run]
    known = {run.r}
    while (info := chain[-1].info.at(cursor)) is not None and info.parent is not None:
        before = session.runs.get(info.parent)
        if before is None or before.r in known:
            break
        known.add(before.r)
        chain.append(before)
    said: list[dict[str, Any]] = []
    for one in reversed(chain):
        info = one.info.at(cursor)
        said += (info.messages or []) if info is not None else []
        if one is not run and (answer := _reply(one, cursor)) is not None:
            said.append(answer)
    return said


def _reply(run: Run, cursor: int) -> dict[str, Any] | None:
    """A reply as the next request's history holds it; None where nothing came."""
    lines = run.tokens.index(cursor)
    text, size = channel_text(run, 0, lines)
    calls = tool_calls(run, lines)
    if not size and not calls:
        return None
    answer: dict[str, Any] = {"role": "assistant", "content": size if text is None else text}
    if calls:
        answer["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in calls
        ]
    return answer


def prompt_of(run: Run, cursor: int = LIVE) -> ev.Text | None:
    """What was asked: the raw prompt, or the last user message (of its parts the texts); a length where redacted."""
    info = run.info.at(cursor)
    if info is None:
        return None
    if info.prompt is not None:
        return info.prompt
    asked = [message for message in info.messages or [] if message.get("role") == "user"]
    content = asked[-1].get("content") if asked else None
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict) and isinstance(part.get("text"), (str, int))]
        if any(isinstance(text, int) for text in texts):
            return sum(text if isinstance(text, int) else ev.text_bytes(text) for text in texts)
        return "".join(str(text) for text in texts)
    return content if isinstance(content, (str, int)) and not isinstance(content, bool) else None


def is_redacted(session: Session) -> bool:
    """Texts were left out of the recording."""
    return session.hello is not None and session.hello.redacted
