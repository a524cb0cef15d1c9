"""`phasetop predict`: what a model should do on a machine, before anybody owns either."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from phasetop import bandwidth_file, peaks
from phasetop.amounts import read_bandwidth, read_count, read_flops, read_parameters, read_share, read_some, several
from phasetop.faults import EXIT_OK, UsageError
from phasetop.output import print_json
from phasetop.predict_report import Row, Scenario, Study, predict_object, study, table
from phasetop.roofline import Machine
from phasetop.tensor_types import CACHE_TYPES
from phasetop.visible import harmless
from phasetop.weight_types import TABLE, bits_per_weight

if TYPE_CHECKING:
    from phasetop.model_metadata import Metadata

MAX_ROWS: Final = 400
THIS: Final = ("this", "cpu", "here")
"""Names of this machine's own CPU."""
_BATCHES: Final = (1, 4, 16, 64)
_DEPTHS: Final = (4096, 32768, 131072)


def predict(
    model: str | None,
    *,
    params: str | None = None,
    active_params: str | None = None,
    dtype: str | None = None,
    gpu: str | None = None,
    gpus: int = 1,
    bandwidth: str | None = None,
    flops: str | None = None,
    prompt: str = "512",
    output: str = "512",
    context: str | None = None,
    batch: str = "1",
    kv_bytes_per_token: int | None = None,
    cache_type_k: str | None = None,
    cache_type_v: str | None = None,
    efficiency: str | None = None,
    efficiency_flops: str | None = None,
    as_json: str | None = None,
    list_gpus: bool = False,
    with_plot: bool = True,
    api_key: str | None = None,
) -> int:
    """Print what a model should do; returns the exit status.

    Args:
        model: a GGUF file, a well-known name, or the URL of a server that runs here; None with `params`.
        params: how many parameters: ``8B``, ``81.22e9``.
        active_params: those that a token uses.
        dtype: of the weights (``fp16``, ``int4``, ``q4_k_m``); several with commas.
        gpu: a name of the table.
        gpus: so many of them work as one.
        bandwidth: of the machine, where no name says it or instead of what it says.
        flops: likewise.
        prompt: tokens; several with commas.
        output: likewise.
        context: tokens in the cache when decode begins; likewise.
        batch: sequences at once; likewise.
        kv_bytes_per_token: of the cache, where no model tells it.
        cache_type_k: type of the K cache.
        cache_type_v: of the V cache.
        efficiency: share of the bandwidth that is reached.
        efficiency_flops: share of the FLOP/s.
        as_json: print one object; ``compact``: on one line.
        list_gpus: print the table of chips, nothing else.
        with_plot: a plot under the table.
        api_key: of the server that is asked.

    Raises:
        UsageError: something is missing, or is no such amount.
        PhasetopError: the model does not tell enough.
    """
    if list_gpus:
        return _list_gpus(as_json)
    metadata = _model(model, params, api_key)
    machine, name, sources = _machine(gpu, gpus, bandwidth, flops)
    dtypes = _checked_types(dtype, (cache_type_k, cache_type_v))
    prompts, outputs = several("-P", prompt, read_count), several("-G", output, read_count)
    contexts: Sequence[int | None] = several("--context", context, read_count) if context is not None else [None]
    batches = several("--batch", batch, read_some)
    if (context is not None and metadata is None) and kv_bytes_per_token is None:
        raise UsageError("--context needs to know the cache: give a model, or --kv-bytes-per-token N")
    first = Scenario(
        machine=machine,
        metadata=metadata,
        params=read_parameters("--params", params) if params is not None else None,
        active_params=read_parameters("--active-params", active_params) if active_params is not None else None,
        dtype=dtypes[0],
        gpu=name,
        prompt=prompts[0],
        output=outputs[0],
        batch=batches[0],
        context=contexts[0],
        kv_bytes_per_token=kv_bytes_per_token,
        cache_types=(cache_type_k, cache_type_v),
        bandwidth_share=read_share("--efficiency", efficiency) if efficiency is not None else None,
        flops_share=read_share("--efficiency-flops", efficiency_flops) if efficiency_flops is not None else None,
        sources=sources,
    )
    if first.params is not None and first.active_params is not None and first.active_params > first.params:
        raise UsageError(f"--active-params {active_params}: a token uses no more than there are (--params {params})")
    done = study(first)
    varied = _varied(first, dtypes, prompts, contexts, outputs, batches)
    rows = table(varied if len(varied) > 1 else _usual(first))
    if as_json is not None:
        print_json(predict_object(done, rows), as_json)
    else:
        _print(done, rows, with_plot=with_plot)
    return EXIT_OK


def _checked_types(dtype: str | None, cache_types: tuple[str | None, str | None]) -> list[str | None]:
    """The types of the weights that were asked for; those of the cache are only checked."""
    dtypes = several("--dtype", dtype, lambda _, word: word.strip()) if dtype is not None else []
    for word in dtypes:
        bits_per_weight(word)
    for option, kind in zip(("-ctk", "-ctv"), cache_types, strict=True):
        if kind is not None and kind not in CACHE_TYPES:
            raise UsageError(f"{option} {kind[:40]}: one of {', '.join(CACHE_TYPES)}")
    return [*dtypes] or [None]


def _varied(
    first: Scenario,
    dtypes: Sequence[str | None],
    prompts: Sequence[int],
    contexts: Sequence[int | None],
    outputs: Sequence[int],
    batches: Sequence[int],
) -> list[Scenario]:
    """Every combination of what was asked for several of."""
    asked = list(itertools.product(dtypes, prompts, contexts, outputs, batches))
    if len(asked) > MAX_ROWS:
        raise UsageError(f"{len(asked)} combinations are too many for a table: at most {MAX_ROWS}")
    return [replace(first, dtype=a, prompt=b, context=c, output=d, batch=e) for a, b, c, d, e in asked]


def _print(done: Study, rows: list[Row], *, with_plot: bool) -> None:
    from phasetop.predict_text import lines, plot

    for line in lines(done, rows):
        print(harmless(line, newlines=False))
    if with_plot:
        width = shutil.get_terminal_size((80, 24)).columns
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        for line in plot(done, width, colour=colour):
            print(line)


def _usual(first: Scenario) -> list[Scenario]:
    """What to set beside a scenario where nothing is asked to be varied: other weights, depths, batches."""
    found = [first]
    own = first.named.lower()  # the model's own types, which its file knows better than a table
    found += [replace(first, dtype=each) for each in TABLE if each != own]
    if first.metadata is not None or first.kv_bytes_per_token is not None:
        trained = first.metadata.context_trained if first.metadata is not None else None
        found += [replace(first, context=each) for each in _DEPTHS if first.depth < each <= (trained or each)]
    return found + [replace(first, batch=each) for each in _BATCHES if each > first.batch]


def _model(model: str | None, params: str | None, api_key: str | None) -> Metadata | None:
    if model is None:
        if params is None:
            raise UsageError("which model? Give a .gguf file, a name such as llama3.1-8b, or --params 8B")
        return None
    from phasetop.kv_command import describe
    from phasetop.server_options import Found

    return describe(model, Found(), api_key)[0]


def _machine(
    gpu: str | None, gpus: int, bandwidth: str | None, flops: str | None
) -> tuple[Machine, str | None, dict[str, str]]:
    """(peaks, name, sources by their paths)."""
    sources: dict[str, str] = {}
    bytes_per_s: float | None = None
    peak_flops: float | None = None
    name: str | None = None
    if gpu is not None and gpu.strip().lower() in THIS:
        test = bandwidth_file.kept_here()
        if test is None:
            raise UsageError(f"--gpu {gpu[:10]}: this CPU was not measured yet: phasetop doctor --measure-bandwidth")
        name, bytes_per_s = test.cpu or "this CPU", test.best_bytes_per_s
        sources["inputs.bandwidth_bytes_per_s"] = test.source
    elif gpu is not None:
        found = peaks.find(gpu)
        if found is None:
            near = peaks.similar(gpu)
            hint = f"is {' or '.join(near)} meant?" if near else "--list-gpus lists those that are;"
            raise UsageError(f"--gpu {gpu[:60]}: not in the table; {hint} --bandwidth and --flops say it for any other")
        name = found.name if gpus == 1 else f"{gpus} × {found.name}"
        bytes_per_s = gpus * found.bytes_per_s
        sources["inputs.bandwidth_bytes_per_s"] = f"assumed: {found.name} table ({found.source})"
        if found.flops_of_weights is not None:
            kind, value = found.flops_of_weights
            peak_flops = gpus * value
            sources["inputs.flops"] = f"assumed: {found.name} table, {kind} ({found.source})"
    if bandwidth is not None:
        bytes_per_s, sources["inputs.bandwidth_bytes_per_s"] = read_bandwidth("--bandwidth", bandwidth), "given"
    if flops is not None:
        peak_flops, sources["inputs.flops"] = read_flops("--flops", flops), "given"
    if bytes_per_s is None and peak_flops is None:
        raise UsageError("which machine? --gpu NAME (--list-gpus lists them), or --bandwidth B and --flops F")
    return Machine(bytes_per_s, peak_flops), name, sources


def _list_gpus(as_json: str | None) -> int:
    if as_json is None:
        from phasetop.predict_text import gpu_lines

        for line in gpu_lines():
            print(line)
        return EXIT_OK
    rows: list[dict[str, Any]] = [
        {
            "name": peak.name,
            "kind": peak.kind,
            "bandwidth_bytes_per_s": peak.bytes_per_s,
            "flops": dict(peak.flops),
            "source": peak.source,
        }
        for peak in peaks.PEAKS
    ]
    print_json({"gpus": rows}, as_json)
    return EXIT_OK
