"""``python -m phasetop``."""

from phasetop.cli import main

main()
