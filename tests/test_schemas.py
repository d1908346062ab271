"""The published JSON Schemas of redraft's files say the same as what reads them."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter
from redraft import build_refine_graph
from redraft.evals.analysis.judged_drafts import read_labelled
from redraft.evals.run.run_folder import RunInfo
from redraft.models import Price, PriceTable, ScriptedModel
from redraft.nodes.critics.judge_file import JudgeFile
from redraft.nodes.writing.prompt_files import builder_prompts
from redraft.state import open_checkpointer
from redraft.state.storage.housekeeping import read_thread_file

if TYPE_CHECKING:
    from collections.abc import Callable

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "schemas"
MODELS = {
    "run": RunInfo.model_json_schema,
    "judge": JudgeFile.model_json_schema,
    "prices": TypeAdapter(dict[str, Price]).json_schema,
}


def validator(name: str) -> Any:
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", MODELS)
def test_a_schema_is_that_of_the_class_that_reads_the_file(name: str) -> None:
    """Whoever reads or writes such a file in another language finds its form, kept up to date."""
    published = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    made = {"$schema": "https://json-schema.org/draft/2020-12/schema", **MODELS[name]()}
    titled = {key: value for key, value in published.items() if key in made or key not in ("title", "description")}
    assert titled == made


def test_the_recorded_results_fit_their_schemas() -> None:
    """Each run of the measurements in the README is described by a valid `run.json`."""
    runs = sorted((ROOT / "evals" / "results").rglob("run.json"))
    assert runs
    for run in runs:
        validator("run").validate(json.loads(run.read_text(encoding="utf-8")))


def test_every_line_of_an_exported_thread_fits_its_schema() -> None:
    """Head, checkpoints and kept replies; a line that lost a field fits no more, and is not read either."""
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(ScriptedModel(["One.", "no issues"]), checkpointer=saver)
        graph.invoke({"task": "Write."}, {"configurable": {"thread_id": "1"}})
        lines = [json.loads(line) for line in saver.export_thread("1")]
    assert len({frozenset(line) for line in lines}) == 3
    check = validator("thread")
    for line in lines:
        check.validate(line)
    lines[1].pop("parent_id")
    assert not check.is_valid(lines[1])
    with pytest.raises(ValueError, match="line 2"):
        read_thread_file(map(json.dumps, lines))


def reads(read: Callable[[Path], object], path: Path, content: str) -> bool:
    path.write_text(content, encoding="utf-8")
    try:
        read(path)
    except ValueError:
        return False
    return True


ROW = {"task": "t", "draft": "d", "right": True}
PRICE = {"input_per_mtok": 1, "output_per_mtok": 2}
RIGHT: dict[str, list[Any]] = {
    "replies": ["A draft.", {"text": "A", "input_tokens": 3}, {"structured": {"accepted": True}}, {"error": "lost"}],
    "labelled": [ROW, {**ROW, "round": 0, "other": "kept"}],
    "prices": [{}, {"mine": PRICE}, {"mine": {**PRICE, "cache_read_per_mtok": None}}],
    "prompts": [
        {"prompts": {"generate": "{task}"}},
        {"format": 1, "prompts": {"program_2": "{task}", "critic": {"lc": 1}}},
    ],
}
WRONG: dict[str, list[Any]] = {
    "replies": [1, {}, {"txt": "A"}, {"text": 1}, {"input_tokens": -1}, {"output_tokens": 1.5}],
    "labelled": [{**ROW, "right": "yes"}, {"task": "t", "right": True}, {**ROW, "draft": None}, {**ROW, "round": -1}],
    "prices": [[], {"mine": 1}, {"mine": {"input_per_mtok": 1}}, {"mine": {**PRICE, "output_per_mtok": -1}}],
    "prompts": [
        {},
        {"prompts": {}},
        {"prompts": {"critic": {"text": "{draft}"}}},
        {"prompts": {"other": "{task}"}},
        {"format": 2, "prompts": {"generate": "x"}},
    ],
}
READERS: dict[str, Callable[[Path], object]] = {
    "replies": ScriptedModel.from_file,
    "labelled": read_labelled,
    "prices": PriceTable.from_file,
    "prompts": builder_prompts,
}


@pytest.mark.parametrize("name", READERS)
def test_what_fits_a_schema_is_read_and_what_does_not_is_refused(name: str, tmp_path: Path) -> None:
    """A file that an editor finds valid works, and one that it marks would have been refused."""
    check = validator(name)
    for value in chain(RIGHT[name], WRONG[name]):
        is_right = value in RIGHT[name]
        assert check.is_valid(value) is is_right, value
        assert reads(READERS[name], tmp_path / "file", json.dumps(value)) is is_right, value
