"""Textual's App without what it would load and this view never uses. Whoever needs Textual imports this first.

- Its command palette, a third of all that it loads, and the tables in which it prints themes: empty classes stand for theirs
  meanwhile. Ours (`palette`) loads the real command palette when it is opened.
- TLS: asyncio does without on a Python that has none, and the view opens no connection. OpenSSL would be a tenth of it.

Whoever imports one of these modules later gets the real one.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Empty(ModuleType):
    """Has every class that is asked for, empty."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


_modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment] # None: there is no such module
_meanwhile = {"textual.command": _Empty("textual.command"), "rich.table": _Empty("rich.table"), "ssl": None}
_meanwhile = {name: module for name, module in _meanwhile.items() if name not in _modules}
_modules.update(_meanwhile)
try:
    from textual.app import App, ComposeResult
finally:
    for _name in _meanwhile:
        del _modules[_name]

__all__ = ["App", "ComposeResult"]
