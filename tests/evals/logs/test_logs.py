"""Logs of other tools: a user sees which fields were read, and gets no comparison on fields that were guessed."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("scipy", reason="the extra evals is not installed")
pytest.importorskip("statsmodels", reason="the extra evals is not installed")
pytest.importorskip("zstandard", reason="the extra evals is not installed")

from redraft.evals.analysis.comparison import compare
from redraft.evals.analysis.diagnosis import diagnose
from redraft.evals.analysis.ledger import build_ledger
from redraft.evals.commands.commands_report import show_ledger
from redraft.evals.logs import sources
from redraft.evals.logs.inspect_rules import scores_by_rule
from redraft.evals.logs.registry import Naming, read_log, read_runs
from redraft.faces.views.console import Screen

FIXTURES = Path(__file__).parent / "fixtures"
SUMS = ("sum-1", "sum-2", "sum-3", "sum-4")
PHOENIX = tuple(f"RGF0YXNldEV4YW1wbGU6{end}==" for end in ("MQ", "Mg", "Mw", "NA"))
UUIDS = tuple(f"00000000-0000-0000-0000-00000000000{n}" for n in range(1, 5))

CLEAR: list[tuple[str, Naming, str, str, str, tuple[str, ...], str]] = [
    # file, what is said of it, its format, the id and the verdict taken, the ids, right (r) or wrong (w)
    ("inspect_before.eval", Naming(), "Inspect", "id", "match", SUMS, "rwrw"),
    ("inspect_after.json", Naming(), "Inspect", "id", "match", SUMS, "rrrw"),
    ("inspect_two_scorers.eval", Naming(right_field="includes"), "Inspect", "id", "includes", SUMS, "rrwr"),
    ("inspect_partial.eval", Naming(right_from=0.5), "Inspect", "id", "partial", SUMS, "rrww"),
    ("inspect_partial.eval", Naming(right_from=1), "Inspect", "id", "partial", SUMS, "rwww"),
    ("inspect_floats.json", Naming(right_from=0.9), "Inspect", "id", "closeness", SUMS, "rwrw"),
    ("inspect_epochs.eval", Naming(right_from=0.5), "Inspect", "id", "match", SUMS, "rrrw"),
    ("inspect_epochs.eval", Naming(right_from=1), "Inspect", "id", "match", SUMS, "wwrw"),
    ("inspect_attempts.eval", Naming(), "Inspect", "id", "match", SUMS, "rrrw"),
    ("inspect_critique.eval", Naming(), "Inspect", "id", "match", SUMS, "rwrw"),
    ("lm_eval.jsonl", Naming(), "lm-evaluation-harness", "doc_id", "exact_match,none", ("0", "1", "2"), "rwr"),
    (
        *("lm_eval_filters.jsonl", Naming(right_field="exact_match,flexible"), "lm-evaluation-harness"),
        *("doc_id", "exact_match,flexible", ("0", "1", "2"), "www"),
    ),
    (
        *("openai_evals.jsonl", Naming(), "OpenAI evals", "sample_id", "match.correct"),
        *(("sums.dev.2", "sums.dev.3", "sums.dev.1", "sums.dev.0"), "rwwr"),
    ),
    ("promptfoo.json", Naming(), "promptfoo", "vars", "success", ("1 + 1 = 2", "2 + 2 = 5", "3 + 3 = 6"), "rwr"),
    ("promptfoo.jsonl", Naming(id_field="testIdx"), "promptfoo", "testIdx", "success", ("0", "1", "2"), "rwr"),
    (
        *("promptfoo.csv", Naming("Description", "Status#2"), "CSV", "Description", "Status#2"),
        *(("one", "two", "three"), "rww"),
    ),
    ("deepeval.json", Naming(), "DeepEval", "name", "success", SUMS, "rwwr"),
    ("deepeval.json", Naming(right_field="close.success"), "DeepEval", "name", "close.success", SUMS, "rrwr"),
    ("langsmith.csv", Naming(right_field="correctness"), "LangSmith", "example_id", "correctness", UUIDS, "rrww"),
    ("langsmith.jsonl", Naming(right_field="contains"), "LangSmith", "example_id", "contains", UUIDS, "rrwr"),
    ("phoenix.json", Naming(), "Phoenix", "example_id", "correct.score", PHOENIX, "rrww"),
    ("phoenix_two.csv", Naming(right_field="correct.label"), "Phoenix", "example_id", "correct.label", PHOENIX, "rrww"),
    (
        *("langfuse_traces.jsonl", Naming(right_field="correctness"), "Langfuse"),
        *("metadata.question_id", "correctness", SUMS, "rrrw"),
    ),
    ("langfuse_rounds.jsonl", Naming(), "Langfuse", "metadata.question_id", "correctness", SUMS, "rrrw"),
    (
        *("langfuse_scores.json", Naming("traceId", "correctness"), "Langfuse", "traceId", "correctness"),
        *(tuple(f"{n:032x}" for n in range(1, 5)), "rrrw"),
    ),
]


@pytest.mark.parametrize(("file", "naming", "tool", "id_field", "right_field", "ids", "right"), CLEAR)
def test_a_log_of_each_tool_is_read_and_says_by_which_fields(
    file: str, naming: Naming, tool: str, *, id_field: str, right_field: str, ids: tuple[str, ...], right: str
) -> None:
    """Files as the tools wrote them are read as they are, under any name, and the fields taken are named."""
    log = read_log(FIXTURES / file, naming)
    assert log.format.startswith(tool)
    assert (log.id_field, log.right_field) == (id_field, right_field)
    assert f"id from {id_field!r}, right or wrong from {right_field!r}" in log.sentence
    verdicts = log.runs[0].verdicts
    assert verdicts == {name: letter == "r" for name, letter in zip(ids, right, strict=True)}


@pytest.mark.parametrize(
    ("file", "naming", "message"),
    [
        ("inspect_two_scorers.eval", Naming(), r"several fields may be the verdict.*'match' \(true\), 'includes'"),
        ("inspect_partial.eval", Naming(), r"sum-2_epoch_1.json: field 'partial' must be .* not 0.5.*--right-from"),
        ("inspect_floats.json", Naming(), r"sample 2: field 'closeness' must be .* not 0.5.*--right-from"),
        ("inspect_epochs.eval", Naming(), r"'sum-1' was run 3 times.*--right-from 0.5"),
        ("lm_eval_filters.jsonl", Naming(), r"line 1 .*'exact_match,strict' \(1.0\), 'exact_match,flexible' \(0.0\)"),
        ("langsmith.csv", Naming(), r"line 2 .*several fields may be the verdict.*--right-field.*'correctness'"),
        (
            "langsmith.jsonl",
            Naming(right_field="correct"),
            r"line 1: field 'correct' is missing; there are 'correctness'",
        ),
        ("phoenix_two.csv", Naming(), r"several fields may be the verdict.*'contains.score' .*'correct.label'"),
        ("langfuse_traces.jsonl", Naming(), r"several fields may be the verdict.*'correctness' \(true\), 'closeness'"),
        ("langfuse_scores.json", Naming(), r"no field is known as the id; name it \(--id-field.*'traceId'"),
        ("promptfoo.csv", Naming(), r"no field is known as the id; .*'Description' \(\"one\"\), 'sum'"),
        ("promptfoo.csv", Naming(id_field="sum"), r"no field is known as the verdict; .*'Status' .*'Status#2'"),
    ],
)
def test_what_is_not_clear_is_refused_with_the_candidates(file: str, naming: Naming, message: str) -> None:
    """Where a file can be read in two ways nothing is guessed: the error lists the fields and the flag."""
    with pytest.raises(ValueError, match=rf"(?s){message}"):
        read_log(FIXTURES / file, naming)


def test_two_tools_logs_are_compared_on_their_own_ids() -> None:
    """A zip and a JSON log of Inspect are paired; of a promptfoo file with two prompts, each must be named."""
    found = compare(FIXTURES / "inspect_before.eval", FIXTURES / "inspect_after.json")
    assert (found.n, found.fixed, found.broken) == (4, 1, 0)
    assert found.read[0] == "inspect_before.eval: Inspect log, id from 'id', right or wrong from 'match'"
    both = FIXTURES / "promptfoo.json"
    with pytest.raises(ValueError, match=r"holds several methods; name one .*'short', 'polite'"):
        compare(both, both)
    assert compare(both, both, methods=("short", "polite")).broken == 1


@pytest.mark.parametrize(
    ("file", "oracle", "fixed", "broken"),
    [("inspect_attempts.eval", True, 2, 0), ("langfuse_rounds.jsonl", False, 2, 1)],
)
def test_rounds_in_a_log_are_rounds_in_the_ledger(file: str, oracle: bool, fixed: int, broken: int) -> None:
    """Each attempt or scored draft is a round; an agent that was told the score is marked as an oracle."""
    (row,) = build_ledger(read_log(FIXTURES / file).runs).methods
    assert (row.overall.fixed, row.overall.broken, row.oracle) == (fixed, broken, oracle)
    assert [one.measured.k for one in row.rounds] == ([2, 3] if oracle else [3])
    assert row.first_draft.k == (1 if oracle else 2)
    assert row.tokens > 0


def test_first_drafts_of_inspects_self_critique_are_told_from_its_answers() -> None:
    """Inspect scores the answers alone; the drafts before them are judged by the same rule, and are the baseline."""
    runs, read = read_runs([FIXTURES / "inspect_critique.eval"])
    assert [run.verdicts for run in runs] == [
        {"sum-1": True, "sum-2": True, "sum-3": False, "sum-4": False},
        {"sum-1": True, "sum-2": False, "sum-3": True, "sum-4": False},
    ]
    assert read[1] == "inspect_critique.eval: its first drafts are the baseline, zero-shot"
    row = build_ledger(runs).methods[1]
    assert (row.first_draft.k, row.overall.fixed, row.overall.broken, row.oracle) == (2, 1, 1, False)
    first, revision = runs[1].records[0].iterations_log
    assert (first.solution, first.tokens_used, revision.tokens_used) == ("ANSWER: 4", 13, 70)


@pytest.mark.parametrize(
    "scorer", [{"name": "model_graded_qa"}, {"name": "match", "options": {"location": "begin"}}, None]
)
def test_drafts_that_no_known_rule_scores_are_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scorer: Any
) -> None:
    """Where a model scored, or the rule gives answers other scores than the log has, only answers are reported."""
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as packed:
        source = sources.open_source(FIXTURES / "inspect_critique.eval")
        for name in source.names:
            member = source.member(name)
            if name == "header.json":
                member["eval"]["scorers"] = scorer and [scorer]
            packed.writestr(name, json.dumps(member))
    (run,), read = read_runs([path])
    assert [record.num_iterations for record in run.records] == [0, 0, 0, 0]
    assert "log.eval: Inspect scored its answers alone, so nothing is said of the drafts" in read[1]
    show_ledger(Screen(), build_ledger([run]))
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("self_critique "))
    assert line.split()[1:4] == ["50.0%", "15.0%–85.0%", "83"]  # right, its interval, and no first drafts


@pytest.mark.parametrize(
    ("scorer", "text", "target", "right"),
    [
        ({"name": "match"}, "So it is 4.", "4", True),
        ({"name": "inspect_ai/match", "options": {"location": "begin"}}, "4 it is", "4", True),
        ({"name": "match", "options": {"location": "exact", "ignore_case": False}}, "Yes", "yes", False),
        ({"name": "match"}, "Paris", ["Rome", "paris"], True),
        ({"name": "includes"}, "It is PARIS, in France", "paris", True),
        ({"name": "includes", "options": {"ignore_case": False}}, "It is PARIS", "paris", False),
    ],
)
def test_drafts_are_judged_as_inspects_own_rules_do(scorer: Any, text: str, target: Any, *, right: bool) -> None:
    """The rules `match` and `includes` with their options give a draft the score that inspect_ai gives it."""
    assert list((scores_by_rule([scorer], text, target) or {}).values()) == [right]


def test_a_log_is_reported_and_diagnosed_beside_a_baseline(tmp_path: Path) -> None:
    """First drafts are the baseline of a log with rounds; the others are held against the one that is named."""
    rounds = FIXTURES / "langfuse_rounds.jsonl"
    runs, read = read_runs([rounds])
    assert [run.info.method for run in runs] == ["zero-shot", "langfuse_rounds"]
    assert read[1] == "langfuse_rounds.jsonl: its first drafts are the baseline, zero-shot"
    (equal,) = build_ledger(runs).equal_cost
    assert (equal.paired.fixed, equal.paired.broken, equal.baseline_tokens) == (2, 1, 11)
    option = next(one for one in diagnose(runs).options if one.rounds == 1)
    assert (option.accuracy, option.observed, option.gain) == (0.75, True, 0.25)

    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, verdicts in zip(files, ((1, 0, 0), (1, 1, 0)), strict=True):
        path.write_text("id,correct\n" + "".join(f"{n},{right}\n" for n, right in enumerate(verdicts)))
    runs, read = read_runs(files, baseline="a")
    rows = build_ledger(runs).methods
    assert [row.baseline for row in rows] == [True, True]
    assert "b got 2 of 3 right" in rows[1].verdict
    assert "33.3 points above zero-shot on the same 3" in rows[1].verdict
    assert "unknown cost" in rows[1].verdict
    assert "a.csv: it tells no tokens, so nothing can be said of equal cost" in read
    with pytest.raises(ValueError, match="no method 'c' to be the baseline; there are 'a', 'b'"):
        read_runs(files, baseline="c")


TABLES: list[tuple[str, Naming, Any]] = [
    ("id,correct\na,1\nb,0\n", Naming(), "rw"),
    ("id;correct\na;true\nb;False\n", Naming(), "rw"),
    ("question_id\tpassed\na\tpass\nb\tfail\n", Naming(), "rw"),
    ('{"id": 1, "score": 0.4}\n{"id": 2, "score": 0.7}\n', Naming(right_from=0.5), "wr"),
    ('[{"id": "a", "acc": 1.0}, {"id": "b", "acc": 1}]', Naming(), "rr"),
    ('{"id": "a", "index": 0, "correct": 1}\n{"id": "b", "index": 1, "correct": 0}', Naming(), "rw"),
    # One problem, two drafts.
    ('{"id": 7, "round": 1, "correct": true}\n{"id": 7, "round": 0, "correct": false}', Naming(), "r"),
    # A verdict under two names that never differ is one verdict.
    ('{"id": 1, "correct": true, "passed": 1}\n{"id": 2, "correct": false, "passed": 0}', Naming(), "rw"),
    ("id,score\na,1\nb,1\n", Naming(), "'score' must be .* not 1 everywhere"),
    ("id,score\na,0.2\nb,1\n", Naming(), "line 2: field 'score' must be .* not 0.2: .*--right-from"),
    ("id,score\na,nan\n", Naming(right_from=0.5), "line 2: field 'score' must be true or false"),
    ("id,correct\na,C\n", Naming(), "line 2: field 'correct' must be true or false, not \"C\""),
    ("id,correct\na,1,2\n", Naming(), "line 2: 3 cells under 2 headings"),
    (
        '{"id": 1, "correct": true, "passed": false}\n',
        Naming(),
        "several fields may be the verdict.*'correct'.*'passed'",
    ),
    ('{"id": 1, "task_id": "x", "correct": 1}\n', Naming(), "several fields may be the id.*'id' .1., 'task_id'"),
    (
        '{"id": 7, "attempt": 1, "correct": 1}\n{"id": 7, "attempt": 2, "correct": 0}',
        Naming(),
        "line 2: .*stands in line 1",
    ),
    ('[{"id": 1}, 2]', Naming(), "entry 2: an object with an id and a verdict is wanted, not 2"),
    ('{"id": 1,\n "correct": tru}', Naming(), "line 2: not JSON"),
]


@pytest.mark.parametrize(("text", "naming", "expected"), TABLES)
def test_tables_are_read_by_what_is_in_them(tmp_path: Path, text: str, naming: Naming, expected: str) -> None:
    """0/1, true/false and pass/fail are verdicts; numbers need a limit; two readings are refused, with the names."""
    path = tmp_path / "results.txt"
    path.write_text(text)
    if set(expected) <= set("rw"):
        assert "".join("r" if right else "w" for right in read_log(path, naming).runs[0].verdicts.values()) == expected
    else:
        with pytest.raises(ValueError, match=rf"(?s)results\.txt.*{expected}"):
            read_log(path, naming)


def test_rows_that_are_only_counted_are_not_paired_with_other_problems(tmp_path: Path) -> None:
    """An index names another problem in a shuffled file: where the texts show it the comparison is refused."""
    paths = []
    for name, tasks in (("a", "xy"), ("b", "yx")):
        rows = [{"index": n, "question": task, "correct": True} for n, task in enumerate(tasks)]
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match="'index' counts rows, and '0' is another problem"):
        compare(*paths)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_log_of_odd_shape_is_refused_by_name(data: Any) -> None:
    """Whatever stands in the place of a value, a log is read, or refused with its name and never with a traceback."""
    name = data.draw(st.sampled_from(("inspect_after.json", "promptfoo.json", "deepeval.json", "phoenix.json")))
    document = json.loads((FIXTURES / name).read_text())
    at = document
    for _ in range(data.draw(st.integers(0, 5))):
        inner = [key for key, value in _items(at) if isinstance(value, dict | list) and value]
        at = at[data.draw(st.sampled_from(inner))] if inner else at
    keys = [key for key, _ in _items(at)]
    odd = st.sampled_from((None, True, -1, 10**400, "x", [], [1], {}, {"a": [None]}, ["a", {}]))
    at[data.draw(st.sampled_from(keys))] = data.draw(odd)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "odd.json"
        path.write_text(json.dumps(document))
        try:
            read_log(path, Naming(right_from=0.5))
        except ValueError as error:
            assert "odd.json" in str(error)  # noqa: PT017  most documents are still read


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items() if isinstance(value, dict) else enumerate(value))


def test_hostile_zips_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zip that is no log, is damaged, or unpacks to more than it says ends in one message that names the file."""
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("other.json", "{}")
    with pytest.raises(ValueError, match=r"log.eval is a zip file and no Inspect log"):
        read_log(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("header.json", '{"eval": {}, "plan": {}}')
        packed.writestr("samples/1.json", " " * 3_000_000)
    monkeypatch.setattr(sources, "MAX_MEMBER", 2_000_000)
    with pytest.raises(ValueError, match=r"log.eval, samples/1.json unpacks to more than"):
        read_log(path)
    whole = (FIXTURES / "inspect_before.eval").read_bytes()
    for damaged in (whole[: len(whole) // 2], whole.replace(b"\x28\xb5\x2f\xfd", b"\x00\x00\x00\x00")):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"log.eval"):
            read_log(path)
