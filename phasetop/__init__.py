"""phasetop: a terminal live profiler for local LLM inference.

The core lives here, and knows neither HTTP nor Textual: events (the session file's format), the Session read from them,
the metrics computed from a Session as of a cursor, and the command line that loads the rest only when a command needs it.
"""

__version__ = "0.1.0"
