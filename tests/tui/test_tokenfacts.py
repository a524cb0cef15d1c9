"""One token, read."""

from __future__ import annotations

from phasetop import events as ev
from phasetop.alternatives import Alternative
from phasetop.session import Run
from phasetop.tui.cells import Part
from phasetop.tui.tokenfacts import probability, quoted, reading, token_facts, token_lines

MS = 1_000_000
TOLD = ((Alternative(" the", -0.1), Alternative(" a", -2.5), Alternative("\x1b", -7.0)),)


def words(parts: list[Part]) -> str:
    return "".join(part if isinstance(part, str) else part[0] for part in parts)


def run_of(*lines: ev.Tok) -> Run:
    run = Run(0)
    for tok in lines:
        run.tokens.append(tok)
    return run


def test_a_token_is_read_in_one_row() -> None:
    run = run_of(ev.Tok(t=50 * MS, r=0, x="A", p=-0.5), ev.Tok(t=62 * MS, r=0, x=" a", p=-2.5))
    facts = token_facts(run, 1, 10 * MS, TOLD)
    text = words(reading(facts, 200, alternatives=True))
    assert text == (
        "token 2   ' a'   at 0.052 s   gap 12.0 ms   p 0.082   rank 2   ' the' 0.90   '␛' 0.00091   i explains it"
    )
    for width in range(0, 120, 7):
        assert len(words(reading(facts, width, alternatives=True))) <= max(width, 0)


def test_what_is_not_known_is_a_dash_with_its_reason() -> None:
    facts = token_facts(run_of(ev.Tok(t=50 * MS, r=0, x="A")), 0, 0, ())
    assert "gap —" in words(reading(facts, 200, alternatives=False))
    assert "p — not asked for" in words(reading(facts, 200, alternatives=False))
    text = "\n".join(words(list(line)) for line in token_lines(facts, None))
    assert "—" in text
    assert "not asked for; the probability colours (c) ask" in text
    assert "not told" in text


def test_several_tokens_a_line_and_lines_that_do_not_count() -> None:
    run = run_of(ev.Tok(t=1, r=0, x=["a", "b", "c"]), ev.Tok(t=2, r=0, x="d", n=None))
    assert words(reading(token_facts(run, 0, 0, ()), 100, alternatives=False)).startswith("token 1–3   'abc'")
    assert words(reading(token_facts(run, 1, 0, ()), 100, alternatives=False)).startswith("chunk 4   'd'")


def test_a_rank_beyond_what_was_told_is_unknown() -> None:
    run = run_of(ev.Tok(t=1, r=0, x="far", p=-9.0))
    assert token_facts(run, 0, 0, TOLD).rank is None
    assert token_facts(run_of(ev.Tok(t=1, r=0, x=" the", p=-0.1)), 0, 0, TOLD).rank == 1


def test_texts_are_harmless_and_redacted_ones_are_lengths() -> None:
    assert quoted("\x1b[2J\n") == "'␛[2J␊'"
    assert quoted("'s") == '"\'s"'
    assert quoted(12) == "12 bytes, left out"
    facts = token_facts(run_of(ev.Tok(t=1, r=0, x=5, p=-1.0)), 0, 0, ((Alternative(None, -0.2),),))
    assert "'…'" not in words(reading(facts, 200, alternatives=True))


def test_probabilities_in_two_figures() -> None:
    assert [probability(p) for p in (0.0, -0.03, -2.4, -5.5, -20.0)] == ["1.00", "0.97", "0.091", "0.0041", "< 0.0001"]
