"""What is asked of Ollama: options by its names, chats in its form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.backends import ollama_request as request
from phasetop.setting_names import OLLAMA_NAMES, OLLAMA_OPTIONS


def test_settings_become_options_by_ollamas_names() -> None:
    settings = {
        "context": 8192,
        "batch": 512,
        "threads": 4,
        "gpu_layers": 20,
        "max_tokens": 64,
        "temperature": 0.2,
        "top_k": 40,
        "seed": 7,
        "stop": "END",
        "num_keep": 8,
        "repeat_last_n": 32,
        "keep_alive": "5m",
        "logprobs": 5,
        "think": "high",
        "format": "json",
        "truncate": False,
    }
    assert request.body_of(settings) == {
        "stream": True,
        "options": {
            "num_ctx": 8192,
            "num_batch": 512,
            "num_thread": 4,
            "num_gpu": 20,
            "num_predict": 64,
            "temperature": 0.2,
            "top_k": 40,
            "seed": 7,
            "stop": ["END"],
            "num_keep": 8,
            "repeat_last_n": 32,
        },
        "keep_alive": "5m",
        "truncate": False,
        "logprobs": True,
        "top_logprobs": 5,
        "think": "high",
        "format": "json",
    }
    assert request.unused(settings) == {}


def test_nothing_given_asks_for_nothing() -> None:
    assert request.body_of({"temperature": None}) == {"stream": True}


@pytest.mark.parametrize(("given", "sent"), [("all", 999), ("auto", None), (0, 0), (-1, -1)])
def test_layers_on_the_gpu(given: object, sent: int | None) -> None:
    assert request.body_of({"gpu_layers": given}).get("options", {}).get("num_gpu") == sent


def test_a_body_that_an_app_logged_for_openai() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    body = request.body_of({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}})
    assert body["format"] == schema
    assert request.body_of({"response_format": {"type": "json_object"}})["format"] == "json"
    assert "format" not in request.body_of({"response_format": {"type": "text"}})
    assert request.body_of({"reasoning_effort": "low"})["think"] == "low"
    assert request.body_of({"reasoning_effort": "none"})["think"] is False
    assert request.body_of({"chat_template_kwargs": {"enable_thinking": False}})["think"] is False


def test_what_ollama_does_not_take_is_not_sent_and_has_a_reason() -> None:
    settings = {"cache_type_k": "q8_0", "parallel": 4, "cache_prompt": False, "logit_bias": {"1": 2}, "temperature": 1}
    assert request.body_of(settings) == {"stream": True, "options": {"temperature": 1}}
    why = request.unused(settings)
    assert why.keys() == {"cache_type_k", "parallel", "cache_prompt", "logit_bias"}
    assert "OLLAMA_KV_CACHE_TYPE" in why["cache_type_k"]


def test_messages_of_openai_in_ollamas_form() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be short."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "name": "look", "content": "a cat"},
    ]
    system, user, call, result = request.messages_of(messages)
    assert system == {"role": "system", "content": "Be short."}
    assert user == {"role": "user", "content": "What is this?", "images": ["aGk="]}
    assert call["tool_calls"] == [{"id": "c1", "function": {"name": "look", "arguments": {"x": 1}}}]
    assert call["content"] == ""
    assert result == {"role": "tool", "tool_call_id": "c1", "tool_name": "look", "content": "a cat"}
    assert request.has_images([user])
    assert not request.has_images([system])


def test_a_models_own_settings_are_read_from_its_columns() -> None:
    lines = (
        'num_ctx                        8192\nstop                           "<|im_start|>"\n'
        'stop                           "<|im_end|>"\ntemperature                    0.6\nunheard                        1'
    )
    assert request.parameters_of(lines) == {"context": 8192, "temperature": 0.6, "stop": ["<|im_start|>", "<|im_end|>"]}
    assert request.parameters_of(None) == {}


def test_bytes_of_a_prompt() -> None:
    assert request.prompt_bytes({"prompt": "é"}) == 2
    assert request.prompt_bytes({"messages": [{"content": "ab"}, {"content": "c"}, {}]}) == 3


NAMES = st.sampled_from([*sorted(OLLAMA_OPTIONS), *OLLAMA_NAMES, "think", "format", "logit_bias", "x"])


@given(st.dictionaries(NAMES, st.integers(0, 9) | st.text(max_size=3) | st.none(), max_size=6))
def test_every_setting_is_sent_or_named(settings: dict[str, object]) -> None:
    body, unused = request.body_of(settings), request.unused(settings)
    for name, value in settings.items():
        theirs = OLLAMA_NAMES.get(name, name)
        sent = theirs in body.get("options", {}) or name in body
        if value is not None and not (name == "gpu_layers" or theirs == "num_gpu"):
            assert sent != (name in unused)
