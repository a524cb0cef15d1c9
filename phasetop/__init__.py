"""phasetop: a terminal live profiler for local LLM inference.

The core lives here, and knows neither HTTP nor Textual:

- the session file: `events`, `codec`, `journal` (its writer), `recording`, `follow` and `afar` (its readers), `redaction`;
- the Session in memory: `session` and its `columns`;
- figures, pure functions of (Session, request, cursor): `metrics` and what it calls (`counts`, `phases`, `rates`, `tally`,
  `hostphases`, `gpuphases`, ``run_*``, `kv_figures`, ``verdict*``), and `report`, which prints them as JSON;
- models on paper: `gguf`, `model_metadata`, `kv`, `roofline`, `peaks`;
- a command each: `cli` declares its options, ``NAME_command`` does its work, ``NAME_report`` makes its object, ``NAME_text``
  its lines for people, what else is called ``NAME_…`` is its own;
- what commands share: `lifeline` (a collector of one's own), `places` and `keeping` (files), `faults`, `output`, `figures`.

docs/architecture.md says where each new thing goes.
"""

__version__ = "0.1.0"
