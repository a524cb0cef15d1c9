"""The shapes for other programs, to the character."""

# ruff: noqa: E501 - tables are as wide as they are

from __future__ import annotations

import csv
import io

import pytest
from msgspec.structs import replace

from phasetop.bench_formats import benchstat_lines, csv_text, md_lines
from phasetop.bench_plan import Cell
from phasetop.bench_stats import Figure
from tests.bench.shown import TOLD, point

POINTS = [
    point(Cell(tokens=512), 400.0, 50.0, 1.28),
    point(Cell(tokens=128, depth=4096, output=32), 200.0, 40.0, 0.64),
    point(Cell(tokens=128, parallel=4), 300.0, 20.0, 2.0),
]


def test_llama_benchs_table() -> None:
    """Columns, widths and test names as llama-bench b11434 prints them; a bar in a name does not end the cell."""
    lines = list(md_lines(TOLD, POINTS))
    assert lines[:6] == [
        "| model                          |       size |     params | backend    | threads |            test |                  t/s |",
        "| ------------------------------ | ---------: | ---------: | ---------- | ------: | --------------: | -------------------: |",
        "| tiny\\|1B Q4_K_M                | 638.96 MiB |     1.10 B | llamacpp   |       4 |           pp512 |        400.00 ± 4.00 |",
        "| tiny\\|1B Q4_K_M                | 638.96 MiB |     1.10 B | llamacpp   |       4 |     tg64 @ d512 |         50.00 ± 0.50 |",
        "| tiny\\|1B Q4_K_M                | 638.96 MiB |     1.10 B | llamacpp   |       4 |   pp128 @ d4096 |        200.00 ± 2.00 |",
        "| tiny\\|1B Q4_K_M                | 638.96 MiB |     1.10 B | llamacpp   |       4 |    tg32 @ d4224 |         40.00 ± 0.40 |",
    ]
    assert "|        pp128 x4 |        300.00 ± 3.00 |" in lines[6]
    assert "|  tg64 @ d128 x4 |         80.00 ± 0.80 |" in lines[7]
    assert lines[-1] == "build: phasetop 0.9.0, llamacpp b11434"


def test_a_swept_setting_is_a_column() -> None:
    swept = [point(Cell(tokens=64), 100.0, 10.0, 0.6, swept={"ubatch": n}) for n in (64, 512)]
    lines = list(md_lines(TOLD, swept))
    assert "| threads | n_ubatch |            test |" in lines[0]
    assert "|       4 |       64 |            pp64 |" in lines[2]
    assert "|       4 |      512 |            pp64 |" in lines[4]


def test_csv() -> None:
    told = {**TOLD, "model": {**TOLD["model"], "name": "=cmd()"}}
    rows = list(csv.DictReader(io.StringIO(csv_text(told, POINTS))))
    assert [row["prompt_tokens"] for row in rows] == ["512", "128", "128"]
    first = rows[0]
    assert first["model"] == "'=cmd()"
    assert first["prompt_words"] == ""
    assert (first["prefill_tok_per_s"], first["prefill_tok_per_s_sd"]) == ("400.0", "4.0")
    # t(0.975, 2) = 4.302653 (tables): 400 ± 4.302653 · 4 / √3
    assert float(first["prefill_tok_per_s_ci95_low"]) == pytest.approx(390.06345, abs=1e-3)
    assert first["aggregate_decode_tok_per_s"] == ""
    assert rows[2]["aggregate_decode_tok_per_s"] == "80.0"


def test_go_benchmark_lines() -> None:
    lines = list(benchstat_lines({**TOLD, "model": {"name": "tiny 1B/x"}}, POINTS[:1]))
    assert lines[:2] == ["pkg: phasetop/llamacpp", "cpu: EPYC 9354"]
    assert "Unit decode-tok/s better=higher" in lines
    assert [line for line in lines if line.startswith("Benchmark")] == [
        "BenchmarkPhases/model=tiny-1B-x/prompt=512/output=64/depth=0/parallel=1\t1\t"
        f"{prefill} prefill-tok/s\t{decode} decode-tok/s\t{ttft} ttft-sec"
        for prefill, decode, ttft in ((396, 49.5, 1.2672), (400, 50, 1.28), (404, 50.5, 1.2928))
    ]


def test_what_is_not_known_is_left_out() -> None:
    silent = [replace(point(Cell(tokens=64), 100.0, 10.0, 0.6), prefill=Figure())]
    assert not any(" pp64" in line for line in md_lines(TOLD, silent))
    assert all("prefill-tok/s" not in line for line in benchstat_lines(TOLD, silent) if line.startswith("Benchmark"))
