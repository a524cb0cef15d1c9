"""An Ollama, by its OpenAI-compatible /v1: its own API is not spoken yet, so load and prefill cannot be told apart."""

from __future__ import annotations

from phasetop import events as ev
from phasetop.backends.endpoint import Endpoint, json_of
from phasetop.backends.identified import Identified, Refused, choose, decode_models
from phasetop.backends.openai import OpenAi
from phasetop.model_names import display_name


def probe(endpoint: Endpoint, wanted: str | None) -> Identified | None:
    """Recognise an Ollama by its /api/version. Raises `Refused` where the model is not there, `httpx.HTTPError`."""
    version = json_of(endpoint.get("/api/version")).get("version")
    if not isinstance(version, str):
        return None
    entries = decode_models(endpoint.get("/v1/models"))
    if not entries:
        raise Refused(ev.Fault(code="no-such-model", text="this Ollama has no models: `ollama pull NAME` gets one"))
    name = str(choose(entries, wanted).get("id"))
    return Identified(
        OpenAi(endpoint, name, "ollama"),
        {"backend": "ollama", "url": endpoint.base, "version": version},
        {"name": display_name(name), "origin": {"name": "server"}},
        (("ollama-v1", f"Ollama {version}: its /v1 is used, so load and prefill cannot be told apart"),),
    )
