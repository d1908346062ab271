"""A dataset loads with every row checked, each fault named by its line, and gold answers where only a scorer looks."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redraft.evals.datasets.dataset import Dataset, Problem, load_dataset
from redraft.graphs.math_problems import build_math_graph
from redraft.graphs.writing import writing_task
from redraft.models import ScriptedModel
from redraft.nodes.verify.code_replies import code_task
from redraft.sandbox import SandboxUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from redraft.sandbox import Sandbox

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SHARED_FILES = {"gsm8k_dev": ("numeric", 400), "humaneval_dev": ("code", 60), "commongen_hard_dev": ("words", 100)}

WORD_PROBLEM = {"question": "What is 6 * 7?", "answer": "6 * 7 = 42\n#### 42"}
SENTENCE = {"concepts": ["dog", "run"]}
FUNCTION = {
    "task_id": "Made/0",
    "prompt": 'def double(n):\n    """Return twice n."""\n',
    "entry_point": "double",
    "canonical_solution": "    return 2 * n\n",
    "test": "def check(candidate):\n    assert candidate(3) == 6\n",
}
SECRETS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "numeric": lambda row: {**row, "answer": "worked 987654321\n#### 987654321", "check": "987654321"},
    "code": lambda row: {**row, "test": "assert 987654321", "canonical_solution": "    return 987654321\n"},
    "exact": lambda row: {**row, "gold": "987654321"},
}
"""By kind: the same row with another gold answer."""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write rows, or lines as they are, into a file and return its path."""

    def file(*rows: object, name: str = "made.jsonl", newline: str = "\n", start: bytes = b"") -> Path:
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        path = tmp_path / name
        path.write_bytes(start + newline.encode().join(lines))
        return path

    return file


def shared(name: str) -> Path:
    path = SHARED / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"the data for development is not there: {path}")
    return path


def test_a_file_of_word_problems_is_numeric(write: Callable[..., Path]) -> None:
    """GSM8K loads as it is published: the question is the task, and a solution is right by its number."""
    path = write(WORD_PROBLEM, {"question": " Half of 5? ", "answer": "#### 2.5"})
    dataset = load_dataset(path)
    assert (dataset.name, dataset.kind, dataset.skipped) == ("made", "numeric", ())
    assert dataset.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    first, second = dataset.problems
    assert (first.id, first.task, second.task) == ("1", "What is 6 * 7?", "Half of 5?")
    assert dataset.is_correct(first, "6 * 7 = 42\n#### 42.0")
    assert not dataset.is_correct(second, "5 / 2 = 2\n#### 2")
    assert (dataset.read_answer("#### 1,042"), dataset.shown_gold(second)) == ("1042", "2.5")


def test_a_file_of_functions_is_code(write: Callable[..., Path], sandbox: Sandbox) -> None:
    """HumanEval loads as it is published: the prompt is the task, and hidden tests in the sandbox judge."""
    dataset = load_dataset(write(FUNCTION))
    problem = dataset.problems[0]
    assert (dataset.kind, problem.id, problem.task) == ("code", "Made/0", code_task(FUNCTION))
    assert dataset.is_correct(problem, "```python\ndef double(n):\n    return n + n\n```")
    assert not dataset.is_correct(problem, "```python\ndef double(n):\n    return n\n```")
    assert dataset.shown_gold(problem) == "    return 2 * n"


def test_a_file_of_concepts_is_words(write: Callable[..., Path]) -> None:
    """CommonGen loads as it is published, and a sentence is right when it uses all words as they stand."""
    dataset = load_dataset(write(SENTENCE))
    problem = dataset.problems[0]
    assert (dataset.kind, problem.task) == ("words", writing_task(SENTENCE)[0])
    assert dataset.is_correct(problem, "Run, dog!")
    assert not dataset.is_correct(problem, "The dog runs.")


@pytest.mark.parametrize(
    ("golds", "kind", "kept"),
    [
        ([7, "1,080", "$2.50", 0.1], "numeric", [Decimal(7), Decimal(1080), Decimal("2.50"), Decimal("0.1")]),
        (["worked\n#### 7", "#### 8"], "numeric", [Decimal(7), Decimal(8)]),
        (["Paris", 7, "1994-05-02"], "exact", ["Paris", "7", "1994-05-02"]),
    ],
)
def test_any_file_loads_by_the_names_of_its_fields(
    write: Callable[..., Path], golds: list[Any], kind: str, kept: list[Any]
) -> None:
    """A user's own file needs no other shape: its answers are compared as numbers when all are, else as texts."""
    rows = [{"q": f"Question {n}?", "gold": gold, "key": n + 100} for n, gold in enumerate(golds)]
    dataset = load_dataset(write(*rows), id_field="key", question_field="q", answer_field="gold")
    assert (dataset.kind, [problem.gold for problem in dataset.problems]) == (kind, kept)
    assert [problem.id for problem in dataset.problems] == [str(row["key"]) for row in rows]
    assert all(dataset.is_correct(problem, f"#### {dataset.shown_gold(problem)}") for problem in dataset.problems)


def test_a_file_from_any_editor_loads(write: Callable[..., Path]) -> None:
    """A byte order mark, Windows line ends, blank lines and odd separators inside texts change nothing."""
    odd = json.dumps({**WORD_PROBLEM, "question": "Line\u2028separated?"}, ensure_ascii=False).encode()
    path = write(b"", WORD_PROBLEM, b"  ", odd, b"", newline="\r\n", start=b"\xef\xbb\xbf")
    dataset = load_dataset(path)
    assert [(problem.id, problem.task) for problem in dataset.problems] == [
        ("2", "What is 6 * 7?"),
        ("4", "Line\u2028separated?"),
    ]


BAD_ROWS: list[tuple[object, str]] = [
    (b'{"question": "x"', "it is not JSON: Expecting ',' delimiter at column 17"),
    (b'{"question": "\xff", "answer": "#### 1"}', "it is not UTF-8 (byte 15)"),
    (b'{"question": "x", "answer": NaN}', "NaN is not JSON"),
    (b"[" * 100_000, "its JSON is nested too deeply"),
    ([1], "it must be a JSON object, not [1]"),
    ({"question": "x"}, "it has no field 'answer'"),
    ({"answer": "#### 1"}, "it has no field 'question'"),
    ({"question": " ", "answer": "#### 1"}, "its field 'question' must hold a text, not ' '"),
    ({"question": "x", "answer": "one"}, "its answer must have a last line '#### 42'"),
    ({"question": "x", "answer": "#### 4 apples"}, "after '####' in 'answer' there must be a number"),
    ({"question": "x", "answer": "#### 4\nor 5"}, "its answer must have a last line '#### 42'"),
    ({"q": "x"}, "say what to read, with question_field= and answer_field=: its fields are 'q'"),
    ({**WORD_PROBLEM, "id": "a"}, "its id 'a' is that of line 1 too"),
    ({**WORD_PROBLEM, "id": [1]}, "its id must be a text or an integer, not [1]"),
    ({"question": "\ud800", "answer": "#### 1"}, "it holds half of a surrogate pair"),
    ({"concepts": []}, "a CommonGen row needs a list of words"),
    ({**FUNCTION, "test": ""}, "its field 'test' must hold a text"),
    ({**FUNCTION, "entry_point": "a b"}, "its entry_point must be the name of a function, not 'a b'"),
    ({"prompt": "def f(): ..."}, "a HumanEval row needs a text 'entry_point'"),
]


def test_bad_lines_are_all_named_at_once(write: Callable[..., Path]) -> None:
    """A user mends a file in one go: each line that can't be used is named with its fault, or left out and listed."""
    path = write({**WORD_PROBLEM, "id": "a"}, *(row for row, _ in BAD_ROWS), {**WORD_PROBLEM, "id": "z"})
    with pytest.raises(ValueError, match="made has lines that can't be used") as raised:
        load_dataset(path)
    named = str(raised.value).splitlines()[1:]
    skipping = load_dataset(path, skip_bad=True)
    assert [problem.id for problem in skipping.problems] == ["a", "z"]
    assert [line.strip() for line in named] == list(skipping.skipped)
    for number, (line, (_, why)) in enumerate(zip(skipping.skipped, BAD_ROWS, strict=True), 2):
        assert line.startswith(f"line {number}: {why}")
        assert len(line) < 250


def test_of_many_bad_lines_twenty_are_named(write: Callable[..., Path]) -> None:
    """A file of another format does not flood the terminal, and says how much more is wrong."""
    with pytest.raises(ValueError, match="holds no problem that can be used") as raised:
        load_dataset(write(*[{"text": "x"}] * 25), skip_bad=True)
    lines = str(raised.value).splitlines()
    assert (len(lines), lines[1].strip()[:8], lines[-1].strip()) == (22, "line 1: ", "and 5 more")


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize(
    ("rows", "fields", "why"),
    [
        ([b"broken", WORD_PROBLEM, SENTENCE], {}, "line 3: it is a row of CommonGen, and line 2 is one of GSM8K"),
        ([FUNCTION, WORD_PROBLEM], {}, "line 2: it is a row of GSM8K, and line 1 is one of HumanEval"),
        (
            [WORD_PROBLEM, {"question": "x", "answer": "forty-two"}],
            {"answer_field": "answer"},
            "line 2: it is a row of questions and plain answers, and line 1 is one of GSM8K",
        ),
    ],
)
def test_rows_of_two_kinds_are_an_error(
    write: Callable[..., Path], rows: list[Any], fields: dict[str, str], why: str, skip_bad: bool
) -> None:
    """Two data sets in one file are never scored as one, nor is half of them dropped: the line is named."""
    with pytest.raises(ValueError, match=why):
        load_dataset(write(*rows), skip_bad=skip_bad, **fields)


def test_what_is_no_dataset_is_named(tmp_path: Path, write: Callable[..., Path]) -> None:
    """A wrong path, an empty file or a wrong name of a data set says what would be right."""
    with pytest.raises(
        FileNotFoundError, match=r"there is no file '.*nothing.jsonl'; a dataset is a JSONL file, 'bund"
    ):
        load_dataset(tmp_path / "nothing.jsonl")
    with pytest.raises(ValueError, match="made holds no problem that can be used"):
        load_dataset(write())
    for spec in ("hf:", "hf:a/b/c/d", "hf:a//b"):
        with pytest.raises(ValueError, match=f"'hf:OWNER/NAME' or 'hf:OWNER/NAME/CONFIG', not '{spec}'"):
            load_dataset(spec)


def test_a_sample_is_the_same_everywhere() -> None:
    """A seed picks the same problems on every machine, a larger sample keeps them, and the order is the file's."""
    whole = load_dataset("bundled")
    ids = [problem.id for problem in whole.problems]

    def sample(limit: int | None, seed: int | None) -> list[str]:
        return [problem.id for problem in whole.sample(limit, seed).problems]

    assert sample(3, None) == ids[:3]
    assert sample(None, 7) == sample(1000, 7) == ids
    assert sample(10, 7) == [name for name in ids if name in set(sample(10, 7))] != ids[:10]
    assert len(sample(10, 7)) == 10
    assert set(sample(10, 7)) < set(sample(20, 7))
    assert sample(10, 7) != sample(10, 8)
    made = Dataset("made", "exact", "", tuple(Problem(str(n), "x", "y") for n in range(100)))
    assert [problem.id for problem in made.sample(5, 0).problems] == ["15", "44", "46", "87", "99"]
    assert whole.sample(3, 7).sha256 == whole.sha256
    with pytest.raises(ValueError, match="limit must be 1 or more, not 0"):
        whole.sample(0)


@pytest.mark.parametrize("name", ["bundled", *SHARED_FILES])
def test_tasks_show_nothing_of_the_gold_answer(name: str, write: Callable[..., Path]) -> None:
    """With every gold answer replaced, each id and task stays the same to the letter: they are made without looking."""
    source = Path(sys.modules[load_dataset.__module__].__file__ or "").with_name("word_problems.jsonl")
    path = source if name == "bundled" else shared(name)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    before = load_dataset(path)
    if before.kind == "words":
        assert [one.task for one in before.problems] == [writing_task(row)[0] for row in rows], "the task is the words"
        return
    after = load_dataset(write(*map(SECRETS[before.kind], rows)))
    assert [(one.id, one.task) for one in before.problems] == [(one.id, one.task) for one in after.problems]
    assert all(old.gold != new.gold for old, new in zip(before.problems, after.problems, strict=True))
    assert "987654321" in repr([one.gold for one in after.problems])
    assert "987654321" not in repr(
        (after, after.problems, [{"id": one.id, "task": one.task} for one in after.problems])
    )
    assert "987654321" not in str([*after.problems])


@pytest.mark.parametrize("name", SHARED_FILES)
def test_published_data_loads_whole(name: str) -> None:
    """The data sets that others publish load without a bad line, under ids that are told apart."""
    dataset = load_dataset(shared(name))
    assert (dataset.name, dataset.kind, len(dataset.problems)) == (name, *SHARED_FILES[name])
    assert dataset.skipped == ()
    assert copy.deepcopy(dataset) == pickle.loads(pickle.dumps(dataset)) == dataset
    assert len({hash(problem) for problem in dataset.problems}) == len(dataset.problems)


@pytest.mark.slow
def test_published_solutions_are_right() -> None:
    """Each worked answer of GSM8K and each sentence of just the words scores as right, and another problem's not."""
    numeric, words = load_dataset(shared("gsm8k_dev")), load_dataset(shared("commongen_hard_dev"))
    rows = [json.loads(line) for line in shared("gsm8k_dev").read_text(encoding="utf-8").splitlines()]
    assert all(numeric.is_correct(one, row["answer"]) for one, row in zip(numeric.problems, rows, strict=True))
    assert all(words.is_correct(one, " ".join(one.gold).upper()) for one in words.problems)
    assert not any(words.is_correct(one, " ".join(one.gold[1:])) for one in words.problems)


def test_published_functions_are_right(sandbox: Sandbox) -> None:
    """Each reference solution of HumanEval passes in the sandbox; one that only returns None does not."""
    dataset = load_dataset(shared("humaneval_dev"))
    for problem in dataset.problems[:20]:
        assert dataset.is_correct(problem, f"```python\n{problem.gold.prompt}{problem.gold.canonical_solution}\n```")
    for problem in dataset.problems[:5]:
        assert not dataset.is_correct(problem, f"```python\n{problem.gold.prompt}    return None\n```")


def test_a_run_never_holds_the_gold_answer(write: Callable[..., Path], sandbox: Sandbox) -> None:
    """Neither a prompt nor the record of a whole run with critique and revision holds the gold answer."""
    dataset = load_dataset(write(SECRETS["numeric"](WORD_PROBLEM)))
    model = ScriptedModel(["6 * 7 = 41\n#### 41", "6 * 7 is 42.", "6 * 7 = 42\n#### 42", "SOLUTION_IS_CORRECT"])
    output = build_math_graph(model, critic="self").invoke({"task": dataset.problems[0].task})
    assert len(model.calls) == 4
    assert output["stop_reason"] == "accepted"
    assert dataset.shown_gold(dataset.problems[0]) == "987654321"
    assert "987654321" not in repr((model.calls, output))


def test_the_hub_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package `datasets` the message says what to install."""
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"'hf:openai/gsm8k/main' needs the package datasets: pip install datasets"):
        load_dataset("hf:openai/gsm8k/main")


def test_a_folder_of_the_hub_loads(write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set saved from the Hub loads from its folder, by split, with its rows numbered."""
    library = pytest.importorskip("datasets")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "saved").mkdir()
    write(WORD_PROBLEM, {"question": "x", "answer": "none"}, name="saved/test.jsonl")
    with pytest.raises(ValueError, match="row 2: its answer must have a last line"):
        load_dataset(f"hf:{tmp_path / 'saved'}")
    dataset = load_dataset(f"hf:{tmp_path / 'saved'}", skip_bad=True)
    assert (dataset.name, dataset.kind, dataset.problems[0].task) == ("saved", "numeric", "What is 6 * 7?")
    assert len(dataset.sha256) == 64


def test_a_dataset_of_code_loads_where_nothing_runs_code(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only judging needs the sandbox, and where it can't run that is an error, never a verdict."""
    from redraft.evals.datasets import scorers

    def unavailable() -> Sandbox:
        raise SandboxUnavailableError("no sandbox can run here")

    dataset = load_dataset(write(FUNCTION))
    monkeypatch.setattr("redraft.sandbox.Sandbox", unavailable)
    monkeypatch.setattr("redraft.evals.datasets.dataset.scorer", lambda kind: scorers.CodeScorer())
    with pytest.raises(SandboxUnavailableError):
        dataset.is_correct(dataset.problems[0], "def double(n): ...")
