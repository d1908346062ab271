"""`--answer-type`: a type of one's own, or a schema in a file, from the shell."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from redraft.faces.run_config import RunConfig
from redraft.state import open_checkpointer

TYPES = """
from pydantic import BaseModel, field_validator


class Boat(BaseModel):
    name: str
    metres: float

    @field_validator("metres")
    @classmethod
    def some(cls, metres):
        assert metres > 0, "must be above zero"
        return metres
"""


@pytest.fixture(autouse=True)
def _own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "my_boats.py").write_text(TYPES)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("my_boats", None)


def boat(metres: float) -> str:
    return json.dumps({"name": "Ann", "metres": metres})


def test_a_type_of_ones_own_is_kept_with_the_thread(shell: Any, scripted: Any) -> None:
    """A run by `module:Name` prints the object; resumed, forked and compared the thread knows its type; a fork with
    what breaks it is refused by the field."""
    model = scripted(boat(-1), boat(2))
    shown = shell("run", "A boat.", "--answer-type", "my_boats:Boat", "--model", model, "--thread", "t", "--json")
    assert (shown.code, shown.json["structured_response"]) == (0, {"name": "Ann", "metres": 2.0})
    assert "$.metres: -1 → 2.0" in shell("diff", "t").out
    assert shell("diff", "t", "--json").json["fields"] == [["$.metres", "-1", "2.0"]]
    refused = shell("fork", "t", "--at", "1", "--draft", '{"name": 3, "metres": 1}')
    assert (refused.code, "$.name" in refused.err) == (2, True)
    assert shell("fork", "t", "--at", "0", "--draft", boat(0), "--as", "f").code == 0
    resumed = shell("resume", "f", "--max-rounds", "0", "--json")
    assert (resumed.code, resumed.json["structured_response"]) == (3, None)  # its own validator says so


def test_a_schema_file_is_kept_as_its_content(shell: Any, scripted: Any, tmp_path: Path) -> None:
    """The schema, and not its file, is in the recipe; what is neither a file nor a name is bad input, and a recipe of
    somebody else's opens no file, and says whose module it would import."""
    file = tmp_path / "boat.json"
    file.write_text('{"type": "object", "required": ["name"]}')
    assert (
        shell("run", "A boat.", "--answer-type", "boat.json", "--model", scripted(boat(1)), "--thread", "t").code == 0
    )
    with open_checkpointer(tmp_path / "runs.sqlite") as saver:
        kept = RunConfig.of_thread(saver, "t")
    assert json.loads(kept.options["answer_type"]) == {"type": "object", "required": ["name"]}
    assert kept.reaches() == [f"open the file of {kept.model}"]
    for wrong in ("nope.json", "no_such_module:Boat", "my_boats:Nope"):
        assert shell("run", "A boat.", "--answer-type", wrong, "--model", scripted("x")).code == 2
    with pytest.raises(ValueError, match="is no type"):
        RunConfig(model="local", answer_type=str(file))
    assert "import my_boats:Boat" in RunConfig(model="local", answer_type="my_boats:Boat").reaches()
