"""AMD cards by sysfs, the vendors' table, and vendors that others bring."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from phasetop import events as ev
from phasetop.backends import gpu_vendors
from phasetop.backends.amd import AmdSampler, cards, devices_of
from phasetop.backends.recorder import Recorder
from phasetop.recording import load
from phasetop.session import Session


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    read, write = os.pipe()
    os.set_blocking(write, False)
    made = Recorder(tmp_path / "s.phasetop", write)
    made.open("s", [], "run", ev.Host())
    yield made
    os.close(read)
    os.close(write)


def put(root: Path, **files: object) -> Path:
    """A card as amdgpu shows it; ``__`` in a name is a ``/``."""
    device = root / "sys/devices/pci0000:00/0000:03:00.0"
    link = root / "sys/class/drm/card0/device"
    link.parent.mkdir(parents=True, exist_ok=True)
    device.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(device)
    for name, value in {"vendor": "0x1002", "device": "0x744c", **files}.items():
        file = device / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    return device


def sampled(recorder: Recorder, root: Path, tmp_path: Path) -> Session:
    sampler = AmdSampler(recorder, cards(root), root)
    for index, card in enumerate(sampler._cards):
        sampler._declare(card, index)
    sampler.read_once()
    return load(tmp_path / "s.phasetop")


def told(session: Session, name: str) -> tuple[float | None, str | None]:
    """(the newest value, why there is none)."""
    samples = session.series(name, d=1)
    assert samples is not None
    info = samples.info.at()
    assert info is not None
    if info.off:
        return None, info.off
    last = len(samples.value) - 1
    value = samples.value[last]
    return (None, samples.why.get(last)) if value != value else (value, None)


def test_what_amdgpu_tells(recorder: Recorder, tmp_path: Path) -> None:
    put(
        tmp_path,
        product_name="Radeon RX 7900 XTX",
        unique_id="a1b2",
        gpu_busy_percent=97,
        mem_busy_percent=41,
        mem_info_vram_total=25753026560,
        mem_info_vram_used=6442450944,
        hwmon__hwmon3__power1_average=303000000,
        hwmon__hwmon3__temp1_input=61000,
        hwmon__hwmon3__freq1_input=2460000000,
        hwmon__hwmon3__freq2_input=1249000000,
    )
    session = sampled(recorder, tmp_path, tmp_path)
    device = session.devices[1].at()
    assert device is not None
    assert (device.vendor, device.name, device.uuid, device.pci) == ("amd", "Radeon RX 7900 XTX", "a1b2", "0000:03:00.0")
    assert device.mem_bytes == 25753026560
    values = {name: told(session, name)[0] for name in ("sm_percent", "memory_busy_percent", "power_w", "temperature_c")}
    assert values == {"sm_percent": 97, "memory_busy_percent": 41, "power_w": 303.0, "temperature_c": 61.0}
    assert (told(session, "sm_mhz")[0], told(session, "memory_mhz")[0]) == (2460, 1249)
    assert told(session, "memory_used_bytes")[0] == 6442450944
    for name in ("energy_uj", "dram_percent", "throttle"):
        assert told(session, name)[1]


def test_an_apu_and_a_card_without_values(recorder: Recorder, tmp_path: Path) -> None:
    put(tmp_path, gpu_busy_percent=65535, hwmon__hwmon0__power1_input=15000000)
    session = sampled(recorder, tmp_path, tmp_path)
    assert told(session, "sm_percent") == (None, "this card, or its driver, does not tell it in sysfs")
    assert told(session, "power_w")[0] == 15.0
    device = session.devices[1].at()
    assert device is not None
    assert device.name == "AMD GPU 744c"


def test_a_sleeping_card_is_not_read(recorder: Recorder, tmp_path: Path) -> None:
    device = put(tmp_path, gpu_busy_percent=3, power__runtime_status="suspended")
    os.utime(device / "gpu_busy_percent", (1, 1))
    session = sampled(recorder, tmp_path, tmp_path)
    assert told(session, "sm_percent") == (None, "the card sleeps")


def test_no_amd_card(tmp_path: Path) -> None:
    put(tmp_path, vendor="0x8086")
    assert cards(tmp_path) == []


def test_which_process_uses_it(tmp_path: Path) -> None:
    folder = tmp_path / "proc/42/fdinfo"
    folder.mkdir(parents=True)
    (folder / "5").write_text("pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t5000 KiB\n")
    (folder / "6").write_text("pos:\t0\ndrm-pdev:\t0000:04:00.0\ndrm-engine-gfx:\t0 ns\ndrm-memory-vram:\t0 KiB\n")
    assert devices_of(frozenset((42,)), tmp_path) == frozenset(("0000:03:00.0",))
    assert devices_of(frozenset((43,)), tmp_path) is None


class Acme:
    """A vendor's sampler as somebody else might write it."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder


def test_a_vendor_that_another_package_brings(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    def points(*, group: str, name: str) -> list[Any]:
        assert group == "phasetop.gpus"
        here = {"acme": "tests_acme:Acme", "broken": "tests_acme:nothing"}
        return [EntryPoint(name, here[name], group)] if name in here else []

    import sys
    from types import ModuleType

    module = ModuleType("tests_acme")
    module.Acme = Acme  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tests_acme", module)
    monkeypatch.setattr("importlib.metadata.entry_points", points)
    monkeypatch.setattr(gpu_vendors, "BUILT_IN", {})
    monkeypatch.setenv("PHASETOP_GPUS", "acme,broken nobody")
    names = gpu_vendors.wanted_names()
    assert names == ["acme", "broken", "nobody"]
    found = gpu_vendors.samplers(recorder, names)
    assert [type(each).__name__ for each in found] == ["Acme"]
    recorder.close("done")


def test_a_vendor_that_is_missing_or_fails_is_told(tmp_path: Path, recorder: Recorder) -> None:
    gpu_vendors.samplers(recorder, ["nobody"])
    notices = load(tmp_path / "s.phasetop").notices.items
    assert [notice.code for notice in notices] == ["gpu-vendor"]
    assert "nobody" in notices[0].text
