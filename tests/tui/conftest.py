"""The helpers beside the tests can be imported as what they are to the type checker: ``tests.tui.fabricate``."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parents[2]))

settings.register_profile("untimed", deadline=None)  # how long an example takes is the machine's affair
settings.load_profile("untimed")
