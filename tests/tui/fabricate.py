"""Sessions made up for tests and for looking at the view: plausible, deterministic, no server needed.

As a program it shows one, growing in time:  python tests/tui/fabricate.py --rate 100 --tokens 2000 [--state loading] …
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

from phasetop import events as ev
from phasetop.alternatives import Alternative, alternatives_of
from phasetop.session import Session
from phasetop.standing import Standing

MS = 1_000_000
S = 1_000_000_000
GIB = 1 << 30
MIB = 1 << 20

TEXT = """A hash table keeps its promise only as long as its keys spread. Each bucket is a short list, and a good \
function puts about as many keys into one as into any other; then a lookup reads one bucket and is done, \
however large the table has grown.

When buckets become too long the table doubles: every key is placed again, and for a moment the fast structure \
is the slow one. Averaged over all insertions that cost is small, which is what amortised means.

def grow(table):
    bigger = [[] for _ in range(2 * len(table))]
    for bucket in table:
        for key, value in bucket:
            bigger[hash(key) % len(bigger)].append((key, value))
    return bigger

Open addressing does without lists. A key whose place is taken goes to the next free one, so that a crowded \
table turns into long walks; at ninety percent full a miss looks at fifty places. Deleting leaves a mark \
behind, since an empty place would end the walks that led across it.

Cuckoo hashing gives each key two places and lets a newcomer push out whoever sits there. A lookup reads two \
places at most, and the price is paid on insertion, where the pushed-out keys look for their other place in \
turn.

"""
PROMPT = """## 3.1 Collisions

Two keys collide when the function sends them to the same bucket. With n keys and n buckets the longest bucket \
holds about ln n / ln ln n of them, which is seldom more than seven. An adversary who knows the function can \
choose keys that all meet in one bucket, so the function is drawn at random when the program starts.

## 3.2 Load

The load is the number of keys over the number of buckets. Chained tables work at any load, only slower; open \
ones must stay below one. Most libraries double at two thirds.

"""


HOSTILE = "\x1b]52;c;QUFB\x07\x1b[2J\x9d0;title\x9c\u202egnp.exe\x1b[6n\x08\r\u2028[/INST][b + [#888888] "
"""What would drive a terminal, or be taken for markup."""


def split(text: str) -> list[str]:
    """Text as something like a model's tokens."""
    return re.findall(r"\n+ *| ?[A-Za-z]{1,7}| ?\d{1,3}| ?(?:[^\w\s]|_){1,2}|\s", text)


@dataclass
class Turn:
    """What one request is to look like; times in ms."""

    tokens: int = 400
    gap_ms: float = 15.0
    prompt: int = 512
    cached: int = 0
    prefill_ms: float = 420.0
    queue_ms: float = 3.0
    load_ms: float = 0.0
    stall_at: int | None = None
    stall_ms: float = 319.0
    finish: str | None = "stop"
    error: str | None = None
    think: int = 0
    logprobs: bool = False
    context: int = 4096
    batches: int = 6
    pieces: bool = True
    per_line: int = 1
    texts: list[str] | None = None
    ask: str = "How does a hash table keep its promise?"
    seed: int = 7


@dataclass
class Script:
    """Events of a whole session, in order of time."""

    events: list[ev.Event] = field(default_factory=list)
    t: int = 0

    def add(self, *events: ev.Event) -> None:
        """Append events."""
        self.events += events
        self.t = max(self.t, max(event.t for event in events))

    def sorted(self) -> list[ev.Event]:
        """By time, stable."""
        return sorted(self.events, key=lambda event: event.t)


def opening(*, cores: int = 2, load_ms: float = 0.0, kind: str = "run", error: str | None = None) -> Script:
    """Hello, host, the server and its model."""
    script = Script()
    host = ev.Host(name="box", os="Linux", cpu="EPYC", cores=cores, ram_bytes=16 * GIB)
    anchor = ev.Anchor(mono=1, wall=1_796_000_000_000_000_000)
    script.add(
        ev.Hello(
            t=0, format=1, session="0192f3c4-7a1e-7c33-9d55-2f6b1c0e8a77", anchor=anchor, by="phasetop 0.1.0", host=host
        )
    )
    if error is not None:
        script.add(ev.Notice(t=30 * MS, code="server-lost", level="error", text=error))
        return script
    options = {"threads": ev.Sourced(2, "default"), "context": ev.Sourced(4096, "argv")}
    script.add(
        ev.Server(t=20 * MS, v=0, backend="embedded", url="http://127.0.0.1:4711", local=True, options=options),
        ev.Model(t=20 * MS, m=0, v=0, name="SmolLM2-135M-Instruct", quant="Q4_1", arch="llama", context_trained=8192),
        ev.Series(t=20 * MS, s=0, name="cpu_cores_used", unit="cores", source="psutil"),
        ev.Series(t=20 * MS, s=1, name="memory_used_bytes", unit="B", source="psutil"),
        ev.Series(t=20 * MS, s=2, name="server_cpu_cores", unit="cores", source="psutil", v=0),
        ev.Series(t=20 * MS, s=3, name="server_rss_bytes", unit="B", source="psutil", v=0),
    )
    if load_ms:
        script.add(ev.State(t=25 * MS, v=0, s="loading"))
        script.add(ev.State(t=25 * MS + int(load_ms * MS), v=0, s="ready"))
    else:
        script.add(ev.State(t=25 * MS, v=0, s="ready"))
    return script


def ask(script: Script, r: int, turn: Turn, at_ms: float = 100.0) -> Script:
    """One request, ``at_ms`` after what came before."""
    rnd = Random(turn.seed)
    t = script.t + int(at_ms * MS)
    parent = r - 1 if r else None
    message = {"role": "user", "content": turn.ask}
    script.add(ev.Request(t=t, r=r, v=0, m=0, parent=parent, api="chat", messages=[message], asked={}))
    script.add(ev.State(t=t + MS // 2, r=r, s="sent", at=t + MS // 3))
    if turn.error is not None:
        t += int(turn.queue_ms * MS)
        script.add(ev.End(t=t, r=r, finish="error", error=ev.Fault(status=500, text=turn.error)))
        return script
    t += int(turn.queue_ms * MS)
    if turn.pieces:
        pieces: list[str | int | dict[str, str]] = [*(split(PROMPT) * (turn.prompt // 100 + 1))[: turn.prompt]]
        script.add(ev.Prompt(t=t, r=r, n=turn.prompt, cached=turn.cached, pieces=pieces, source="/tokenize"))
    script.add(ev.State(t=t, r=r, s="headers"))
    new = turn.prompt - turn.cached
    for i in range(turn.batches + 1):
        done = turn.cached + new * i // turn.batches
        script.add(
            ev.Prog(
                t=t + int(turn.prefill_ms * MS * (i / turn.batches) ** 1.1),
                r=r,
                total=turn.prompt,
                cached=turn.cached,
                done=done,
            )
        )
    t += int(turn.prefill_ms * MS)
    texts = turn.texts if turn.texts is not None else split(TEXT)
    for i in range(turn.tokens):
        if i:
            gap = turn.gap_ms * (1 + rnd.gauss(0, 0.05))
            if rnd.random() < 0.06:
                gap *= rnd.choice((1.3, 1.5, 2.0, 2.6, 0.72, 0.45))
            if i == turn.stall_at:
                gap += turn.stall_ms
            t += int(max(0.05, gap) * MS)
        tok = ev.Tok(t=t, r=r, x=texts[i % len(texts)], c="think" if i < turn.think else "answer")
        if turn.per_line > 1:
            tok.n = turn.per_line
        if turn.logprobs:
            tok.p = -round(abs(rnd.gauss(0, 0.5)) ** 2, 5)
        script.add(tok)
    if turn.finish is not None:
        t += 4 * MS
        n = turn.tokens * turn.per_line
        gen_ms = (t - script.t + turn.gap_ms * MS * turn.tokens) / MS
        script.add(
            ev.Timings(t=t, r=r, prompt_n=new, cached_n=turn.cached, prompt_ms=turn.prefill_ms, gen_n=n, gen_ms=gen_ms)
        )
        script.add(ev.End(t=t, r=r, finish=turn.finish, detail="eos" if turn.finish == "stop" else None))
    return script


def sample(script: Script, *, period_ms: int = 170, busy: float = 1.96, seed: int = 3) -> Script:
    """Samples of the machine over the whole session, busy while a request runs."""
    rnd = Random(seed)
    spans: list[tuple[int, int]] = []
    for event in script.events:
        if isinstance(event, ev.Request):
            spans.append((event.t, script.t))
        elif isinstance(event, ev.End) and spans:
            spans[-1] = (spans[-1][0], event.t)
    t0 = 25 * MS
    while t0 < script.t:
        t = t0 + period_ms * MS
        works = any(a < t and t0 < b for a, b in spans)
        cores = max(0.02, (busy if works else 0.1) + rnd.gauss(0, 0.02))
        values: dict[str, float | None] = {
            "0": round(cores, 3),
            "1": 2.12 * GIB + rnd.gauss(0, 4 * MIB),
            "2": round(cores * 0.97, 3),
            "3": 214 * MIB,
        }
        script.events.append(ev.Smp(t=t, t0=t0, v=values))
        t0 = t
    return script


def session_of(events: Iterable[ev.Event]) -> Session:
    """A finished session."""
    session = Session()
    for event in events:
        session.apply(event)  # type: ignore[arg-type]
    return session


class Growing:
    """A source whose events come in time: the present is a clock, the test's or the real one."""

    def __init__(self, events: list[ev.Event], clock: list[int] | None = None) -> None:
        self.session = Session()
        self._events = events
        self._next = 0
        self._clock = clock
        self._began = time.monotonic_ns()
        self.live = True
        self.standing: Standing | None = None

    def now(self) -> int:
        """Ns since the anchor."""
        return self._clock[0] if self._clock is not None else time.monotonic_ns() - self._began

    def poll(self) -> bool:
        """Apply what is due."""
        now, start = self.now(), self._next
        while self._next < len(self._events) and self._events[self._next].t <= now:
            self.session.apply(self._events[self._next])  # type: ignore[arg-type]
            self._next += 1
        return self._next > start

    def forget_the_rest(self) -> None:
        """What is to come does not come."""
        del self._events[self._next :]

    def alternatives(self, r: int, i: int) -> tuple[tuple[Alternative, ...], ...]:
        """As the events have them."""
        lines = [event for event in self._events if isinstance(event, ev.Tok) and event.r == r]
        return alternatives_of(lines[i]) if i < len(lines) else ()

    def at_once(self, events: Iterable[ev.Event]) -> None:
        """What comes before all that is still to come."""
        self._events[self._next : self._next] = events

    def append(self, events: Iterable[ev.Event]) -> None:
        """More that is to come."""
        self._events += events


class Finished:
    """A source that has ended."""

    live = False
    standing = None

    def __init__(self, session: Session) -> None:
        self.session = session

    def now(self) -> int:
        """The last event's time."""
        return self.session.last_t

    def poll(self) -> bool:
        """Nothing comes any more."""
        return False

    def alternatives(self, r: int, i: int) -> tuple[tuple[Alternative, ...], ...]:
        """None are kept."""
        return ()


class Wire:
    """A lifeline that notes what it is told; with ``answers`` each question becomes a further turn."""

    def __init__(self, source: Growing | None = None) -> None:
        self.kept: str | None = None
        self.said: list[tuple[str, object]] = []
        self.refusal: Exception | None = None
        self._source = source

    def ask(self, text: str) -> None:
        """A further turn."""
        self.said.append(("ask", text))
        if self._source is not None:
            script = Script(t=self._source.now())
            r = max(self._source.session.runs, default=-1) + 1
            ask(script, r, Turn(tokens=200, ask=text, prompt=700, cached=512, seed=r), at_ms=20)
            self._source.append(script.sorted())

    def again(self, r: int, *, cache: bool) -> None:
        """The same once more, which the cache knows but for one token."""
        self.said.append(("again", (r, cache)))
        if self.refusal is not None:
            raise self.refusal
        if self._source is not None:
            script = Script(t=self._source.now())
            new = max(self._source.session.runs, default=-1) + 1
            ask(script, new, Turn(tokens=200, prompt=38, cached=37 if cache else 0, seed=new), at_ms=20)
            self._source.append(script.sorted())

    def set_key(self, key: str) -> None:
        """A key was given."""
        self.said.append(("key", key))
        if self._source is not None:
            self._source.append([ev.Control(t=self._source.now(), op="set", ok=True)])

    def mark(self, at: int, label: str) -> None:
        """Leave a mark."""
        self.said.append(("mark", (at, label)))
        if self._source is not None:
            self._source.append([ev.Mark(t=max(at, self._source.now()), at=at, label=label)])

    def want_logprobs(self, n: int) -> None:
        """From the next turn on."""
        self.said.append(("logprobs", n))

    def cancel(self, r: int) -> None:
        """End a request."""
        self.said.append(("cancel", r))
        if self._source is not None:
            now = self._source.now()
            self._source.forget_the_rest()
            self._source.append([ev.End(t=now, r=r, finish="cancelled")])

    def discover(self) -> None:
        """Look around: a check's answer comes at once."""
        self.said.append(("discover", None))
        if self._source is not None:
            now = self._source.now()
            found = ev.Finding(t=now, name="swap", state="limited", text="1.2 GB lie in swap", todo="more RAM")
            self._source.at_once([found, ev.Control(t=now, op="discover", ok=True)])

    def pull(self, model: str) -> None:
        """It comes in four steps of a second, and the server is ready with it."""
        self.said.append(("pull", model))
        if self._source is not None:
            now = self._source.now()
            self._source.append([ev.Control(t=now + MS, op="get", ok=True, task=1)])
            title = f"pull {model}"
            steps = [
                ev.Task(t=now + i * S, task=1, title=title, state="run", done=1.2e9 * i, total=4.8e9, unit="B")
                for i in range(1, 4)
            ]
            self._source.append([*steps, ev.Task(t=now + 4 * S, task=1, state="ok")])
            self._source.append([ev.State(t=now + 4 * S + MS, v=0, s="ready")])

    def cancel_task(self, task: int) -> None:
        """It ends, and says so."""
        self.said.append(("cancel_task", task))
        if self._source is not None:
            now = self._source.now()
            self._source.forget_the_rest()
            self._source.append(
                [ev.Control(t=now, op="cancel", ok=True, task=task), ev.Task(t=now, task=task, state="cancelled")]
            )

    def keep(self, name: str | None) -> str:
        """Keep it."""
        self.said.append(("keep", name))
        if self.refusal is not None:
            raise self.refusal
        self.kept = name or "2026-11-30-SmolLM2-135M"
        return self.kept

    def stop(self) -> None:
        """The view ends."""
        self.said.append(("stop", None))


def scripted(state: str, turn: Turn, rate: float | None = None) -> list[ev.Event]:
    """A session by name, for looking at it."""
    if rate:
        turn.gap_ms = 1000 / rate
    match state:
        case "empty":
            return opening().sorted()
        case "loading":
            return opening(load_ms=8000).sorted()
        case "unreachable":
            return opening(error="nobody answers at http://127.0.0.1:11434: is Ollama running?").sorted()
        case "error":
            script = opening()
            ask(script, 0, Turn(error="the context is full: 4,096 tokens were asked for, 2,048 fit"))
        case "turns":
            script = opening()
            ask(script, 0, Turn(tokens=180))
            ask(script, 1, Turn(tokens=120, cached=600, prompt=800, seed=2), at_ms=900)
            ask(script, 2, turn, at_ms=500)
        case "prefill":
            script = opening()
            ask(script, 0, Turn(prompt=1536, cached=256, prefill_ms=9000, batches=12, tokens=200))
        case _:
            script = opening()
            ask(script, 0, turn)
    return sample(script).sorted()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", default="run")
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--rate", type=float, default=65.0)
    parser.add_argument("--prefill-ms", type=float, default=420.0)
    parser.add_argument("--stall-at", type=int)
    parser.add_argument("--think", type=int, default=0)
    parser.add_argument("--logprobs", action="store_true")
    parser.add_argument("--finished", action="store_true", help="show it at its end")
    parser.add_argument("--watch", action="store_true", help="without a lifeline")
    parser.add_argument("--theme")
    parser.add_argument("--ascii", action="store_true")
    parser.add_argument("--no-mouse", action="store_true")
    parser.add_argument("--hostile", action="store_true", help="a reply that would drive the terminal")
    parser.add_argument("--fail", help="let a pane fail: a function of phasetop.tui, as module.name")
    return parser.parse_args()


def main() -> int:
    """Show one."""
    from phasetop.tui.app import view
    from phasetop.tui.running import Options

    given = _arguments()
    if given.fail:
        module, _, name = given.fail.rpartition(".")
        setattr(sys.modules.get(module) or __import__(module, fromlist=["x"]), name, _fails)
    turn = Turn(
        tokens=given.tokens, prefill_ms=given.prefill_ms, stall_at=given.stall_at, think=given.think, logprobs=given.logprobs
    )
    if given.hostile:
        turn.texts = [HOSTILE[i : i + 3] for i in range(0, len(HOSTILE), 3)]
    events = scripted(given.state, turn, given.rate)
    options = Options(
        theme=given.theme,
        ascii=True if given.ascii else None,
        mouse=False if given.no_mouse else None,
        title="fabricated.phasetop" if given.finished else None,
    )
    if given.finished:
        return view(Finished(session_of(events)), options=options)
    source = Growing(events)
    return view(source, lifeline=None if given.watch else Wire(source), options=options)


def _fails(*_: object, **__: object) -> Iterator[None]:
    raise KeyError("made to fail")


if __name__ == "__main__":
    sys.exit(main())
