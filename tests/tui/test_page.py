"""The text pane's content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop.columns import Tokens
from phasetop.tui.page import Picked, PromptText, Reply, gutter_time, swept, token_ink
from phasetop.tui.search import Search
from phasetop.tui.theme import ink
from phasetop.tui.wrap import text_width

MS = 1_000_000


def reply_of(texts: list[str], gap_ms: float = 10.0, **keys: object) -> Reply:
    tokens = Tokens()
    for i, text in enumerate(texts):
        tokens.append(ev.Tok(t=int((i + 1) * gap_ms * MS), r=0, x=text, **keys))  # type: ignore[arg-type]
    reply = Reply(tokens, 20)
    reply.grow()
    return reply


def shown(reply: Reply, height: int, upto: int | None = None, top: int | None = None) -> list[str]:
    page = reply.page(len(reply.tokens) if upto is None else upto, height, 0, "gap", top)
    return ["".join(text for text, _ in row.runs) for row in page.rows]


LINES = [f"line {i}\n" for i in range(10)]


@given(st.integers(1, 60), st.integers(1, 20))
def test_when_the_reply_is_over_its_last_rows_stand_in_order_and_in_colour(lines: int, height: int) -> None:
    reply = reply_of([f"line {i}\n" for i in range(lines - 1)] + ["end"])
    page = reply.page(len(reply.tokens), height, 0, "gap", None, over=True)
    rows = ["".join(text for text, _ in row.runs) for row in page.rows]
    every = [*(f"line {i}" for i in range(lines - 1)), "end"]
    assert [row.rstrip() for row in rows if row.strip()] == every[-height:]
    assert ink("faint") not in [how for row in page.rows for _, how in row.runs]
    assert page.below == 0


@pytest.mark.parametrize(
    ("rows", "shows"),
    [
        (1, ["0", None, None, None]),
        (4, ["0", "1", "2", "3"]),
        (5, ["4", None, "2-", "3-"]),
        (7, ["4", "5", "6", None]),
        (8, ["4", "5", "6", "7"]),
        (9, ["8", None, "6-", "7-"]),
    ],
)
def test_the_page_is_swept_and_a_blank_row_runs_ahead(rows: int, shows: list[str | None]) -> None:
    page, _ = swept(rows, 4)
    assert [None if each is None else f"{each[0]}{'' if each[1] else '-'}" for each in page] == shows


@given(st.integers(1, 200), st.integers(4, 40))
def test_the_pen_is_on_the_newest_row(rows: int, height: int) -> None:
    page, pen = swept(rows, height)
    assert page[pen] == (rows - 1, True)
    assert [each for each in page if each is not None and not each[1]] == sorted(
        each for each in page if each is not None and not each[1]
    )


def test_old_rows_are_grey_and_new_ones_have_their_step() -> None:
    page = reply_of(LINES[:5]).page(5, 4, 0, "gap", None)
    assert page.rows[0].runs == (("line 4", ink("gap3")),)
    assert page.rows[3].runs == (("line 3", ink("faint")),)


def test_a_scrolled_page_is_an_ordinary_one() -> None:
    reply = reply_of(LINES)
    assert shown(reply, 4, top=2) == ["line 2", "line 3", "line 4", "line 5"]
    assert reply.page(10, 4, 0, "gap", 2).below == 5  # four lines and the empty row after the last line end
    assert reply.page(10, 4, 0, "gap", None).total == 11


def test_few_rows_are_scrolled_not_swept() -> None:
    assert shown(reply_of(LINES[:5]), 2) == ["line 4", ""]


def test_the_gutter_has_the_time_of_the_rows_first_token() -> None:
    page = reply_of(["one ", "two\n", "three"], gap_ms=1500).page(3, 5, 0, "gap", None)
    assert [row.gutter for row in page.rows[:2]] == ["1.50", "4.50"]
    assert gutter_time(1_234_560_000_000) == "20:34"


def test_a_stall_is_reversed_and_in_the_gutter_but_its_blank_is_not() -> None:
    tokens = Tokens()
    t = 0
    for i in range(20):
        t += 10 * MS if i != 19 else 320 * MS
        tokens.append(ev.Tok(t=t, r=0, x=" x"))
    reply = Reply(tokens, 60)
    reply.grow()
    row = reply.page(20, 5, 0, "gap", None).rows[0]
    assert (row.gutter, row.gutter_role) == ("+320", "stall")
    assert row.runs[-1] == ("x", ink("ground", "gap7"))
    assert row.runs[-2][0].endswith(" ")


@pytest.mark.parametrize(
    ("logp", "how"),
    [
        (-0.01, ink("prob1")),
        (-0.3, ink("prob2")),
        (-0.7, ink("prob3")),
        (-1.7, ink("prob4")),
        (-3.0, ink("prob5", None, "u")),
        (None, ink("faint")),
    ],
)
def test_probabilities(logp: float | None, how: object) -> None:
    tokens = Tokens()
    tokens.append(ev.Tok(t=0, r=0, x="x", p=logp))
    assert token_ink(tokens, 0, "probability") == how


def test_channels() -> None:
    tokens = Tokens()
    for channel in ("answer", "think", "tool"):
        tokens.append(ev.Tok(t=0, r=0, x="x", c=channel))
    assert [token_ink(tokens, i, "channel") for i in range(3)] == [ink("answer"), ink("thinking", None, "i"), ink("tool")]
    assert token_ink(tokens, 1, "gap") == ink("gap3", None, "i")


def test_the_prompt_is_shown_around_the_border_between_read_and_to_come() -> None:
    pieces = [f"w{i} " if i % 5 < 4 else f"w{i}\n" for i in range(100)]
    page = PromptText(pieces, 40, counted=True).page(52, 6)
    texts = ["".join(text for text, _ in row.runs) for row in page.rows]
    assert any("w52" in text for text in texts)
    border = next(row for row in page.rows if any("w51" in text for text, _ in row.runs))
    assert [how.fg for _, how in border.runs] == ["gap3", "faint"]
    assert border.gutter == "50"


def test_the_pen_stands_at_a_blank_behind_what_is_read_and_nowhere_when_nothing_is() -> None:
    prompt = PromptText(["What", " is", " love"], 40, counted=True)
    assert prompt.page(0, 6).pen is None  # behind "What" it would say that this much is read
    assert prompt.page(1, 6).pen == (0, 4)
    assert prompt.page(2, 6).pen == (0, 7)


def test_a_prompt_whose_tokens_are_unknown_is_shown_as_asked() -> None:
    page = PromptText(["What is love?"], 40, counted=False).page(None, 3)
    assert page.rows[0].runs == (("What is love?", ink("soft")),)
    assert page.pen is None


def test_an_empty_prompt_does_no_harm() -> None:
    assert PromptText([], 10, counted=True).page(0, 3).rows[0].runs == ()


def test_tokens_that_mark_a_chats_structure_are_named_and_reversed() -> None:
    reply = reply_of(["Hi", "<|im_end|>", "a < b", "</s>", "[INST]", "<b>"])
    runs = reply.page(6, 4, 0, "gap", None).rows[0].runs + reply.page(6, 4, 0, "gap", None).rows[1].runs
    special = [text for text, how in runs if how == ink("ground", "special")]
    assert "".join(special) == "<|im_end|></s>[INST]"


def test_the_prompts_special_tokens_are_reversed_read_or_not() -> None:
    page = PromptText(["<|im_start|>", "user", " hello", "<|im_end|>"], 60, counted=True).page(2, 3)
    assert [(text, how.bg) for text, how in page.rows[0].runs] == [
        ("<|im_start|>", "special"),
        ("user", None),
        (" hello", None),
        ("<|im_end|>", "special"),
    ]


def rows_with(reply: Reply, picked: Picked, height: int = 6) -> list[tuple[tuple[str, str], ...]]:
    page = reply.page(len(reply.tokens), height, 0, "plain", 0, picked)
    return [tuple((text, how.style) for text, how in row.runs) for row in page.rows]


def test_the_cursor_covers_a_word_and_not_the_blank_before_it() -> None:
    reply = reply_of(["one", " two", " three"])
    assert rows_with(reply, Picked(1, 2))[0] == (("one", ""), (" ", ""), ("two", "r"), (" three", ""))


def test_a_selection_covers_blanks_too() -> None:
    reply = reply_of(["one", " two", " three"])
    assert rows_with(reply, Picked(1, 3))[0] == (("one", ""), (" two three", "r"))


def test_a_cursor_on_a_line_end_or_on_a_token_without_text_has_a_cell() -> None:
    reply = reply_of(["one", "\n", "two", ""])
    assert rows_with(reply, Picked(1, 2))[:2] == [(("one", ""), (" ", "r")), (("two", ""),)]
    assert rows_with(reply, Picked(3, 4))[1] == (("two", ""), (" ", "r"))


def test_a_hit_over_tokens_and_rows_is_marked_in_all_of_its_pieces() -> None:
    reply = reply_of(["a hash", " table keeps a hash", " table", " hash table"])  # 20 columns
    search = Search("hash table", reply.wrap.texts)
    search.grow()
    marked = ["".join(text for text, style in row if "u" in style) for row in rows_with(reply, Picked(search=search))]
    assert "".join(marked).replace(" ", "") == "hashtable" * 3


@pytest.mark.parametrize(
    "texts",
    [
        ["日本語", "の", "テキスト"] * 10,
        ["שלום", " עולם", " مرحبا"] * 10,
        ["e\u0301", "a\u0308\u0304", "n\u0303"] * 20,
        ["👩", "\u200d👩", "\u200d👧", "👍🏽", "🇩", "🇪"] * 10,
        ["a\tb", "\t\t", "c\t"] * 10,
        ["x" * 5000],
        ["\r\n", "\x1b[2J", "\x07", "\u202e"] * 5,
    ],
    ids=["wide", "rtl", "combining", "emoji", "tabs", "long", "controls"],
)
def test_whatever_a_reply_is_made_of_it_fits_and_the_cursor_finds_every_token(texts: list[str]) -> None:
    reply = reply_of(texts)
    upto = len(texts)
    for y in range(reply.wrap.rows(upto)):
        for token in range(upto):
            page = reply.page(upto, 1, 0, "gap", y, Picked(token, token + 1))
            for row in page.rows:
                text = "".join(run for run, _ in row.runs)
                assert text_width(text) <= 20 + 1  # a line end under the cursor has a cell of its own
                assert all(char.isprintable() for char in text)
            if upto * reply.wrap.rows(upto) > 2000:
                break
    for token in range(upto):
        number = reply.wrap.row_of(token)
        found = reply.token_at(number, reply.column_of(token, number, upto), upto)
        assert found is not None
        assert found == token or not reply.wrap.texts[token].strip() or text_width(reply.wrap.texts[token].strip()) == 0


def test_bytes_of_a_character_over_tokens_are_one_character_of_the_last() -> None:
    tokens = Tokens()
    for x, b in (("so ", None), ("", "8J8="), ("", "mIA="), ("!", None)):
        tokens.append(ev.Tok(t=len(tokens) * MS, r=0, x=x, b=b))
    reply = Reply(tokens, 20)
    reply.grow()
    assert "".join(text for text, _ in reply.page(4, 3, 0, "gap", None).rows[0].runs) == "so 😀!"


def test_a_hundred_thousand_tokens_are_shown_from_any_place() -> None:
    tokens = Tokens()
    for i in range(100_000):
        tokens.append(ev.Tok(t=(i + 1) * MS, r=0, x=f" w{i}"))
    reply = Reply(tokens, 80)
    reply.grow()
    for token in (0, 1, 49_999, 99_999):
        row = reply.wrap.row_of(token)
        page = reply.page(100_000, 30, 0, "gap", row, Picked(token, token + 1))
        assert [text for text, how in page.rows[0].runs if "r" in how.style] == [f"w{token}"]
        assert reply.token_at(row, reply.column_of(token, row, 100_000), 100_000) == token
