"""Peaks of chips by the names that drivers and people use."""

from __future__ import annotations

import pytest

from phasetop import events as ev
from phasetop import peaks
from phasetop.run_devices import bandwidth_of, flops_of


@pytest.mark.parametrize(
    ("said", "name"),
    [
        # as NVML says it
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "RTX 4070 Ti SUPER"),
        ("NVIDIA GeForce RTX 3060 Ti", "RTX 3060 Ti"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40GB"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA GB10", "GB10"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Radeon RX 7900 XTX", "RX 7900 XTX"),
        ("Apple M2 Ultra", "M2 Ultra"),
        # as people do
        ("4090", "RTX 4090"),
        ("3060 Ti", "RTX 3060 Ti"),
        ("6000", None),
        ("rtx4090", "RTX 4090"),
        ("A100", "A100 SXM 80GB"),
        ("a100-40gb", "A100 SXM 40GB"),
        ("h100", "H100 SXM"),
        ("m3 max", "M3 Max"),
        # another chip
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA RTX A5000 Laptop GPU", None),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("RTX 3080 12GB", None),
        ("Orin", None),
        ("Orin (nvgpu)", None),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", None),  # its memory is another one
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", None),
        ("NVIDIA H100 64GB HBM2", None),
        ("NVIDIA A100-SXM-64GB", None),
        ("Tesla V100-SXM3-32GB", None),
        ("Tesla V100S-PCIE-32GB", None),
        ("Tesla P100-SXM2-16GB", "P100 SXM2"),
        ("Tesla P100-PCIE-16GB", "P100 PCIe"),
        ("", None),
    ],
)
def test_names(said: str, name: str | None) -> None:
    found = peaks.find(said)
    assert (found.name if found is not None else None) == name


@pytest.mark.parametrize(
    ("name", "gb_per_s", "tera"),
    # bus width / 8 x clock x 2, and the tables that others print (reports: LLM-Viewer, Baseten, the NVML formula)
    [
        ("RTX 3090", 936.1, 71),
        ("RTX 4090", 1008.1, 165.2),
        ("RTX 5090", 1792.1, 209.5),
        ("A100-40GB", 1555.2, 312),
        ("A100-80GB", 2039, 312),
        ("A6000", 768, 154.8),
        ("H100", 3352, 989.5),
        ("L40", 864, 181),
        ("A10", 600, 125),
        ("T4", 320, 65),
        ("V100", 898, 125),
    ],
)
def test_published_figures(name: str, gb_per_s: float, tera: float) -> None:
    found = peaks.find(name)
    assert found is not None
    assert found.bytes_per_s / 1e9 == pytest.approx(gb_per_s, rel=0.003)
    assert found.flops_of_weights is not None
    assert found.flops_of_weights[1] / 1e12 == pytest.approx(tera, rel=0.003)


@pytest.mark.parametrize(
    ("said", "gb", "name", "unsure"),
    [
        ("NVIDIA GeForce RTX 3080", 10, "RTX 3080", set()),
        ("NVIDIA GeForce RTX 3080", 12, None, {"bandwidth", "flops"}),  # 912 GB/s, and more units
        ("NVIDIA GeForce RTX 3060", 12, "RTX 3060", set()),
        ("NVIDIA GeForce RTX 3060", 8, None, {"bandwidth", "flops"}),  # 240 GB/s
        ("NVIDIA H100 80GB HBM3", 80, "H100 SXM", set()),
        ("NVIDIA H100", 64, None, {"bandwidth", "flops"}),
        ("AMD Instinct MI250X", 64, None, {"bandwidth", "flops"}),  # each of its two dies is a device
        ("AMD Instinct MI250X", 128, "MI250X", set()),
        ("AMD Instinct MI300X", 24, None, {"bandwidth", "flops"}),  # a partition
        ("NVIDIA GeForce RTX 4090", 24, "RTX 4090", set()),
        ("Apple M3 Max", None, "M3 Max", {"bandwidth"}),
        ("Apple M1 Pro", None, "M1 Pro", {"flops"}),
        ("Apple M4", None, "M4", set()),
        ("Orin Nano", None, "Jetson Orin Nano", {"bandwidth"}),
        ("NVIDIA Foo", 24, None, set()),
    ],
)
def test_what_a_drivers_name_and_memory_do_not_settle(said: str, gb: int | None, name: str | None, unsure: set[str]) -> None:
    # GiB less what the driver keeps: an RTX 3080 tells 10,240 MiB, an H100 81,559 MiB
    told = peaks.of_device(said, None if gb is None else round(gb * (1 << 30) * 0.99))
    assert (told.peak.name if told.peak is not None else None) == name
    assert set(told.why) == unsure


@pytest.mark.parametrize(
    ("device", "bandwidth", "flops"),
    [
        (ev.Device(t=0, d=1, name="Orin (nvgpu)", peak_bytes_per_s=ev.Sourced(None, "which board is not told")), None, None),
        (ev.Device(t=0, d=0, name="Apple M3 Max"), None, None),
        (ev.Device(t=0, d=0, name="Apple M1 Max"), 400e9, None),
        (ev.Device(t=0, d=1, name="NVIDIA GeForce RTX 4090", mem_bytes=25757220864), 1008e9, 165.2e12),
        (ev.Device(t=0, d=1, name="AMD Instinct MI250X", mem_bytes=64 << 30), None, None),
    ],
)
def test_a_device_that_is_not_sure_is_a_dash_with_its_reason(
    device: ev.Device, bandwidth: float | None, flops: float | None
) -> None:
    reads, computes = bandwidth_of(device, None), flops_of(device, None)
    assert (reads.value, computes.value) == (bandwidth, flops)
    assert reads.value is not None or "--peak-bandwidth sets it" in reads.source
    assert computes.value is not None or "--peak-flops sets them" in computes.source


def test_every_row_has_a_source_and_a_name_of_its_own() -> None:
    assert len({peak.name for peak in peaks.PEAKS}) == len(peaks.PEAKS) > 80
    for peak in peaks.PEAKS:
        assert peak.source
        assert 20e9 < peak.bytes_per_s < 10e12
        assert peaks.find(peak.name) is peak
        assert all(peaks.find(name) is peak for name in peak.names), peak.name
        assert set(peak.flops) <= {"fp16", "bf16", "fp8", "int8", "fp32"}
        assert all(1e12 < flops < 1e16 for flops in peak.flops.values())


def test_what_is_near() -> None:
    assert "RTX 4090" in peaks.similar("4090d")
    assert peaks.similar("RTX 4091")[0].startswith("RTX 40")
    assert peaks.similar("zzzzzzz") == []
