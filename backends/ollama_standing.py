"""Whether a model is loaded as a request wants it, and if not, why it has to load, which Ollama never says. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from phasetop.backends.ollama_model import Loaded, OllamaModel, is_listed, shown
from phasetop.backends.ollama_runner import Runner, runner_of
from phasetop.setting_names import OLLAMA_NAMES

_COMPARED: Final = ("context", "batch", "threads", "gpu_layers", "context_shift")
"""Options that Ollama starts its runner again for (`needsReload`, server/sched.go), as far as a command line shows them."""
_ALL_LAYERS: Final = ("all", 999)


@dataclass(frozen=True, slots=True)
class Last:
    """How a model stood when this session asked it last."""

    runner: tuple[int, float] | None  # pid and start
    options: Mapping[str, Any]
    expires_s: float | None = None  # when its keep_alive ends, Unix time


@dataclass(frozen=True, slots=True)
class Standing:
    """How a model stands before a request.

    Attributes:
        loaded: it is, with these options as far as can be seen; None: nobody can tell.
        why: the reason of a load that is needed.
        runner: the process that has it, where this is its machine.
        other: what another client loaded it with, where that is the reason.
        gone: a runner that ends just now, and is not the one to wait for.
    """

    loaded: bool | None
    why: str | None = None
    runner: Runner | None = None
    listed: Loaded | None = None
    other: Mapping[str, tuple[Any, Any]] | None = None
    gone: Runner | None = None


def standing(
    model: OllamaModel,
    wanted: Mapping[str, Any],
    listed: Sequence[Loaded] | None,
    runners: Sequence[Runner] | None,
    last: Last | None,
    now_s: float,
) -> Standing:
    """Judge by what was seen just before the request.

    Args:
        model: that is asked.
        wanted: the settings that hold for the request, by OUTPUTS' names.
        listed: /api/ps; None: it did not answer.
        runners: the runner processes; None: another machine, or nobody may look.
        last: how it stood when this session asked it last.
        now_s: Unix time.

    """
    if listed is None:
        return Standing(None)
    line = is_listed(model, listed)
    if runners is not None:
        runner = runner_of(runners, model.blob)
        if runner is None:
            why = "its runner had ended" if line is not None else _why_gone(listed, last, now_s)
            return Standing(False, why, None, line)
        if line is None and last is not None and runner.key == last.runner:  # on its way out
            return Standing(False, _why_gone(listed, last, now_s), gone=runner)
        if line is None:
            return Standing(False, "it was being loaded already", runner)
        differing = differences(model, wanted, {**runner.options, "context": runner.context})
        return _judged(differing, runner, line, last)
    if line is None:
        return Standing(False, _why_gone(listed, last, now_s))
    differing = differences(model, wanted, {"context": line.context})
    return _judged(differing, None, line, last)


def _judged(differing: Mapping[str, tuple[Any, Any]], runner: Runner | None, line: Loaded, last: Last | None) -> Standing:
    if not differing:
        return Standing(True, None, runner, line)
    foreign = last is not None and runner is not None and runner.key != last.runner
    why = said(differing)
    if foreign:
        why += ", since another client had loaded it otherwise"
    return Standing(False, why, runner, line, dict(differing) if foreign else None)


def differences(model: OllamaModel, wanted: Mapping[str, Any], has: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Options that a request asks for and the loaded model has otherwise: name → (has, wanted)."""
    found = {}
    for name in _COMPARED:
        new, old = wanted.get("shift" if name == "context_shift" else name), has.get(name)
        if new is None or old is None or (name == "gpu_layers" and new in ("auto", -1)):
            continue
        if name == "context" and isinstance(new, int) and model.context_trained:
            new = min(new, model.context_trained)
        if name == "gpu_layers" and new in _ALL_LAYERS and old in _ALL_LAYERS:
            continue
        if new != old:
            found[name] = (old, new)
    return found


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs between the options of two runners of one model."""
    return {
        name: (old.get(name), new.get(name))
        for name in (*_COMPARED, "cache_type_k", "cache_type_v", "parallel")
        if old.get(name) != new.get(name)
    }


def said(differing: Mapping[str, tuple[Any, Any]]) -> str:
    """Differences in words, by Ollama's names: ``num_ctx 4096 → 2048``."""
    parts = []
    for name, (old, new) in differing.items():
        parts.append(f"{OLLAMA_NAMES.get(name, name)} {_word(old)} → {_word(new)}")
    return ", ".join(parts)


def _word(value: Any) -> str:
    if value is None:
        return "the usual"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _why_gone(listed: Sequence[Loaded], last: Last | None, now_s: float) -> str:
    """Why a model is not loaded."""
    if last is None:
        return "it was not loaded"
    if last.expires_s is not None and last.expires_s <= now_s:
        return "it was unloaded: its keep_alive was over"
    others = [shown(one.name) for one in listed]
    if others:
        return f"it was unloaded, {others[0]} is loaded now"
    return "it was unloaded since the last request"
