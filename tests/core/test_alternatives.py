"""What a token could have been, from its line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phasetop import codec
from phasetop import events as ev
from phasetop.alternatives import Alternative, alternatives_of, read_alternatives
from phasetop.recording import load
from phasetop.reread import Reread


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        (
            b'{"k":"tok","t":1,"r":0,"x":" the","p":-0.1,"top":[" a",-2.3,"\\u001b",-7.5," the",-0.1]}',
            [[" the", " a", "\x1b"]],
        ),
        (b'{"k":"tok","t":1,"r":0,"x":["a","b"],"top":[["a",-0.1],["c",-0.2,"b",-0.3]]}', [["a"], ["c", "b"]]),
        (b'{"k":"tok","t":1,"r":0,"x":6,"top":[-0.1,-2.3]}', [[None, None]]),
        (b'{"k":"tok","t":1,"r":0,"x":"a"}', []),
        (b'{"k":"tok","t":1,"r":0,"x":"a","top":[{"odd":1},true,"x"]}', [[]]),
    ],
)
def test_alternatives_by_probability(line: bytes, texts: list[list[str | None]]) -> None:
    assert [[each.text for each in piece] for piece in alternatives_of(codec.decode(line))] == texts


def test_they_are_read_again_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.phasetop"
    hello = ev.Hello(
        t=0,
        format=1,
        session="0192f3c4-7a1e-7c33-9d55-2f6b1c0e8a77",
        anchor=ev.Anchor(mono=1, wall=1),
        by="phasetop",
        host=ev.Host(name="b", os="Linux"),
    )
    lines = [ev.Tok(t=i, r=0, x=f"w{i}", p=-0.5, top=[f"w{i}", -0.5, "other", -1.0 - i]) for i in range(1, 4)]
    path.write_bytes(codec.encode_all([hello, *lines]))
    session = load(path)
    assert read_alternatives(session, Reread(path), 0, 1) == ((Alternative("w2", -0.5), Alternative("other", -3.0)),)
    assert read_alternatives(session, Reread(path), 0, 9) == ()
    assert read_alternatives(session, Reread(path), 7, 0) == ()
    assert read_alternatives(session, None, 0, 1) == ()
    os.remove(path)
    assert read_alternatives(session, Reread(path), 0, 1) == ()
