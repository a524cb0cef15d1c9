"""Writes docs/events.schema.json, the JSON Schema of a session file's lines, from the structs that write them.

python scripts/events_schema.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from phasetop.codec import json_schema

FILE: Final = Path(__file__).resolve().parents[1] / "docs" / "events.schema.json"


def text() -> str:
    """The file as it should be."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
