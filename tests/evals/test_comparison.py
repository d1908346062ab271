"""Two JSONL files of anyone's results: a user sees what was fixed and broken, on the problems that both have."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy", reason="the extra evals is not installed")
pytest.importorskip("statsmodels", reason="the extra evals is not installed")

from redraft.evals.analysis.comparison import compare

YELP = Path(__file__).resolve().parents[3] / "shared" / "data" / "yelp_self_refine_dv3.jsonl"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write rows (or raw lines) to a file and return its path."""

    def write(name: str, rows: list[Any]) -> Path:
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path = tmp_path / name
        path.write_bytes("\n".join(lines).encode())
        return path

    return write


def results(right: str, **names: str) -> list[dict[str, Any]]:
    """One row a letter: `r` is right, all else is wrong."""
    names = {"id": "id", "correct": "correct", **names}
    return [{names["id"]: f"p{number}", names["correct"]: letter == "r"} for number, letter in enumerate(right)]


def test_what_changed_is_printed_as_plain_data(write: Any) -> None:
    """The JSON has the counts, the accuracies, the test and the intervals under the names that were promised."""
    found = compare(write("before.jsonl", results("rrwwwrw")), write("after.jsonl", results("rwrrrrw")[::-1]))
    told = found.model_dump(mode="json")
    counts = {"n": 7, "fixed": 3, "broken": 1, "kept_right": 2, "kept_wrong": 1, "mcnemar_p": 0.625}
    assert {key: told[key] for key in counts} == counts
    assert (told["before"], told["after"], told["diff"]) == pytest.approx((3 / 7, 5 / 7, 2 / 7))
    assert told["diff_ci95"][0] < 2 / 7 < told["diff_ci95"][1]
    assert (told["only_before"], told["only_after"], told["warnings"]) == (0, 0, [])
    assert found.verdict == (
        "fixed 3 and broke 1 of 7 (p = 0.62), which could be chance: from 42.9% to 71.4%. Can't tell whether it "
        "helped: 7 problems would have shown 88.0 points or more (80% power); 5 points take about 1,802."
    )


@pytest.mark.parametrize("name", ["question_id", "task_id", "index"])
@pytest.mark.parametrize("verdict", ["is_correct", "passed"])
def test_known_field_names_are_found(write: Any, name: str, verdict: str) -> None:
    """Results of other tools need no options, also where the two files use different names."""
    found = compare(
        write("a.jsonl", results("wr")), write("b.jsonl", ["", *results("rr", id=name, correct=verdict), ""])
    )
    assert (found.fixed, found.id_fields, found.correct_fields) == (1, ("id", name), ("correct", verdict))


def test_fields_of_any_name_can_be_given(write: Any) -> None:
    """A named field is read even where a known name stands beside it; a byte order mark and CRLF do no harm."""
    rows = ['\ufeff{"id": 1, "no": 7, "good": false, "correct": true}\r', '{"id": 1, "no": 8, "good": true}\r']
    path = write("a.jsonl", rows)
    found = compare(path, path, id_field="no", correct_field="good")
    assert (found.n, found.before, found.kept_right, found.kept_wrong) == (2, 0.5, 1, 1)


def test_only_common_ids_are_compared_and_it_says_so(write: Any) -> None:
    """Problems that one side lacks are counted and told, never taken as wrong."""
    found = compare(write("a.jsonl", results("rrrww")), write("b.jsonl", [*results("rrr"), {"id": 9, "correct": True}]))
    assert (found.n, found.only_before, found.only_after, found.diff) == (3, 2, 1, 0)
    assert found.verdict.startswith("fixed 0 and broke 0 of 3: from 100.0% to 100.0%. Can't tell whether it helped: ")
    assert [text.split(" has ")[1] for text in found.warnings] == [
        "2 of the ids: they are not compared",
        "1 of the ids: they are not compared",
    ]


def test_a_failed_problem_is_wrong(write: Any) -> None:
    """A line without a verdict counts as wrong where it carries an error; without one it is refused."""
    before = write("a.jsonl", results("rr"))
    after = [{"id": "p0", "correct": None, "error": "refused"}, {"id": "p1", "correct": True}]
    assert compare(before, write("b.jsonl", after)).broken == 1
    after[0]["error"] = None
    with pytest.raises(ValueError, match="line 1: field 'correct' must be true or false, not null"):
        compare(before, write("c.jsonl", after))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["{"], "line 1: not JSON"),
        ([[1]], "entry 1: an object with an id and a verdict is wanted, not 1"),
        (
            [{"name": 1, "correct": True}],
            r"no field is known as the id; name it .*: there are 'name' \(1\), 'correct' \(true\)",
        ),
        ([{"id": 1, "right": True}], "no field is known as the verdict; name it .*: there are 'id' .*, 'right'"),
        ([{"id": 1, "correct": True}, {"id": 2}], "line 2: field 'correct' is missing; there are 'id'"),
        ([{"id": 1, "correct": True}, {"correct": True}], "line 2: field 'id' is missing; there are 'correct'"),
        ([{"id": 1, "correct": 2}], "line 1: field 'correct' must be true or false, or 0 or 1, not 2: .*--right-from"),
        ([{"id": 1, "correct": "yes"}], 'must be true or false, not "yes"'),
        ([{"id": None, "correct": True}], "field 'id' must be a text or a whole number, not null"),
        ([{"id": True, "correct": True}], "field 'id' must be a text or a whole number, not true"),
        ([{"id": 1, "correct": True}] * 2, "line 2: field 'id': '1' stands in line 1 already"),
        ([{"id": 1, "correct": []}] * 8, "line 5: .*\nand 3 more lines"),
        ([""], "has no results"),
        ([{"id": "x", "correct": True}], "no id in common: .*a.jsonl has 'p0' …, .*b.jsonl has 'x' …"),
        (["[" * 100_000], "line 1: not JSON"),
    ],
)
def test_what_cant_be_compared_is_told_by_file_line_and_field(write: Any, rows: list[Any], message: str) -> None:
    """A bad line is never passed over: the error says where it stands and what would be right."""
    with pytest.raises(ValueError, match=rf"(?s){message}"):
        compare(write("a.jsonl", results("r")), write("b.jsonl", rows))


def test_a_file_that_is_no_text_is_told(tmp_path: Path, write: Any) -> None:
    """A file in another encoding is named; one that is not there is the system's own error."""
    (tmp_path / "b.jsonl").write_bytes(b'{"id": "\xe9", "correct": true}')
    with pytest.raises(ValueError, match=r"b.jsonl is not UTF-8: .* at byte 8"):
        compare(write("a.jsonl", results("r")), tmp_path / "b.jsonl")
    with pytest.raises(FileNotFoundError):
        compare(write("a.jsonl", results("r")), tmp_path / "c.jsonl")


@pytest.mark.skipif(not YELP.exists(), reason="needs ../shared/data beside the checkout")
def test_the_published_traces_give_the_published_figures(write: Any) -> None:
    """Self-Refine's recorded reviews: 363 of 431 right at first, 420 at last, 62 fixed and 5 broken."""
    traces: dict[int, list[bool]] = defaultdict(list)
    for line in YELP.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        said = row["transferred_review_sentiment"].rpartition("sentiment is ")[2].strip().lower().removesuffix(".")
        traces[row["record_id"]].append(said == "very positive")
    files = [
        write(f"{at}.jsonl", [{"record_id": name, "ok": rights[at]} for name, rights in traces.items()])
        for at in (0, -1)
    ]
    found = compare(*files, id_field="record_id", correct_field="ok")
    assert (found.n, found.fixed, found.broken) == (431, 62, 5)
    assert (found.kept_right + found.broken, found.kept_right + found.fixed) == (363, 420)
    assert found.mcnemar_p < 1e-12
    assert 0.09 < found.diff_ci95[0] < found.diff_ci95[1] < 0.18
