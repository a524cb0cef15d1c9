"""The charts."""

from __future__ import annotations

from phasetop.session import Session
from phasetop.tui.cells import Area
from phasetop.tui.frame import Frame


def paint(area: Area, frame: Frame, session: Session, first: int) -> None:
    """Draw them."""
    area.put(1, 0, "charts" if frame and session and first >= 0 else "", "soft")
