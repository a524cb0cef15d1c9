"""What `phasetop run` was asked for, read from its options."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from phasetop.faults import UsageError
from phasetop.lifeline import Target
from phasetop.model_names import display_name, read_model_argument
from phasetop.plan import begun_plan, plan


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def read(model: str | None = None, stdin: Any = None, **given: Any) -> Any:
    return plan(model, given, stdin if stdin is not None else Terminal())


@pytest.mark.parametrize(
    ("typed", "kind"),
    [
        ("http://h:1", "url"),
        ("llama3.1:8b", "name"),
        ("hf.co/a/b:Q4_K_M", "name"),
        ("127.0.0.1:5000/library/tiny", "name"),
        (None, "none"),
        ("  ", "none"),
    ],
)
def test_how_model_is_read(typed: str | None, kind: str) -> None:
    assert read_model_argument(typed).kind == kind


def test_a_file_is_a_file_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "weights").touch()
    assert read_model_argument(str(tmp_path / "weights")).kind == "file"
    with pytest.raises(UsageError, match="no such file"):
        read_model_argument(str(tmp_path / "none.gguf"))


def test_a_folder_is_no_model_but_a_name_may_be_called_like_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "qwen3").mkdir()
    for typed in (str(tmp_path / "qwen3"), ".", "./qwen3", "../"):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UsageError, match="is a folder"):
            read_model_argument(typed)
    assert read_model_argument("qwen3").kind == "name"
    with pytest.raises(UsageError, match="no such file"):
        read_model_argument(str(tmp_path / "none"))


def test_an_empty_prompt_is_none() -> None:
    for typed in ("", " \n"):
        with pytest.raises(UsageError, match="the prompt is empty"):
            read(prompt=typed)
    assert read(prompt="", raw=True).prompt == ""


def test_a_sentence_is_a_prompt_without_p() -> None:
    with pytest.raises(UsageError, match='-p "why is the sky blue"'):
        read("why is the sky blue")


@pytest.mark.parametrize(
    ("served", "shown"),
    [
        ("/models/SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct.Q4_1"),
        ("big-00001-of-00004.gguf", "big"),
        (r"C:\models\a.gguf", "a"),
        ("/models/folder/", "folder"),
        ("llama3.1:8b", "llama3.1:8b"),
        ("org/model", "org/model"),
    ],
)
def test_names_are_never_paths(served: str, shown: str) -> None:
    assert display_name(served) == shown


def test_prompt_and_file_join_with_a_blank_line(tmp_path: Path) -> None:
    file = tmp_path / "p.txt"
    file.write_text("from the file", encoding="utf-8")
    wanted = read(prompt="say:", prompt_file=str(file), system="be brief")
    assert wanted.messages == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "say:\n\nfrom the file"},
    ]


def test_stdin_is_read_only_where_nothing_else_is_given() -> None:
    assert read(stdin=io.StringIO("piped")).messages == [{"role": "user", "content": "piped"}]
    assert read(stdin=io.StringIO("piped"), prompt="p").messages == [{"role": "user", "content": "p"}]
    assert read(stdin=io.StringIO("piped"), prompt="p", prompt_file="-").messages[0]["content"] == "p\n\npiped"
    assert read(stdin=io.StringIO("piped")).asks
    assert not read(stdin=io.StringIO("")).asks
    assert not read().asks


def test_a_system_message_alone_waits_for_what_is_typed(tmp_path: Path) -> None:
    wanted = read(system="be brief")
    assert (wanted.messages, wanted.asks) == ([{"role": "system", "content": "be brief"}], False)
    file = tmp_path / "chat.json"
    file.write_text('[{"role":"system","content":"tell a story"}]', encoding="utf-8")
    assert read(messages=str(file)).asks
    assert read(raw=True, prompt="x").asks


def test_settings_by_every_tools_names() -> None:
    wanted = read(
        "http://h:1",
        settings=("num_ctx=8192", "num_predict=5", "temp=0.5", "mirostat=2", "stop=[1]"),
        top_k=3,
        no_think=True,
        no_cache_prompt=True,
    )
    assert wanted.settings == {
        "context": 8192,
        "max_tokens": 5,
        "temperature": 0.5,
        "mirostat": 2,
        "stop": [1],
        "top_k": 3,
        "think": False,
        "cache_prompt": False,
    }
    with pytest.raises(UsageError, match="NAME=VALUE"):
        read(settings=("oops",))


def test_an_engines_settings_go_to_the_engine(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.touch()
    wanted = read(str(file), context=2048, threads=1, gpu_layers="all", temperature=0.1, prompt="x")
    assert wanted.start.target == Target("embedded")
    assert wanted.start.engine == {
        "file": str(file),
        "settings": {"context": 2048, "threads": 1, "gpu_layers": "all"},
    }
    assert wanted.settings == {"temperature": 0.1}
    assert wanted.start.argv == ["run", "m.gguf"]


def test_a_url_is_recorded_without_its_secrets() -> None:
    wanted = read("http://user:hush@h:1/x?key=hush", prompt="x", api_key="hush")
    assert wanted.start.argv == ["run", "http://h:1/x"]
    assert wanted.start.api_key == "hush"


def test_a_whole_request_body_as_an_app_logged_it(tmp_path: Path) -> None:
    file = tmp_path / "body.json"
    body = {
        "model": "gpt-4o",
        "stream": True,
        "messages": [{"role": "user", "content": "weather?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather"}}],
        "temperature": 0.1,
        "max_completion_tokens": 9,
    }
    file.write_text(json.dumps(body), encoding="utf-8")
    wanted = read("http://h:1", messages=str(file), temperature=0.7)
    assert wanted.messages == body["messages"]
    assert wanted.tools == body["tools"]
    assert wanted.settings == {"temperature": 0.7, "max_tokens": 9}


@pytest.mark.parametrize("content", ["[]", "{}", '"x"', "[1]", '{"messages": 3}', "nonsense"])
def test_a_messages_file_that_is_none(tmp_path: Path, content: str) -> None:
    file = tmp_path / "m.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"m\.json"):
        read(messages=str(file))


@pytest.mark.parametrize("levels", [101, 900, 200_000])
def test_a_file_that_is_nested_too_deeply(tmp_path: Path, levels: int) -> None:
    file = tmp_path / "m.json"
    file.write_text("[" * levels + "]" * levels, encoding="utf-8")
    with pytest.raises(UsageError, match=r"m\.json: its JSON is nested more than 100 levels deep"):
        read(messages=str(file))
    with pytest.raises(UsageError, match="nested"):
        read(prompt="x", output_format=str(file))


@pytest.mark.parametrize(
    "given",
    [
        {"tui": True, "plain": True},
        {"raw": True, "system": "s", "prompt": "p"},
        {"think": "", "no_think": True},
        {"backend": "embedded", "model": "llama3"},
        {"prompt_file": "/no/such/file"},
    ],
)
def test_what_contradicts_itself(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        read(given.pop("model", None), **given)


def test_record_takes_a_name_or_a_path() -> None:
    assert (read(record="").record, read(record="").keep_as) == (None, "")
    assert read(record="morning").keep_as == "morning"
    assert read(record="./a.phasetop").record == Path("a.phasetop")
    for part in ("a.part2", "./a.part2.phasetop.gz"):  # beside a.phasetop it would be taken for a part of that session
        with pytest.raises(UsageError, match="belongs to a part"):
            read(record=part)


def test_what_the_start_screen_begins_has_the_settings_of_run() -> None:
    given = {"temperature": 0.2, "context": 4096, "system": "Be short.", "record": "", "redact": True, "prompt": "not this"}
    planned = begun_plan({**given, "backend": "ollama", "plain": True, "api_key": "k"})
    server = planned(Target("ollama", "http://127.0.0.1:11434", "llama3.1:8b"), ["run", "llama3.1:8b"], None)
    assert server.settings == {"temperature": 0.2, "context": 4096}
    assert server.messages == [{"role": "system", "content": "Be short."}]
    assert (server.asks, server.plain, server.keep_as) == (False, False, "")
    assert (server.start.redact, server.start.api_key, server.start.engine) == (True, "k", None)
    assert server.start.target == Target("ollama", "http://127.0.0.1:11434", "llama3.1:8b")
    own = planned(Target("embedded"), ["run", "SmolLM2-135M"], {"file": None, "settings": {}})
    assert own.settings == {"temperature": 0.2}
    assert own.start.engine == {"file": None, "settings": {"context": 4096}}


def test_settings_that_contradict_each_other_are_refused_before_anything_is_begun() -> None:
    with pytest.raises(UsageError, match="--think and --no-think"):
        begun_plan({"think": "high", "no_think": True})
