"""Whatever bytes a data set or a result file holds, it is read, or refused with the line; no record is torn."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from redraft.evals.datasets.dataset import load_dataset
from redraft.evals.datasets.scorers import scorer
from redraft.evals.run.result_record import failed_record
from redraft.evals.run.run_folder import ResultFile, read_results, read_run_info
from redraft.nodes.verify.numeric_answers import lone_number
from redraft.state.usage import NO_USAGE

if TYPE_CHECKING:
    from pathlib import Path

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
texts = st.text(max_size=12)
values: Any = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["question", "answer", "id", "task_id", "prompt", "entry_point", "test", "concepts", "canonical_solution"]
ANSWERS = ["#### 42", "4 + 4 = 8\n#### 8", "#### many", "#### 1e999", "f", "def f():\n", "assert f() == 1"]
rows = st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(ANSWERS) | texts | values, max_size=5)
lines = st.binary(max_size=30) | (rows | values).map(lambda row: json.dumps(row).encode())
files = st.lists(lines, max_size=5).map(b"\n".join)
names = st.none() | st.sampled_from([*FIELDS, "", "other"])


@same_folder
@given(files, st.booleans(), st.tuples(names, names, names))
@example(b'{"question":"!"}', False, (None, None, "question"))
def test_a_dataset_is_read_or_refused(tmp_path: Path, content: bytes, skip_bad: bool, chosen: tuple[Any, ...]) -> None:
    """Every problem has a name of its own and a task, and a ValueError is the only error."""
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    fields = dict(zip(("id_field", "question_field", "answer_field"), chosen, strict=True))
    try:
        found = load_dataset(path, skip_bad=skip_bad, **fields)
    except ValueError:
        return
    assert found.problems
    assert len({problem.id for problem in found.problems}) == len(found.problems)
    for problem in found.problems:
        assert problem.id.strip()
        assert problem.task.strip()
        f"{problem.id}{problem.task}".encode()
        if found.kind != "code":
            assert isinstance(scorer(found.kind).shown_gold(problem.gold), str)
            assert found.is_correct(problem, "") is False
        assert repr(problem) == repr(replace(problem, gold="another")), "the gold answer shows"


@given(st.decimals(-(10**15), 10**15, places=2), st.text(max_size=20))
def test_a_gold_number_written_down_is_read_again(number: Decimal, text: str) -> None:
    """Plain and with separators; any other text is one number or none."""
    assert lone_number(f"{number:f}") == lone_number(f"{number:,f}") == number
    found = lone_number(text)
    assert found is None or found.is_finite()


wide = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
records = st.builds(
    failed_record,
    wide,
    question_id=wide,
    question=wide,
    ground_truth=st.none() | wide,
    usage=st.just(NO_USAGE),
    seconds=st.floats(0, 1e6),
)


@same_folder
@given(st.lists(records, max_size=4, unique_by=lambda one: one.question_id), st.data())
def test_a_file_torn_anywhere_keeps_each_whole_record(tmp_path: Path, several: Any, data: Any) -> None:
    """Cut at any byte, as by a killed process, it opens with the records that were whole, and goes on after them."""
    path = tmp_path / "results.jsonl"
    path.unlink(missing_ok=True)
    with ResultFile(path) as file:
        assert [file.add(one) for one in several] == [True] * len(several)
        assert [file.add(one) for one in several] == [False] * len(several)
    whole = path.read_bytes()
    assert list(read_results(path).values()) == several
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    with ResultFile(path) as file:
        assert list(file.records.values()) == several[:kept]
        assert [file.add(one) for one in several] == [False] * kept + [True] * (len(several) - kept)
    assert path.read_bytes() == whole
    if several:
        with ResultFile(path) as file:
            assert file.drop(lambda one: one == several[0]) == 1
        assert list(read_results(path).values()) == several[1:]


@same_folder
@given(files)
def test_a_file_of_anything_is_read_or_refused(tmp_path: Path, content: bytes) -> None:
    """Results and the description of a run: a ValueError says what can't be read."""
    path = tmp_path / "run.json"
    path.write_bytes(content)
    for read in (lambda: read_results(path), lambda: read_run_info(tmp_path)):
        try:
            assert isinstance(read(), dict)
        except ValueError as error:
            assert "run.json" in str(error)  # noqa: PT017  # only what some examples raise


def test_a_description_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    """A `run.json` that no parser can read is named like any other."""
    (tmp_path / "run.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"run\.json"):
        read_run_info(tmp_path)
