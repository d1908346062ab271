"""`RefineMiddleware(folder=…)`: an agent's own loop over a folder on the disk."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import FilesystemBackend
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel
from redraft import RefineMiddleware, human_critic
from redraft.folders import AgentFolder, FolderError
from redraft.models import ScriptedModel

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
COUNTS = (
    "grep -q 'a + b' calc.py && { echo '2 passed in 0.01s'; exit; }; grep -q 'a \\* b' calc.py && "
    "echo '1 failed, 1 passed in 0.01s' || echo '2 failed in 0.01s'; false"
)
ONE: Any = {"configurable": {"thread_id": "one"}}
ASK: Any = {"messages": [("user", "Make the tests pass.")]}


class Working(ScriptedModel):
    """A scripted model whose replies `EDIT path old new` edit a file."""

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, *args: Any, **named: Any) -> Any:
        result = super()._generate(*args, **named)
        message: Any = result.generations[0].message
        if message.content.startswith("EDIT "):
            path, old, new = json.loads(message.content.removeprefix("EDIT "))
            edit = {"file_path": path, "old_string": old, "new_string": new}
            message.content, message.tool_calls = (
                "",
                [{"name": "edit_file", "args": edit, "id": "1", "type": "tool_call"}],
            )
        return result


def edits(*given: str) -> str:
    """A reply that edits a file."""
    return f"EDIT {json.dumps(given)}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small project whose tests fail."""
    place = tmp_path / "project"
    (place / "tests").mkdir(parents=True)
    (place / "calc.py").write_text("a - b\n")
    (place / "tests" / "test_calc.py").write_text("assert a + b\n")
    return place


class Sum(BaseModel):
    """A structured answer."""

    sum: int


def agent_in(folder: Path, *replies: str, critics: Any = (), checks: Any = (COUNTS,), **options: Any) -> Any:
    """An agent of deepagents that works in the folder itself."""
    judged = AgentFolder(folder, trees=folder.parent / "trees", checks=checks, protect=["tests/**"], plain=True)
    return create_deep_agent(
        Working(replies),
        backend=FilesystemBackend(root_dir=folder, virtual_mode=True),
        middleware=[RefineMiddleware(critics, folder=judged, **options)],
        checkpointer=InMemorySaver(),
    )


async def test_an_agent_goes_on_in_its_own_loop_until_the_commands_pass(folder: Path) -> None:
    """It is told what failed, its own words stay its answer, and the files that it came to are in the folder."""
    agent = agent_in(
        folder, edits("/calc.py", "a - b", "a * b"), "note: one bug.", edits("/calc.py", "a * b", "a + b"), "Done."
    )
    output = await agent.ainvoke(ASK, ONE)
    last = output["messages"][-1]
    assert last.text == "Done."
    assert {name: last.response_metadata["redraft"][name] for name in ("stop_reason", "rounds", "score")} == {
        **{"stop_reason": "accepted", "rounds": 1, "score": 1.0}
    }
    assert "1 failed, 1 passed" in output["messages"][-4].text
    assert (folder / "calc.py").read_text() == "a + b\n"
    drafts = [one for one in agent.get_state(ONE).values["_refine_events"] if one["kind"] in ("draft", "revision")]
    assert ["\nnote: one bug." in one["text"] for one in drafts] == [True, False]
    assert "M calc.py" in drafts[0]["text"]


def test_the_folder_ends_with_the_best_files_and_not_the_last(folder: Path) -> None:
    """Files of a worse round go, protected ones stay as they were, and the answer is what was said with the best."""
    spoil = edits("/calc.py", "a * b", "None")
    cheat = edits("/tests/test_calc.py", "assert a + b", "assert True")
    agent = agent_in(folder, edits("/calc.py", "a - b", "a * b"), "Half.", spoil, cheat, "Worse.", max_rounds=1)
    (folder / "notes.log").write_text("of the user's\n")
    (folder / ".gitignore").write_text("*.log\n")
    output = agent.invoke(ASK, ONE)
    last = output["messages"][-1]
    assert (last.text, last.response_metadata["redraft"]["stop_reason"]) == ("Half.", "max_rounds")
    assert (folder / "calc.py").read_text() == "a * b\n"
    assert (folder / "tests" / "test_calc.py").read_text() == "assert a + b\n"
    assert (folder / "notes.log").read_text() == "of the user's\n"
    revision = next(one for one in agent.get_state(ONE).values["_refine_events"] if one["kind"] == "revision")
    assert "protected files were put back as they were: tests/test_calc.py" in revision["text"]


def test_a_person_edits_the_files_of_an_agent(folder: Path, tmp_path: Path) -> None:
    """They reply with a folder, whose files are then in the agent's."""
    agent = agent_in(folder, "I left it.", checks=(), critics=[human_critic()])
    agent.invoke(ASK, ONE)
    mine = tmp_path / "mine"
    (mine / "tests").mkdir(parents=True)
    (mine / "calc.py").write_text("b + a\n")
    (mine / "tests" / "test_calc.py").write_text("assert a + b\n")
    output = agent.invoke(Command(resume={"action": "edit", "draft": f"folder {mine}"}), ONE)
    assert output["messages"][-1].response_metadata["redraft"]["accepted_by"] == "human"
    assert (folder / "calc.py").read_text() == "b + a\n"


def test_what_makes_no_sense_is_refused(folder: Path) -> None:
    """Files are no part of a structured answer, somebody must judge, and a folder must be there."""
    with pytest.raises(ValueError, match="give answer_type or folder"):
        agent_in(folder, "x", answer_type=int)
    with pytest.raises(ValueError, match="critics is empty"):
        agent_in(folder, "x", checks=())
    judged = AgentFolder(folder, trees=folder.parent / "trees", checks=["true"], plain=True)
    reply = '{"sum": 5}'
    agent = create_agent(
        Working([reply]), middleware=[RefineMiddleware(folder=judged)], response_format=ProviderStrategy(Sum)
    )
    with pytest.raises(ValueError, match="no part of a structured response"):
        agent.invoke(ASK)
    with pytest.raises(FolderError, match="there is no folder"):
        agent_in(folder / "none", "x").invoke(ASK, ONE)
