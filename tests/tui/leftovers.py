"""Runs a command on this terminal, and then tells what was left unread in its input: what a shell would take for typed.

python tests/tui/leftovers.py COMMAND …
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tty

status = subprocess.run(sys.argv[1:], check=False).returncode
tty.setcbreak(0)
left = b""
while select.select([0], [], [], 1.2)[0]:
    left += os.read(0, 4096)
print(f"STATUS {status} LEFT {left!r}")
