"""Run configs as they are stored: those of earlier versions are read, and known as the user's own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from redraft.faces.problems import BadInputError
from redraft.faces.run_config import RunConfig, small_model_options
from redraft.faces.signing import is_own
from redraft.nodes.search.path_run import PATH_RECIPE

if TYPE_CHECKING:
    from pathlib import Path

# Written before presets had a registry, with a key of 32 times "k".
STORED = (
    '{"model":"scripted:/s.jsonl","verifiers":["uses_words:a"],"human":true,'
    '"mark":"75ef019c39c540d2b088f7b9492933083cb84080697a958b1ed1207b5183dc62"}',
    '{"preset":"agent","model":"local","critics":["self"],"seed":1,"keep":"last","critics_after":"always","folder":"/docs",'
    '"tools":["calculate","search"],"passages":2,'
    '"mark":"e83c3121e4205e4ceb6deb508791b9a52483886ad87b7f625f153a29006cc030"}',
    '{"preset":"branching","model":"local","temperature":0.5,"max_output_tokens":9,"refine_prompt":"Mend {draft}",'
    '"memory":"last","judge_last":false,"paths":2,"depth":0,"beam":1,'
    '"mark":"f5dc6cb3a57dedf3e1918ff077adb64fcead167ced5fc353902d0191932870a3"}',
    '{"preset":"pipeline","model":"local","steps":"UseDraft","threshold":0.5,"passages":4,'
    '"mark":"ed2b0a039003994a4ffdf2ef9d0626bd768adc135f521dce72fb7fad771370fd"}',
)


@pytest.fixture(autouse=True)
def _key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "redraft"
    folder.mkdir(mode=0o700)
    (folder / "recipe.key").write_bytes(b"k" * 32)
    (folder / "recipe.key").chmod(0o600)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


RENAMED = {
    "folder": "documents",
    "passages": "top_k",
    "paths": "branching_factor",
    "beam": "beam_width",
    "steps": "pipeline",
}
"""Options that had another name when these were written."""


@pytest.mark.parametrize("stored", STORED)
def test_what_an_earlier_version_stored_is_read_and_written_under_the_names_of_today(stored: str) -> None:
    """A thread of an earlier version is the user's own; going on with it stores the same, signed anew."""
    content = json.loads(stored)
    mark = content.pop("mark")
    assert is_own(content, mark)
    recipe = RunConfig.model_validate(content)
    written = recipe.metadata()
    again = json.loads(written["redraft_recipe"])
    mark = again.pop("mark")
    assert again == {RENAMED.get(name, name): value for name, value in content.items()}
    assert is_own(again, mark)
    assert RunConfig.model_validate(again) == recipe
    assert written["redraft_preset"] == content.get("preset", "refine")


def test_paths_and_forks_keep_the_options_that_their_graph_has() -> None:
    """A path of a search is stored as the plain loop, and a fork of a pipeline as draft, critique and improvement."""
    search = RunConfig.given(preset="branching", model="local", memory="last", paths=2, depth=0, beam=1)
    path = json.loads(search.metadata()[PATH_RECIPE])
    assert {name: value for name, value in path.items() if name != "mark"} == {"model": "local", "memory": "last"}
    fork = RunConfig.given(preset="pipeline", model="local", steps="UseDraft", threshold=0.5, passages=4).of_fork()
    assert fork.flat() == {"preset": "reasoning", "model": "local", "threshold": 0.5, "top_k": 4}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"passages": 0}, "top_k: input should be greater than or equal to 1"),
        ({"threshold": 2}, "threshold: input should be less than or equal to 1"),
        ({"threshold": float("nan")}, "threshold: input should be a finite number"),
        ({"critics_after": "never"}, "critics_after: input should be 'undecided' or 'always'"),
        ({"tools": "calculate"}, "tools: input should be a valid tuple"),
        ({"colour": "red"}, "colour: extra inputs are not permitted"),
        ({"options": {"passages": 1}}, "options: extra inputs are not permitted"),
        ({"human": "true"}, "human"),
        ({"human": 1}, "human"),
        ({"preset": "branching", "paths": True}, "branching_factor"),
        ({"preset": "branching", "branching_factor": 10**400}, "branching_factor"),
        ({"paths": 2, "branching_factor": 2}, "paths is another name of branching_factor: give one of them"),
        ({"temperature": "0.5"}, "temperature"),
        ({"max_output_tokens": True}, "max_output_tokens"),
        ({"seed": 10**400}, "seed"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(fields: dict[str, object], says: str) -> None:
    """Options of presets are checked when a run config is made, as its own fields are."""
    with pytest.raises(BadInputError, match=says):
        RunConfig.given(model="local", **fields)


def test_what_the_embedded_model_is_asked_is_asked_of_no_other() -> None:
    """`redraft run` asks the embedded model in words that it can follow; a fork to another model asks as ever."""
    small = RunConfig.given(model="local", seed=3, **small_model_options("local", "refine"))
    assert "{draft}" not in small.options["refine_prompt"]
    other = small.with_model("openai:gpt-5-mini")
    assert (other.model, other.seed, other.options) == ("openai:gpt-5-mini", 3, {})
    assert other.with_model("local") == small
    assert small_model_options("local", "math") == small_model_options("openai:gpt-5-mini", "refine") == {}
