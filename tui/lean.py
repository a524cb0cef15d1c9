"""Textual's App without its command palette, which would be a third of what it loads, and is opened seldom if ever.

While `textual.app` is loaded, empty classes stand for those of `textual.command`: the App uses them only when its own
palette is opened, which it is never here. Ours (`palette`) loads the real module when it is opened.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

_NAME: Final = "textual.command"


class _Later(ModuleType):
    """Has every class that is asked for, empty."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


_later = _NAME not in sys.modules
if _later:
    sys.modules[_NAME] = _Later(_NAME)
try:
    from textual.app import App, ComposeResult
finally:
    if _later:
        del sys.modules[_NAME]

__all__ = ["App", "ComposeResult"]
