"""The helpers beside the tests can be imported as what they are to the type checker: ``tests.tui.fabricate``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
