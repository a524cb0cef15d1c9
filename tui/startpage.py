"""The start screen drawn: the sentence, what enter does, what else there is, where was looked, what one will see."""

from __future__ import annotations

from typing import Final

from phasetop.offers import Offer
from phasetop.tui.cells import Area, fit
from phasetop.tui.footer import draw_ask
from phasetop.tui.intro import INTRO
from phasetop.tui.keys import Key, Screen, row_of, table_of
from phasetop.tui.start import StartPicture
from phasetop.tui.wrap import text_width
from phasetop.visible import harmless

TEXT_X: Final = 17
FEW: Final = 5
"""So many offers are listed where other things stand, too."""
_HELP: Final[tuple[tuple[str, Screen], ...]] = (("keys", "start"), ("in the ask line", "ask"))
COMMANDS: Final = ("phasetop run llama3.1:8b", "phasetop run http://host:8080", "phasetop replay @last")


def paint(area: Area, picture: StartPicture, screen: str, terminal: str) -> None:
    """Draw the screen; ``terminal``: what the terminal is, in a few words."""
    width, height = area.width, area.height
    status = _status(picture)
    area.put(1, 0, "phasetop", "ink", None, "b")
    if width >= 40:
        area.right(width - 1, 0, status, "soft")
    if height < 3:
        return
    tight = height < 14
    y = 1 if tight else 2
    area.put(1, y, fit(sentence(picture), width - 2), "ink", None, "b")
    y += 1 if tight else 2
    _enter(area, y, picture)
    keys_y, ask_y = height - 1, height - (2 if tight else 3)
    _body(area.area(0, y + (1 if tight else 2), width, max(0, ask_y - y - (2 if tight else 3))), picture, terminal)
    if ask_y > y:
        if picture.message is not None and not tight:
            area.put(1, ask_y - 1, fit(_clean(picture.message), width - 2), "ink")
        hint = "" if picture.askable is None else f"type a prompt; enter sends it to {_whom(picture.askable)}"
        draw_ask(area.area(0, ask_y, width, 1), picture.ask, hint)
    if keys_y > ask_y or keys_y > y:
        _keys(area.area(0, keys_y, width, 1), row_of("ask" if screen == "ask" else "start", picture.situation, width - 2))


def sentence(picture: StartPicture) -> str:
    """What was found, in a sentence."""
    offers = picture.offers
    if offers and offers[0].loaded:
        return f"{_clean(offers[0].name)} is loaded in {_clean(offers[0].where)}:"
    kinds = {offer.kind for offer in offers}
    if picture.looking and kinds <= {"recording"}:
        return "Looking for servers, models and sessions …"
    if "embedded" in kinds:
        return "No model is loaded anywhere that I can see. One comes with phasetop:"
    if "model" in kinds or "live" in kinds:
        return "No model is loaded anywhere that I can see. This is what there is:"
    if "fetch" in kinds:
        return "No model is loaded anywhere that I can see. A small one can be fetched:"
    return "Nothing to run was found: start a server, or pip install 'phasetop[embedded]'."


def _status(picture: StartPicture) -> str:
    if picture.looking:
        return "looking"
    n = sum(offer.kind == "live" for offer in picture.offers)
    return "nothing is running" if n == 0 else f"{n} session{'s' if n > 1 else ''} running"


def _whom(offer: Offer) -> str:
    return "the embedded model" if offer.kind == "embedded" else _clean(offer.name)


def _clean(text: str) -> str:
    return harmless(text, newlines=False)


def _enter(area: Area, y: int, picture: StartPicture) -> None:
    """What enter does."""
    offer = picture.offer
    if offer is None:
        return
    x = area.put(1, y, " ENTER ", "ink", None, "br") + 2
    room = area.width - x - 1
    note = _clean(offer.note)
    text = f"{offer.does} {_clean(offer.name)}, {_clean(offer.where)}"
    if text_width(text) + 3 + len(note) > room:
        note = ""
    area.line(x, y, fit(text, room), ("   " + note, "faint"))


def _body(area: Area, picture: StartPicture, terminal: str) -> None:
    """As many of the parts as there is room for, the newcomer's first to go."""
    n = len(picture.offers)
    looked = [(row.name, row.found, row.text, row.key, row.does) for row in picture.looked]
    looked.append(("terminal", True, terminal, "", ""))
    few = min(n, FEW) if n > 1 else 0
    if picture.more:
        few = min(n, area.height - 1)
        looked = []
    room = area.height - (few + 2 if few else 0)
    with_looked = bool(looked) and room >= 3
    if with_looked:
        looked = looked[: max(1, room - 1)]
        room -= len(looked) + 2
    elif few and not picture.more:
        few = min(n, max(1, area.height - 1))
    intro = room >= len(INTRO) + 1 and not picture.more
    room -= (len(INTRO) + 2) * intro
    if 0 < few < n and not picture.more:
        more = max(0, min(n - few, room - 1))
        few, room = few + more, room - more
    y = 0
    if few:
        y = _list(area, y, few, picture)
    if with_looked:
        area.put(1, y, "looked at", "soft")
        for i, (name, found, text, key, does) in enumerate(looked, y + 1):
            _looked(area, i, name, found, text, key, does)
        y += len(looked) + 2
    if intro:
        area.put(1, y, "what you will see", "soft")
        for i, (role, swatch, text) in enumerate(INTRO, y + 1):
            area.put(1, i, swatch, "ground", role)
            area.put(7, i, fit(text, area.width - 8), "soft")
        y += len(INTRO) + 2
    if room >= 1 and y < area.height and not picture.more:
        x = area.put(1, y, "or  ", "faint")
        for command in COMMANDS:
            if x + len(command) < area.width:
                x = area.put(x, y, command) + 3


def _list(area: Area, y: int, few: int, picture: StartPicture) -> int:
    """The offers, the chosen one reversed, in a window around it; returns the row after it and a blank one."""
    n = len(picture.offers)
    first = max(0, min(picture.chosen - few // 2, n - few))
    count = "" if few == n else f"   {first + 1} to {first + few} of {n}"
    area.line(1, y, ("what can be begun", "soft"), (count, "faint"))
    name_width = min(32, max(12, area.width // 2 - 14))
    for i, offer in enumerate(picture.offers[first : first + few], first):
        row = y + 1 + i - first
        chosen = "r" if i == picture.chosen else ""
        mark = "▸" if chosen else " "
        name = fit(_clean(offer.name), name_width)
        area.put(1, row, f"{mark}{name}{' ' * (name_width - text_width(name))} ", "ink", None, chosen)
        x = area.put(name_width + 4, row, fit(_clean(offer.where), max(0, area.width - name_width - 5)), "soft")
        if x + 3 + len(offer.note) < area.width:
            area.put(x + 3, row, _clean(offer.note), "faint")
    return y + few + 2


def _looked(area: Area, y: int, name: str, found: bool, text: str, key: str, does: str) -> None:
    area.put(1, y, "●" if found else "○", "ink" if found else "faint")
    area.put(3, y, fit(name, TEXT_X - 4), "soft")
    act = f"{key} {does}" if key else ""
    act_x = max(TEXT_X, min(area.width - len(act) - 1, max(56, TEXT_X)))
    room = (act_x if act else area.width) - TEXT_X - 1
    area.put(TEXT_X, y, fit(_clean(text), max(0, room)), "ink" if found else "faint")
    if act:
        area.line(act_x, y, key, (" " + does, "faint"))


def _keys(area: Area, keys: list[Key]) -> None:
    x = 1
    for key in keys:
        x = area.line(x, 0, (key.label, "ink"), (" " + key.word, "faint")) + 3


def paint_help(area: Area) -> None:
    """The start screen's keys and those of the ask line."""
    y = 0
    for title, screen in _HELP:
        area.put(1, y, title, "soft")
        for y, key in enumerate((key for key in table_of(screen) if key.help), y + 1):  # noqa: B020 - goes on below it
            area.right(10, y, key.label)
            area.put(12, y, fit(key.help, area.width - 13), "soft")
        y += 2
