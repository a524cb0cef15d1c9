"""What of a token is drawn: harmless, of exact width, bytes joined over tokens."""

from __future__ import annotations

from base64 import b64encode

from hypothesis import given
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop.columns import Tokens
from phasetop.tui.facts import prompt_pieces
from phasetop.tui.tokentext import TokenTexts, drawable
from phasetop.tui.wrap import char_width


def tokens_of(*toks: ev.Tok) -> Tokens:
    tokens = Tokens()
    for tok in toks:
        tokens.append(tok)
    return tokens


def test_plain_text_is_the_same_object() -> None:
    text = " hello"
    assert drawable(text) is text


def test_a_tab_becomes_blanks_and_a_windows_line_end_a_newline() -> None:
    assert drawable("a\tb\r\nc") == "a    b\nc"


def test_a_redacted_text_is_dots() -> None:
    assert drawable(6) == "······"


def test_joined_emoji_become_their_parts() -> None:
    assert drawable("👨\u200d👩") == "👨👩"
    assert drawable("👍🏽") == "👍"
    assert drawable("❤\ufe0f") == "❤"
    assert drawable("🇩🇪") == "DE"
    assert drawable("1\ufe0f\u20e3") == "1"


@given(st.text(max_size=30))
def test_nothing_that_drives_a_terminal_comes_through(text: str) -> None:
    for char in drawable(text):
        assert char == "\n" or (char_width(char) in (0, 1, 2) and ord(char) >= 0x20 and not 0x7F <= ord(char) < 0xA0)


def test_the_bytes_of_an_emoji_split_over_tokens_are_one_character() -> None:
    data = "😊".encode()
    toks = [ev.Tok(t=i, r=0, x="", b=part) for i, part in enumerate(("8J8=", "mIo="))]  # f0 9f | 98 8a
    texts = TokenTexts(tokens_of(*toks))
    assert data == b"\xf0\x9f\x98\x8a"
    assert texts.new() == ["", "😊"]


def test_bytes_that_never_become_whole_are_a_mark_before_the_next_text() -> None:
    texts = TokenTexts(tokens_of(ev.Tok(t=0, r=0, x="", b="8J8="), ev.Tok(t=1, r=0, x="ok")))
    assert texts.new() == ["", "�ok"]


def test_new_gives_each_token_once() -> None:
    tokens = tokens_of(ev.Tok(t=0, r=0, x="a"))
    texts = TokenTexts(tokens)
    assert texts.new() == ["a"]
    tokens.append(ev.Tok(t=1, r=0, x="b"))
    assert texts.new() == ["b"]
    assert texts.new() == []


def test_a_prompts_character_of_several_tokens_is_shown_whole() -> None:
    def as_piece(data: bytes) -> dict[str, str]:
        return {"b": b64encode(data).decode()}

    division, face = "÷".encode(), "🙂".encode()
    pieces: list[str | int | dict[str, str]] = [
        "cache ",
        as_piece(division[:1]),
        as_piece(division[1:]),
        " b",
        as_piece(face[:1]),
        as_piece(face[1:3]),
    ]
    assert prompt_pieces([*pieces, as_piece(face[3:]), 12]) == ["cache ", "", "÷", " b", "", "", "🙂", drawable(12)]
    assert prompt_pieces([*pieces, " so"]) == ["cache ", "", "÷", " b", "", "", "� so"]
    assert "".join(prompt_pieces(pieces)) == "cache ÷ b�"
    assert prompt_pieces([as_piece(b"\xff")]) == ["�"]
