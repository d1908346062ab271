"""A scripted model answers from its list the way a real model would."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel
from redraft.models import ScriptedModel, chat_model

if TYPE_CHECKING:
    from pathlib import Path


class Verdict(BaseModel):
    """A verdict."""

    accepted: bool


async def test_replies_come_in_order_sync_and_async() -> None:
    """The first call gets the first reply and the second the second, however they are made."""
    model = ScriptedModel(["one", {"text": "two", "input_tokens": 7, "output_tokens": 3}])
    assert model.invoke("a b c").content == "one"
    second = await model.ainvoke("again")
    assert second.content == "two"
    assert second.usage_metadata == {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    assert second.response_metadata["model_name"] == "scripted"
    assert [call[-1].content for call in model.calls] == ["a b c", "again"]


def test_words_are_counted_as_tokens() -> None:
    """A reply without numbers has its words counted."""
    usage = ScriptedModel(["two words"]).invoke("a b c").usage_metadata
    assert usage == {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


@pytest.mark.parametrize("text", ["Two words.", "  spaced\n\nout  ", "", "x"])
def test_streams_the_same_text(text: str) -> None:
    """A streamed reply adds up to the reply, with the same token counts."""
    whole = None
    for chunk in ScriptedModel([{"text": text, "input_tokens": 5, "output_tokens": 4}]).stream("go"):
        whole = chunk if whole is None else whole + chunk
    assert whole is not None
    assert whole.content == text
    assert whole.usage_metadata == {"input_tokens": 5, "output_tokens": 4, "total_tokens": 9}


async def test_streams_word_by_word() -> None:
    """A reply of three words arrives in three pieces and a last one with the counts."""
    pieces = [chunk.content async for chunk in ScriptedModel(["one two three"]).astream("go")]
    assert [piece for piece in pieces if piece] == ["one", " two", " three"]


def test_running_out_says_how_many_there_were() -> None:
    """One call too many is an error that says how many replies were scripted."""
    model = ScriptedModel(["only"])
    model.invoke("a")
    with pytest.raises(IndexError, match="call 2 of a scripted model, but only 1 replies"):
        model.invoke("b")


def test_errors_are_raised() -> None:
    """A scripted error or exception is raised instead of answered."""
    model = ScriptedModel([{"error": "server on fire"}, KeyError("lost")])
    with pytest.raises(RuntimeError, match="server on fire"):
        model.invoke("a")
    with pytest.raises(KeyError, match="lost"):
        model.invoke("b")


def test_functions_see_the_messages() -> None:
    """A function among the replies answers from the messages."""
    assert ScriptedModel([lambda messages: messages[-1].content.upper()]).invoke("hello").content == "HELLO"


def test_threads_share_the_list() -> None:
    """Many threads at once get each reply exactly once."""
    model = ScriptedModel([str(number) for number in range(64)])
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: model.invoke("x").content, range(64)))
    assert sorted(found, key=int) == [str(number) for number in range(64)]


async def test_tasks_share_the_list() -> None:
    """Many tasks at once get each reply exactly once."""
    model = ScriptedModel([str(number) for number in range(20)])
    found = await asyncio.gather(*(model.ainvoke("x") for _ in range(20)))
    assert sorted(int(message.text) for message in found) == list(range(20))


def test_structured_output_is_off_by_default() -> None:
    """Like many real models, a scripted one gives text only."""
    with pytest.raises(NotImplementedError, match="structured=True"):
        ScriptedModel(["{}"]).with_structured_output(Verdict)


def test_structured_replies_are_parsed() -> None:
    """With structured=True a reply becomes the asked-for object; a refusal or wrong fields are parsing errors."""
    replies = [{"structured": {"accepted": True}}, '{"accepted": false}', {"refusal": "no"}, {"structured": {"x": 1}}]
    judge = ScriptedModel(replies, structured=True).with_structured_output(Verdict, include_raw=True)
    first, second, third, fourth = (judge.invoke("judge") for _ in range(4))
    assert first["parsed"] == Verdict(accepted=True)
    assert json.loads(first["raw"].content) == {"accepted": True}
    assert second["parsed"] == Verdict(accepted=False)
    assert third["parsed"] is None
    assert "refused: no" in str(third["parsing_error"])
    assert "accepted" in str(fourth["parsing_error"])
    plain = ScriptedModel(replies[:1], structured=True).with_structured_output(Verdict)
    assert plain.invoke("judge") == Verdict(accepted=True)


@pytest.mark.parametrize("text", ['"one"\n\n{"text": "two"}\n', '["one", {"text": "two"}]'])
def test_replies_from_a_file(tmp_path: Path, text: str) -> None:
    """A script is JSON Lines or one JSON list."""
    path = tmp_path / "replies.jsonl"
    path.write_text(text)
    model = ScriptedModel.from_file(path)
    assert [model.invoke("x").content for _ in range(2)] == ["one", "two"]


def test_a_script_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`scripted:~/replies.jsonl` is found from Python too, where no shell expands the `~`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "replies.jsonl").write_text('"one"')
    assert chat_model("scripted:~/replies.jsonl").invoke("x").content == "one"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"one"\nnot json\n', "line 2: not JSON"),
        ('"one"\n7\n', "line 2: 7 is not a string"),
        ('{"txet": "one"}\n', "line 1: unknown 'txet'"),
        ('{"text": "a", "input_tokens": -1}', "input_tokens must be a whole number"),
        ('{"text": 3}', "text must be a string"),
        ("", "no reply in it"),
        ("[", "not a JSON list"),
        ("[{}]", "reply 1"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, text: str, said: str) -> None:
    """A wrong line in a script is reported by its number."""
    path = tmp_path / "replies.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        ScriptedModel.from_file(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A script that is not there is reported by its path."""
    with pytest.raises(ValueError, match=r"none\.jsonl"):
        ScriptedModel.from_file(tmp_path / "none.jsonl")
