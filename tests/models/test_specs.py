"""`chat_model` turns a name into a model, and a wrong name into a sentence that helps."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from redraft.models import RecordingModel, ScriptedModel, chat_model, redact

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REMOTE = "http://127.0.0.1:9/v1#m"


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "gpt-5-mini",
        "openai:",
        "openai",
        ":x",
        " : ",
        "nobody:x",
        "gguf:",
        "scripted:",
        "replay:",
        "Local",
        "http:",
        7,
    ],
)
def test_wrong_specs_say_what_is_accepted(spec: Any) -> None:
    """A wrong model name is refused with the name and the list of what is accepted."""
    with pytest.raises(ValueError, match=r"accepted are .*\"openai:NAME\".*\"local\".*\"replay:DB\"") as error:
        chat_model(spec)
    assert repr(spec) in str(error.value) or repr(str(spec).partition(":")[0]) in str(error.value)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("http://127.0.0.1:80/v1", "names no model"),
        ("http://127.0.0.1:80/v1#", "names no model"),
        ("http:///v1#m", "names no host"),
        ("http://127.0.0.1:port/v1#m", "wrong address"),
        ("https://user:pass@host/v1#m", "REDRAFT_API_KEY"),
        ("https://host/v1?key=pass#m", "REDRAFT_API_KEY"),
        ("gguf:/nowhere/model.gguf", "no GGUF file at '/nowhere/model.gguf'"),
        ("scripted:/nowhere/x.jsonl", "nowhere"),
        ("replay:/nowhere/x.sqlite", "nowhere"),
    ],
)
def test_wrong_addresses_and_files(spec: str, said: str) -> None:
    """A wrong address or a missing file is named, and a key in an address is not repeated."""
    with pytest.raises(ValueError, match=said) as error:
        chat_model(spec)
    assert "pass" not in str(error.value)


def test_a_missing_key_suggests_the_local_model() -> None:
    """Without OPENAI_API_KEY the message names it and what works without."""
    with pytest.raises(ValueError, match=r"OPENAI_API_KEY.*'local'"):
        chat_model("openai:gpt-5-mini")


def test_a_missing_package_is_named() -> None:
    """A provider whose package is not installed says what to install."""
    with pytest.raises(ImportError, match="pip install langchain-cohere"):
        chat_model("cohere:command-r")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": -1}, "temperature .* not -1"),
        ({"temperature": float("nan")}, "temperature .* not nan"),
        ({"max_output_tokens": 0}, "max_output_tokens .* not 0"),
        ({"max_output_tokens": 1.5}, "max_output_tokens .* not 1.5"),
        ({"seed": "x"}, "seed .* not 'x'"),
        ({"max_retries": -1}, "max_retries .* not -1"),
        ({"timeout_s": 0}, "timeout_s .* not 0"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], said: str) -> None:
    """An option that makes no sense is refused by name."""
    with pytest.raises(ValueError, match=said):
        chat_model(REMOTE, **options)


def test_a_model_is_given_back() -> None:
    """A chat model built elsewhere is used as it is, and options beside it are refused."""
    model = ScriptedModel(["x"])
    assert chat_model(model) is model
    with pytest.raises(ValueError, match="temperature can't be set on a ScriptedModel"):
        chat_model(model, temperature=0.5)


def test_scripted_and_recorded_specs(tmp_path: Path) -> None:
    """A script is a model, and `record` keeps what any model says for `replay:`."""
    script = tmp_path / "replies.jsonl"
    script.write_text('"one"\n')
    model = chat_model(f"scripted:{script}", record=tmp_path / "calls.sqlite")
    assert isinstance(model, RecordingModel)
    assert model.invoke("x").text == "one"
    assert chat_model(f"replay:{tmp_path / 'calls.sqlite'}").invoke("x").text == "one"


def test_options_reach_the_server(serve: Callable[..., Any]) -> None:
    """The settings are sent under the names that every compatible server knows."""
    server = serve(["ok"])
    message = chat_model(server.spec, temperature=0.5, max_output_tokens=17, seed=3).invoke("hi")
    (request,) = server.requests
    assert message.text == "ok"
    assert message.usage_metadata is not None
    assert message.usage_metadata["output_tokens"] == 1
    assert {name: request.get(name) for name in ("model", "temperature", "max_tokens", "seed")} == {
        "model": "test-model",
        "temperature": 0.5,
        "max_tokens": 17,
        "seed": 3,
    }
    assert "max_completion_tokens" not in request


def test_streams_with_usage(serve: Callable[..., Any]) -> None:
    """A streamed reply comes in pieces and brings its token counts."""
    server = serve([{"text": "one two three", "input_tokens": 5, "output_tokens": 3}])
    chunks = list(chat_model(server.spec).stream("hi"))
    assert "".join(chunk.text for chunk in chunks) == "one two three"
    assert [chunk.usage_metadata["total_tokens"] for chunk in chunks if chunk.usage_metadata] == [8]


def test_no_key_of_openai_goes_elsewhere(serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server gets REDRAFT_API_KEY or a placeholder, and nothing that belongs to OpenAI."""
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "sk-secret-of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Secret: sk-secret-of-openai")
    server = serve(["one", "two"])
    chat_model(server.spec).invoke("hi")
    monkeypatch.setenv("REDRAFT_API_KEY", "mine")
    chat_model(server.spec).invoke("hi")
    assert [headers["authorization"] for headers in server.headers] == ["Bearer none", "Bearer mine"]
    assert "sk-secret" not in json.dumps(server.headers)


def test_secrets_stay_out_of_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a model's repr nor a redacted spec shows a key."""
    monkeypatch.setenv("REDRAFT_API_KEY", "very-secret")
    assert "very-secret" not in repr(chat_model(REMOTE))
    assert redact("https://user:pass@host/v1?key=abc#m") == "https://***@host/v1?***#m"
    assert redact("openai:sk-abcdefghijkl") == "openai:sk-***"
    assert redact("openai:gpt-5-mini") == "openai:gpt-5-mini"
    assert redact(REMOTE) == REMOTE
    assert redact(ScriptedModel(["x"])) == "ScriptedModel"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_errors_are_retried(serve: Callable[..., Any], status: int) -> None:
    """A busy server is asked again, as it says, and the answer arrives."""
    wait = {"status": status, "headers": {"Retry-After": "0", "retry-after-ms": "1"}}
    server = serve([wait, wait, "ok"])
    assert chat_model(server.spec, max_retries=2).invoke("hi").text == "ok"
    assert len(server.requests) == 3


async def test_a_dropped_connection_is_retried(serve: Callable[..., Any]) -> None:
    """A connection that breaks is made again, sync and async."""
    server = serve([{"drop": True}, "ok", {"drop": True}, "ok"])
    model = chat_model(server.spec, max_retries=1)
    assert model.invoke("hi").text == "ok"
    assert (await model.ainvoke("hi")).text == "ok"


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_refusals_are_not_retried(serve: Callable[..., Any], status: int) -> None:
    """A request that the server refuses is sent once."""
    import openai

    server = serve([{"status": status}, "never"])
    with pytest.raises(openai.APIStatusError, match="scripted error"):
        chat_model(server.spec).invoke("hi")
    assert len(server.requests) == 1


def test_retries_end(serve: Callable[..., Any]) -> None:
    """`max_retries` is the number of repeats, in one layer."""
    import openai

    server = serve([{"status": 429, "headers": {"retry-after-ms": "1"}}] * 9)
    with pytest.raises(openai.RateLimitError):
        chat_model(server.spec, max_retries=2).invoke("hi")
    assert len(server.requests) == 3


def test_importing_the_package_is_cheap() -> None:
    """`import redraft.models` loads neither a provider's SDK nor LangChain."""
    heavy = ("langchain_core", "langchain_openai", "openai", "pydantic", "aiohttp", "xllamacpp", "genai_prices")
    code = f"import sys, redraft.models; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A mistyped import fails as in any package."""
    import redraft.models

    with pytest.raises(AttributeError, match="chat_modle"):
        _ = redraft.models.chat_modle  # type: ignore[attr-defined]
    assert set(redraft.models.__all__) == set(dir(redraft.models))
    assert all(getattr(redraft.models, name) is not None for name in redraft.models.__all__)
