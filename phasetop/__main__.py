"""``phasetop`` and ``python -m phasetop``: what is called first."""

from __future__ import annotations

import signal


def main() -> None:
    """Load the command line and call it. Ctrl-C while it is loaded ends without a word, as it does in what is no Python."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, or somebody else's
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from phasetop import cli

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
