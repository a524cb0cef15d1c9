"""`phasetop` alone: what is begun on the start screen has the settings that `phasetop run` would have."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from phasetop import display as displaying
from phasetop import live
from phasetop.cli import main
from phasetop.display import Display
from phasetop.lifeline import Target
from phasetop.plan import Plan, Planned

if TYPE_CHECKING:
    from tests.conftest import Home


@pytest.fixture
def begun(state_home: Home, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Display, Plan]]:
    """What the start screen was begun with: how it looks, and the plan of a model of Ollama's."""
    found: list[tuple[Display, Plan]] = []

    def start_view(display: Display, planned: Planned) -> int:
        found.append((display, planned(Target("ollama", None, "m"), ["run", "m"], None)))
        return 0

    (state_home.config / "phasetop").mkdir(parents=True, exist_ok=True)
    file = state_home.config / "phasetop" / "config.toml"
    file.write_text('[run]\nmax-tokens = 7\ntheme = "light"\nsystem = "Be short."\nplain = true\n')
    import_module("phasetop.run_command")  # loaded below, it would keep for good what is patched here
    monkeypatch.setattr(displaying, "has_terminal", lambda: True)
    monkeypatch.setattr(live, "start_view", start_view)
    return found


def test_the_table_of_run_and_the_environment_count(begun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHASETOP_TEMPERATURE", "0.5")
    assert main([]) == 0
    ((display, plan),) = begun
    assert display.theme == "light"
    assert plan.settings == {"max_tokens": 7, "temperature": 0.5}
    assert plan.messages == [{"role": "system", "content": "Be short."}]


def test_what_is_typed_goes_before_it(begun: Any) -> None:
    assert main(["--theme", "dark"]) == 0
    assert begun[0][0].theme == "dark"


def test_a_setting_that_is_none_is_refused(
    begun: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PHASETOP_TEMPERATURE", "warm")
    assert main([]) == 2
    assert "warm" in capsys.readouterr().err
    assert begun == []
