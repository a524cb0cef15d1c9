"""What GPUs, Apple's chips and CPUs can do at most: memory bandwidth and FLOP/s by dtype, each with its source.

FLOP/s are dense (never "with sparsity") and those of the units that a matrix product of a language model uses: NVIDIA's
tensor cores (GeForce: FP16 with FP32 accumulation, which is half of the FP16-accumulation figure), AMD's matrix units, the
plain FP32 rate where a chip has nothing else that is published. A figure that its maker does not publish is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

Kind = Literal["nvidia", "amd", "intel", "apple", "cpu"]

GB: Final = 1e9
T: Final = 1e12


class Peak(Struct, frozen=True):
    """One chip.

    Attributes:
        bytes_per_s: of its memory, as its maker quotes it.
        flops: dtype → FLOP/s (int8: operations), dense.
        source: where both are from.
        names: other names that mean it.
        memory_gb: its memory, where a card of the same name with another one is another chip; empty: it does not matter.
        unsure: ``bandwidth`` or ``flops`` → why the name alone, as a driver tells it, does not say which of several it is.

    """

    name: str
    kind: Kind
    bytes_per_s: float
    flops: Mapping[str, float]
    source: str
    names: tuple[str, ...] = ()
    memory_gb: tuple[float, ...] = ()
    unsure: Mapping[str, str] = {}

    @property
    def flops_of_weights(self) -> tuple[str, float] | None:
        """(dtype, FLOP/s) of the products of a language model: 16-bit floats, else 32-bit ones; None: not published."""
        return next(((dtype, self.flops[dtype]) for dtype in ("fp16", "bf16", "fp32") if dtype in self.flops), None)


def _nvidia(
    name: str, bandwidth_gb: float, source: str, *names: str, bf16: bool = True, memory_gb: float = 0, **tera: float
) -> Peak:
    flops = {dtype: value * T for dtype, value in tera.items()}
    if bf16 and "fp16" in flops:
        flops["bf16"] = flops["fp16"]  # the same units at the same rate from Ampere on
    return Peak(name, "nvidia", bandwidth_gb * GB, flops, source, names, (memory_gb,) if memory_gb else ())


def _plain(
    kind: Kind, name: str, bandwidth_gb: float, source: str, *names: str, memory_gb: float = 0, **tera: float
) -> Peak:
    flops = {dtype: value * T for dtype, value in tera.items()}
    return Peak(name, kind, bandwidth_gb * GB, flops, source, names, (memory_gb,) if memory_gb else ())


def _unsure(peak: Peak, **why: str) -> Peak:
    return replace(peak, unsure=why)


_AMPERE: Final = "NVIDIA GA102 whitepaper"
_ADA: Final = "NVIDIA Ada GPU architecture whitepaper"
_BLACKWELL: Final = "NVIDIA RTX Blackwell GPU architecture whitepaper"
_A100: Final = "NVIDIA A100 datasheet"
_H100: Final = "NVIDIA H100 datasheet"
_H200: Final = "NVIDIA H200 datasheet"
_P100: Final = "NVIDIA P100 datasheet"

_NVIDIA: Final = (
    _nvidia("B200", 8000, "NVIDIA HGX B200 datasheet", fp16=2250, fp8=4500),
    _nvidia("H200", 4800, _H200, "H200 SXM", fp16=989.4, fp8=1978.9, int8=1978.9),
    _nvidia("H200 NVL", 4800, _H200, fp16=835.5, fp8=1670.5, int8=1670.5),
    _nvidia(
        "H100 SXM", 3350, _H100, "H100", "H100 80GB HBM3", "H100 SXM5", memory_gb=80, fp16=989.4, fp8=1978.9, int8=1978.9
    ),
    _nvidia("H100 PCIe", 2039, "NVIDIA H100 datasheet (2 TB/s: 5120 bit x 1593 MHz)", fp16=756, fp8=1513, int8=1513),
    _nvidia("H100 NVL", 3900, _H100, fp16=835.5, fp8=1670.5, int8=1670.5),
    _nvidia("A100 SXM 80GB", 2039, _A100, "A100", "A100-80GB", "A100-SXM4-80GB", fp16=312, int8=624),
    _nvidia("A100 PCIe 80GB", 1935, _A100, "A100 80GB PCIe", "A100-PCIE-80GB", fp16=312, int8=624),
    _nvidia("A100 SXM 40GB", 1555, _A100, "A100-40GB", "A100-SXM4-40GB", fp16=312, int8=624),
    _nvidia("A100 PCIe 40GB", 1555, _A100, "A100-PCIE-40GB", fp16=312, int8=624),
    _nvidia("A30", 933, "NVIDIA A30 datasheet", fp16=165, int8=330),
    _nvidia("A40", 696, "NVIDIA A40 datasheet", fp16=149.7, int8=299.3),
    _nvidia("A10", 600, "NVIDIA A10 datasheet", fp16=125, int8=250),
    _nvidia("A10G", 600, "AWS EC2 G5 and NVIDIA A10G datasheet", fp16=70, int8=140),
    _nvidia("L40S", 864, "NVIDIA L40S datasheet", fp16=362.05, fp8=733, int8=733),
    _nvidia("L40", 864, "NVIDIA L40 datasheet", fp16=181.05, fp8=362, int8=362),
    _nvidia("L4", 300, "NVIDIA L4 datasheet", fp16=121, fp8=242.5, int8=242.5),
    _nvidia("T4", 320, "NVIDIA T4 datasheet (FP16 tensor; 300 in older papers)", "Tesla T4", bf16=False, fp16=65, int8=130),
    _nvidia("V100 SXM2", 900, "NVIDIA V100 datasheet", "V100", "V100-SXM2", bf16=False, fp16=125),
    _nvidia("V100 PCIe", 900, "NVIDIA V100 datasheet", "V100-PCIE", bf16=False, fp16=112),
    _nvidia("P100 PCIe", 732, _P100, "P100", "P100-PCIE", bf16=False, memory_gb=16, fp16=18.7, fp32=9.3),
    _nvidia("P100 SXM2", 732, _P100, "P100-SXM2", bf16=False, fp16=21.2, fp32=10.6),
    _nvidia("P40", 346, "NVIDIA P40 datasheet", bf16=False, fp32=12, int8=47),
    _nvidia("RTX A6000", 768, "NVIDIA RTX A6000 datasheet", "A6000", fp16=154.8, int8=309.7),
    _nvidia("RTX A5000", 768, "NVIDIA RTX A5000 datasheet", "A5000", fp16=111.1, int8=222.2),
    _nvidia("RTX A4000", 448, "NVIDIA RTX A4000 datasheet", "A4000", fp16=76.7, int8=153.4),
    _nvidia("RTX 6000 Ada", 960, "NVIDIA RTX 6000 Ada datasheet", fp16=364.25, fp8=728.5, int8=728.5),
    _nvidia("RTX PRO 6000 Blackwell", 1792, "NVIDIA RTX PRO 6000 Blackwell datasheet"),
    _nvidia("GB10", 273, "NVIDIA DGX Spark datasheet", "DGX Spark"),
    _nvidia("Jetson AGX Orin", 204.8, "NVIDIA Jetson AGX Orin datasheet", "AGX Orin"),
    _nvidia("Jetson Orin NX", 102.4, "NVIDIA Jetson Orin NX datasheet (8 and 16 GB)", "Orin NX"),
    _unsure(
        _nvidia("Jetson Orin Nano", 68, "NVIDIA Jetson Orin Nano datasheet (8 GB, up to 15 W)", "Orin Nano"),
        bandwidth="an Orin Nano reads 34 GB/s with 4 GB, 68 with 8, and 102 in its Super mode",
    ),
    _nvidia("Jetson Orin Nano Super", 102, "NVIDIA Jetson Orin Nano Super datasheet (8 GB)", "Orin Nano Super"),
    _nvidia("Jetson AGX Thor", 273, "NVIDIA Jetson Thor datasheet", "AGX Thor", "Thor"),
    _nvidia("RTX 5090", 1792, _BLACKWELL, fp16=209.5, fp8=419),
    _nvidia("RTX 5080", 960, _BLACKWELL, fp16=112.6, fp8=225.1),
    _nvidia("RTX 5070 Ti", 896, _BLACKWELL, fp16=87.9, fp8=175.8),
    _nvidia("RTX 5070", 672, _BLACKWELL, fp16=61.7, fp8=123.5),
    _nvidia("RTX 5060 Ti", 448, "NVIDIA's product page"),
    _nvidia("RTX 4090", 1008, _ADA, fp16=165.2, fp8=330.3, int8=660.6),
    _nvidia("RTX 4080 SUPER", 736, "NVIDIA's product page"),
    _nvidia("RTX 4080", 716.8, _ADA, fp16=97.5, fp8=194.9, int8=389.9),
    _nvidia("RTX 4070 Ti SUPER", 672, "NVIDIA's product page"),
    _nvidia("RTX 4070 Ti", 504, _ADA, fp16=80.2, fp8=160.4, int8=320.7),
    _nvidia("RTX 4070 SUPER", 504, "NVIDIA's product page"),
    _nvidia("RTX 4070", 504, "NVIDIA's product page (GDDR6X; tensor cores: twice its FP32)", fp16=58.3),
    _nvidia("RTX 4060 Ti", 288, "NVIDIA's product page"),
    _nvidia("RTX 4060", 272, "NVIDIA's product page"),
    _nvidia("RTX 3090 Ti", 1008, "NVIDIA's product page (tensor cores: twice its FP32)", fp16=80),
    _nvidia("RTX 3090", 936, _AMPERE, fp16=71, int8=284),
    _nvidia("RTX 3080 Ti", 912, "NVIDIA's product page"),
    _nvidia("RTX 3080", 760, _AMPERE, memory_gb=10, fp16=59.5, int8=238),
    _nvidia("RTX 3070 Ti", 608, "NVIDIA's product page"),
    _nvidia("RTX 3070", 448, _AMPERE, fp16=40.6, int8=162.6),
    _nvidia("RTX 3060 Ti", 448, "NVIDIA's product page (GDDR6; 608 with GDDR6X)"),
    _nvidia("RTX 3060", 360, "NVIDIA's product page (12 GB)", memory_gb=12),
    _nvidia("RTX 2080 Ti", 616, "NVIDIA Turing whitepaper", bf16=False, fp16=53.8, int8=215.2),
    _nvidia("GTX 1080 Ti", 484, "NVIDIA's product page", bf16=False, fp32=11.3),
)
_AMD: Final = (
    _plain("amd", "MI355X", 8000, "AMD Instinct MI355X datasheet", memory_gb=288, fp16=2516.6, bf16=2516.6, fp8=5033.2),
    _plain(
        "amd",
        "MI325X",
        6000,
        "AMD Instinct MI325X datasheet",
        memory_gb=256,
        fp16=1307.4,
        bf16=1307.4,
        fp8=2614.9,
        int8=2614.9,
    ),
    _plain(
        "amd",
        "MI300X",
        5300,
        "AMD Instinct MI300X datasheet",
        memory_gb=192,
        fp16=1307.4,
        bf16=1307.4,
        fp8=2614.9,
        int8=2614.9,
    ),
    _plain(
        "amd", "MI250X", 3276.8, "AMD Instinct MI250X datasheet (both dies)", memory_gb=128, fp16=383, bf16=383, int8=383
    ),
    _plain("amd", "MI210", 1638.4, "AMD Instinct MI210 datasheet", memory_gb=64, fp16=181, bf16=181, int8=181),
    _plain("amd", "MI100", 1228.8, "AMD Instinct MI100 datasheet", memory_gb=32, fp16=184.6, bf16=92.3),
    _plain("amd", "RX 7900 XTX", 960, "AMD's product page", fp16=122.8),
    _plain("amd", "RX 7900 XT", 800, "AMD's product page", fp16=103),
    _plain("amd", "RX 9070 XT", 640, "AMD's product page", fp16=195),
    _plain("amd", "RX 6900 XT", 512, "AMD's product page", fp16=46.1),
    _plain("amd", "RX 6800 XT", 512, "AMD's product page", fp16=41.5),
    _plain("amd", "Ryzen AI Max+ 395", 256, "AMD's product page: LPDDR5X-8000, 256 bit", "Strix Halo"),
    _plain("intel", "Arc B580", 456, "Intel's product page"),
    _plain("intel", "Arc A770", 560, "Intel's product page (16 GB)", memory_gb=16),
)
_APPLE: Final = (
    _unsure(
        _plain("apple", "M1", 68.25, "LPDDR4X-4266, 128 bit; FP32 as Apple says", fp32=2.6),
        flops="Apple sells it with 7 or 8 GPU cores",
    ),
    _unsure(_plain("apple", "M1 Pro", 200, "Apple's newsroom", fp32=5.2), flops="Apple sells it with 14 or 16 GPU cores"),
    _unsure(_plain("apple", "M1 Max", 400, "Apple's newsroom", fp32=10.4), flops="Apple sells it with 24 or 32 GPU cores"),
    _unsure(_plain("apple", "M1 Ultra", 800, "Apple's newsroom", fp32=21), flops="Apple sells it with 48 or 64 GPU cores"),
    _unsure(_plain("apple", "M2", 100, "Apple's newsroom", fp32=3.6), flops="Apple sells it with 8 or 10 GPU cores"),
    _plain("apple", "M2 Pro", 200, "Apple's newsroom"),
    _plain("apple", "M2 Max", 400, "Apple's newsroom"),
    _plain("apple", "M2 Ultra", 800, "Apple's newsroom"),
    _plain("apple", "M3", 100, "Apple's technical specifications"),
    _plain("apple", "M3 Pro", 150, "Apple's technical specifications"),
    _unsure(
        _plain("apple", "M3 Max", 400, "Apple's technical specifications (40 GPU cores; 300 with 30)"),
        bandwidth="it reads 400 GB/s with 40 GPU cores and 300 with 30",
    ),
    _plain("apple", "M3 Ultra", 819, "Apple's technical specifications"),
    _plain("apple", "M4", 120, "Apple's technical specifications"),
    _plain("apple", "M4 Pro", 273, "Apple's technical specifications"),
    _unsure(
        _plain("apple", "M4 Max", 546, "Apple's technical specifications (40 GPU cores; 410 with 32)"),
        bandwidth="it reads 546 GB/s with 40 GPU cores and 410 with 32",
    ),
)
_CHANNELS: Final = "a socket with all channels filled: {}"
_CPU: Final = (
    _plain("cpu", "EPYC 9005", 576, _CHANNELS.format("12 × DDR5-6000"), "EPYC Turin"),
    _plain("cpu", "EPYC 9004", 460.8, _CHANNELS.format("12 × DDR5-4800"), "EPYC Genoa"),
    _plain("cpu", "EPYC 7003", 204.8, _CHANNELS.format("8 × DDR4-3200"), "EPYC Milan"),
    _plain("cpu", "Xeon 6900P", 844.8, _CHANNELS.format("12 × MRDIMM-8800"), "Granite Rapids"),
    _plain("cpu", "Xeon Emerald Rapids", 358.4, _CHANNELS.format("8 × DDR5-5600")),
    _plain("cpu", "Xeon Sapphire Rapids", 307.2, _CHANNELS.format("8 × DDR5-4800")),
    _plain("cpu", "Graviton4", 537.6, _CHANNELS.format("12 × DDR5-5600")),
    _plain("cpu", "Graviton3", 307.2, _CHANNELS.format("8 × DDR5-4800")),
    _plain("cpu", "Ryzen 9000", 89.6, _CHANNELS.format("2 × DDR5-5600"), "Ryzen 9 9950X"),
    _plain("cpu", "Ryzen 7000", 83.2, _CHANNELS.format("2 × DDR5-5200"), "Ryzen 9 7950X"),
    _plain("cpu", "Ryzen 5000", 51.2, _CHANNELS.format("2 × DDR4-3200"), "Ryzen 9 5950X"),
    _plain("cpu", "Core i9-14900K", 89.6, _CHANNELS.format("2 × DDR5-5600"), "Core i9-13900K"),
    _plain("cpu", "Core Ultra 9 285K", 102.4, _CHANNELS.format("2 × DDR5-6400")),
)
PEAKS: Final[tuple[Peak, ...]] = (*_NVIDIA, *_AMD, *_APPLE, *_CPU)
"""Every chip that is known here. A CPU's figure is for a whole socket: a machine of one's own is better measured."""

_NOISE: Final = frozenset(
    (
        *("nvidia", "geforce", "tesla", "quadro", "amd", "radeon", "instinct", "intel", "apple", "gpu", "graphics"),
        *("generation", "hbm3", "hbm3e", "workstation", "edition", "accelerator", "oam"),
    )
)
_SPOILS: Final = frozenset(("laptop", "mobile", "maxq", "mig", "vgpu"))
"""Words that make another chip of it, whose figures are not these."""
_MEMORY: Final = 0.1
"""Drivers tell less memory than a card is sold with: what ECC and the driver keep."""


class Told(Struct, frozen=True):
    """What the table says of a device that a driver named: the chip, and why a figure of it is not sure.

    ``why``: ``bandwidth`` or ``flops`` → the reason for a dash.
    """

    peak: Peak | None
    why: Mapping[str, str]


def of_device(name: str | None, mem_bytes: int | None = None) -> Told:
    """The chip of a device, by the name and the memory that its driver tells; a name that may mean several is not sure."""
    peak = find(name) if name else None
    if peak is None:
        return Told(None, {})
    if peak.memory_gb and mem_bytes and not any(_near(mem_bytes, gb) for gb in peak.memory_gb):
        sold = " or ".join(f"{gb:g}" for gb in peak.memory_gb)
        why = f"the table's {peak.name} has {sold} GB, and this device {mem_bytes / GB:.0f}: a part of it, or another one"
        return Told(None, {"bandwidth": why, "flops": why})
    return Told(peak, peak.unsure)


def _near(mem_bytes: int, gb: float) -> bool:
    """Whether a driver's bytes can be a card's gigabytes (which some makers count by 1000, some by 1024)."""
    return (1 - _MEMORY) * gb * GB <= mem_bytes <= 1.02 * gb * (1 << 30)


@lru_cache(maxsize=64)
def find(name: str) -> Peak | None:
    """The chip that a name means: as NVML says it, as its maker does, or short; None where none does, or it is not sure.

    A laptop's GPU, a part of one (MIG) or a virtual one is never taken for the card of that name.
    """
    words = _words(name)
    if _SPOILS & set(words):
        return None
    found = _by_form().get("".join(words))
    if found is None and not {"rtx", "gtx", "rx"} & set(words):  # two GeForce of one name and two sizes are two chips
        found = _by_form().get("".join(word for word in words if not re.fullmatch(r"\d+gb", word)))
    return found


def similar(name: str) -> list[str]:
    """Names of the table that come near one that is not in it, at most three."""
    import difflib

    wanted, forms = "".join(_words(name)), _by_form()
    near = difflib.get_close_matches(wanted, forms, n=6, cutoff=0.6)
    near += [form for form in forms if wanted and wanted in form]
    return list(dict.fromkeys(forms[form].name for form in near))[:3]


def _words(name: str) -> list[str]:
    text = re.sub(r"\((?:tm|r|c)\)", " ", name.lower().replace("max-q", "maxq"))
    text = re.sub(r"\b(\d+)\s+gb\b", r"\1gb", text)
    text = re.sub(r"\bsxm[456]\b", "sxm", text)
    return [word for word in re.findall(r"[a-z0-9.+]+", text) if word not in _NOISE]


def _forms(peak: Peak) -> Iterator[str]:
    for name in (peak.name, *peak.names):
        words = _words(name)
        yield "".join(words)
        if words[0] in ("rtx", "gtx", "rx") and words[1].isdigit() and peak.name == name:
            yield "".join(words[1:])  # 4090, as everybody says


@lru_cache(maxsize=1)
def _by_form() -> dict[str, Peak]:
    return {form: peak for peak in reversed(PEAKS) for form in _forms(peak)}
