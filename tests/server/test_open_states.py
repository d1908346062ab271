"""A preset whose state has keys of its own takes, keeps and returns them over HTTP and at the shell."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import UnprocessableEntityError
from redraft import Thread, open_checkpointer
from redraft._plugins import forget_plugins
from redraft.faces.sessions import any_reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LETTER = """
from typing import TypedDict

from redraft.graphs.preset import Preset


class ForAudience(TypedDict):
    audience: str


def build(model, critics, verifiers, **options):
    from redraft.graphs.loop import build_refine_graph

    return build_refine_graph(
        model, generate_prompt="{task} Dear {audience}! no issues", state_schema=ForAudience, **options
    )


PRESET = Preset("letter", "Letters.", build, no_critics="the model itself judges")
"""
GIVEN = {"task": "Write about autumn.", "audience": "readers"}


@pytest.fixture
def letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of somebody else's whose preset opens its state."""
    info = tmp_path / "letter_preset-1.0.dist-info"
    info.mkdir()
    (tmp_path / "letter_preset.py").write_text(LETTER, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: letter-preset\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[redraft.presets]\nletter = letter_preset:PRESET\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    forget_plugins()
    yield "letter"
    monkeypatch.undo()
    importlib.invalidate_caches()
    forget_plugins()
    sys.modules.pop("letter_preset", None)


def test_a_server_takes_keeps_and_returns_keys_of_a_preset(start_server: Any, letter: str, tmp_path: Path) -> None:
    """A run has the key, and so have the next one on its thread and a fork that the shell writes; a key that the preset
    does not have is refused."""
    database = str(tmp_path / "runs.sqlite")
    server = start_server(db=database)
    with get_sync_client(url=server.url) as client:
        assert "audience" in client.assistants.get_schemas(letter)["input_schema"]["properties"]  # type: ignore[index]
        thread = client.threads.create()["thread_id"]
        output: Any = client.runs.wait(thread, letter, input=GIVEN)
        assert output["audience"] == "readers"
        again: Any = client.runs.wait(thread, letter, input={"task": "Write about spring."})
        assert again["audience"] == "readers"
        assert client.threads.get_state(thread)["values"]["audience"] == "readers"  # type: ignore[call-overload]
        client.threads.update_state(thread, {"audience": "sailors"})
        assert client.threads.get_state(thread)["values"]["audience"] == "sailors"  # type: ignore[call-overload]
        with pytest.raises(UnprocessableEntityError, match="takes no 'colour'; it takes audience"):
            client.runs.create(None, letter, input={**GIVEN, "colour": "red"})
    server.stop()
    with open_checkpointer(database) as saver:
        fork = Thread(any_reader(saver, thread), thread).fork(at=0, feedback="Shorter.")
        values = any_reader(saver, fork.thread_id).get_state(fork.config).values
    assert values["audience"] == "readers"  # as it was there
