"""The ledger: a user sees for each method what refining fixed and broke, what it cost, and what else costs the same."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy", reason="the extra evals is not installed")
pytest.importorskip("statsmodels", reason="the extra evals is not installed")

from redraft.evals.analysis.diagnosis import diagnose
from redraft.evals.analysis.ledger import Ledger, MethodRow, build_ledger, find_runs, read_run
from redraft.evals.analysis.method_row import is_baseline
from redraft.evals.run.methods import KINDS, METHODS

YELP = Path(__file__).resolve().parents[3] / "shared" / "data" / "yelp_self_refine_dv3.jsonl"


def solved(
    drafts: str, *, answer: str = "", stop: str = "max_rounds", tokens: int = 100, **fields: Any
) -> dict[str, Any]:
    """A problem, one letter a draft: right, wrong, `x` for a revision that is none. `answer`: else the last draft."""
    steps = [
        {
            "iteration": number,
            "type": "refinement" if number else "initial_generation",
            "solution": f"draft {number}",
            "predicted_answer": letter,
            "feedback": None,
            "tokens_used": tokens // len(drafts),
            "is_correct": letter == "r",
            "rejected": "empty" if letter == "x" else "",
        }
        for number, letter in enumerate(drafts)
    ]
    return {
        "question_id": "",
        "question": "?",
        "predicted_answer": "1",
        "ground_truth": "1",
        "is_correct": (answer or drafts.replace("x", "")[-1:]) == "r",
        "is_correct_per_feedback": stop == "accepted",
        "final_solution": "1",
        "num_iterations": max(len(drafts) - 1, 0),
        "total_tokens": tokens,
        "stop_reason": stop,
        "accepted_by": "self" if stop == "accepted" else None,
        "oracle": False,
        "seconds": 2.0,
        "cost_usd": 0.01,
        "iterations_log": steps,
        **fields,
    }


@pytest.fixture
def write_run(tmp_path: Path) -> Any:
    """Write a run of a method into a folder of its own, and return that."""

    def write_run(method: str, records: list[dict[str, Any]], *, folder: str = "", **info: Any) -> Path:
        path = tmp_path / (folder or method)
        path.mkdir(parents=True)
        named = [{**record, "question_id": record["question_id"] or f"p{at}"} for at, record in enumerate(records)]
        (path / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in named), encoding="utf-8")
        about = {
            "format": 1,
            "dataset": "sums",
            "dataset_sha256": "ab" * 32,
            "kind": "numeric",
            "n": len(records),
            "method": method,
            "oracle": False,
            "model": "openai:gpt-5-mini",
            "critic": None,
            "limits": {"max_rounds": max((record["num_iterations"] for record in records), default=0)},
            "seed": 0,
            "engine": "asyncio",
            **info,
        }
        (path / "run.json").write_text(json.dumps(about), encoding="utf-8")
        return path

    return write_run


def only(ledger: Ledger) -> MethodRow:
    (row,) = ledger.methods
    return row


def answers(right: int, n: int, *, tokens: int, shift: int = 0, **fields: Any) -> list[dict[str, Any]]:
    """One draft a problem, of which `right` are right, from problem `shift` on."""
    return [solved("r" if shift <= at < shift + right else "w", tokens=tokens, **fields) for at in range(n)]


@pytest.fixture
def four(write_run: Any, tmp_path: Path) -> Ledger:
    """Zero-shot 132 of 200, majority-5 and program-3 142 at 2.1× the tokens, and an oracle."""
    write_run("zero-shot", answers(132, 200, tokens=100), started="2026-01-01T00:00")
    write_run("majority-5", answers(142, 200, tokens=210), started="2026-01-01T01:00")
    refined = ["rw"] * 2 + ["r"] * 130 + ["wr"] * 6 + ["wwr"] * 6 + ["wwww"] * 56
    stops = {"r": "accepted", "wr": "accepted", "wwr": "accepted"}
    program = [solved(one, tokens=210, stop=stops.get(one, "max_rounds")) for one in refined]
    write_run("program-3", program, started="2026-01-01T02:00")
    perfect = [solved("wr", tokens=90, oracle=True, stop="accepted")] * 200
    write_run("oracle-refine-3", perfect, oracle=True, started="2026-01-01T03:00")
    return build_ledger(find_runs([tmp_path]))


def test_each_method_is_told_in_one_sentence(four: Ledger) -> None:
    """The sentence has what was fixed and broken, the odds, the price, and what the same tokens bring otherwise."""
    assert {row.label: row.verdict for row in four.methods} == {
        "zero-shot": "zero-shot got 132 of 200 right (66.0%, 95% 59.2–72.2%) at 100 tokens a problem.",
        "majority-5": "majority-5 got 142 of 200 right (71.0%, 95% 64.4–76.8%), 5.0 points above zero-shot on the same "
        "200 (p = 0.002) at 2.1× its tokens.",
        "program-3": "program-3 fixed 12 and broke 2 of 200 (p = 0.013) at 2.1× the tokens of zero-shot; "
        "majority-5 at equal cost reached 71.0% against its 71.0%. Each point gained over the first drafts took 11 "
        "more tokens a problem, each problem fixed 877. Stop after round 2: 132 → 142 of 200, and no more later.",
        "oracle-refine-3": "oracle-refine-3, with the gold answers in hand, fixed 200 and broke 0 of 200 (p < 0.001) "
        "at 0.9× the tokens of zero-shot; zero-shot at 1.1× its tokens reached 66.0% against its 100.0% (p < 0.001). "
        "Each point gained over the first drafts took 0.45 more tokens a problem, each problem fixed 45.",
    }


def test_each_method_has_a_headline_against_the_baseline_that_tells_most(four: Ledger, write_run: Any) -> None:
    """A method is held against equal tokens; where nothing has as many that is said, and zero-shot stands in."""
    told = {row.label: (row.headline.how, row.headline.against) if row.headline else None for row in four.methods}
    assert told == {
        "zero-shot": None,
        "majority-5": ("zero-shot", "zero-shot at 2.1× its tokens"),
        "program-3": ("equal tokens", "majority-5 at equal tokens"),
        "oracle-refine-3": ("zero-shot", "zero-shot at 0.9× its tokens (no baseline has as many)"),
    }
    (majority, program) = (row.headline for row in four.methods[1:3])
    assert majority
    assert program
    assert (program.paired, program.finding) == (four.equal_cost[0].paired, "no gain")
    assert (majority.paired.diff, majority.finding) == (0.05, "better")
    alone = only(build_ledger([read_run(write_run("self-refine-1", [solved("wr")] * 9))]))
    assert alone.headline
    assert (alone.headline.how, alone.headline.paired, alone.headline.finding) == (
        "first draft",
        alone.overall,
        "better",
    )


def test_a_group_is_told_by_name_and_with_the_words_of_diagnose(write_run: Any, tmp_path: Path) -> None:
    """A reader sees `sums · tiny`, not the address of a server, and one recommendation, whichever command is asked."""
    here = {"model": "http://127.0.0.1:8911/v1#tiny"}
    write_run("zero-shot", answers(10, 20, tokens=10), **here)
    write_run("self-refine-1", [solved("wr" if at % 4 else "r") for at in range(20)], **here)
    write_run("zero-shot", answers(1, 2, tokens=1), folder="file/zero-shot", model="gguf:/models/tiny.gguf")
    write_run("zero-shot", answers(1, 2, tokens=1), folder="there/zero-shot", model="https://example.org/v1#tiny")
    runs = find_runs([tmp_path])
    groups = build_ledger(runs).groups
    assert sorted(group.title for group in groups) == [
        "sums · tiny · http://127.0.0.1:8911/v1#tiny",
        "sums · tiny · https://example.org/v1#tiny",
        "sums · tiny.gguf",
    ]
    (said,) = [group.recommendation for group in groups if group.recommendation]
    assert said == diagnose([run for run in runs if run.info.model == here["model"]]).recommendation


def test_a_row_has_rates_with_intervals_and_what_they_cost(four: Ledger) -> None:
    """Accuracy first and last, rounds, tokens, money, time, and why runs stopped: each as computed by hand."""
    row = next(row for row in four.methods if row.method == "program-3")
    assert (row.first_draft.k, row.accuracy.k, row.ever_right.k, row.accepted.k) == (132, 142, 144, 142)
    assert (row.overall.fixed, row.overall.broken, row.overall.kept_right, row.overall.kept_wrong) == (12, 2, 130, 56)
    assert [(one.revised.n, one.revised.fixed, one.revised.broken, one.measured.k) for one in row.rounds] == [
        (70, 6, 2, 136),
        (62, 6, 0, 142),
        (56, 0, 0, 142),
    ]
    assert (row.tokens, row.cost_usd, row.seconds) == (210, pytest.approx(0.01), 2)
    assert row.accuracy_per_1000_tokens == pytest.approx(0.71 / 0.21)
    assert row.mean_iterations == pytest.approx((2 + 6 + 12 + 168) / 200)
    assert row.stop_reasons == {"accepted": 142, "max_rounds": 58}
    assert row.early_stop_rate == pytest.approx(142 / 200)
    assert row.token_ratio == pytest.approx(2.1)
    assert row.rates.accept_right.n == 130 + 2 + 12
    assert row.warnings == []


def test_equal_cost_and_the_frontier_leave_the_oracle_out(four: Ledger) -> None:
    """A refining method stands beside the baseline nearest in tokens; an oracle is marked and beats nobody."""
    program, oracle = four.equal_cost
    assert (program.label, program.baseline, program.near, program.paired.diff) == ("program-3", "majority-5", True, 0)
    assert (program.paired.fixed, program.paired.broken, program.paired.n) == (2, 2, 200)
    assert (oracle.label, oracle.oracle, oracle.baseline) == ("oracle-refine-3", True, "zero-shot")
    (group,) = four.groups
    assert group.frontier == ["zero-shot", "majority-5", "program-3"]
    assert [row.label for row in four.methods if row.on_frontier] == ["zero-shot", "majority-5", "program-3"]
    marked = next(row for row in four.methods if row.oracle)
    assert "perfect judge" in marked.warnings[0]
    assert (group.problems, four.warnings) == (200, [])


def test_a_baseline_that_an_oracle_touched_is_no_baseline(write_run: Any) -> None:
    """What a gold answer had a say in is nothing to be held against, nor to count tokens by."""
    runs = [
        write_run("zero-shot", answers(5, 10, tokens=50, oracle=True)),
        write_run("best-of-3", answers(9, 10, tokens=100), oracle=True),
        write_run("majority-5", answers(6, 10, tokens=400)),
        write_run("program-1", [solved("wr", tokens=100)] * 10),
    ]
    ledger = build_ledger(find_runs(runs))
    assert [row.label for row in ledger.methods] == [
        "zero-shot (oracle)",
        "best-of-3 (oracle)",
        "majority-5",
        "program-1",
    ]
    assert [(one.label, one.baseline) for one in ledger.equal_cost] == [("program-1", "majority-5")]
    assert [row.vs_zero_shot for row in ledger.methods] == [None] * 4


def test_stopping_early_means_that_rounds_were_left(write_run: Any) -> None:
    """Acceptance in the last round saved nothing, nor did a spent budget; a method without rounds can't stop early."""
    records = [
        solved("wr", stop="accepted"),
        solved("wwr", stop="accepted"),
        solved("ww", stop="no_progress"),
        solved("ww", stop="token_budget"),
    ]
    assert only(build_ledger([read_run(write_run("self-refine-2", records))])).early_stop_rate == 0.5
    assert only(build_ledger([read_run(write_run("zero-shot", answers(1, 2, tokens=1)))])).early_stop_rate is None


def test_the_ledger_is_plain_data_and_reads_back(four: Ledger) -> None:
    """What `--json` prints holds no NaN and gives the same ledger again."""
    text = json.dumps(four.model_dump(mode="json"), allow_nan=False)
    assert Ledger.model_validate_json(text) == four


@pytest.mark.parametrize(
    ("drafts", "said"),
    [
        ("ww rr", "fixed 0 and broke 0 of 20 at 2.0× the tokens of zero-shot"),
        ("wr ww rr", "fixed 7 and broke 0 of 20 (p = 0.016) at"),
        ("wr rw rr", "fixed 7 and broke 7 of 20 (p = 1), which could be chance, at"),
        ("wr rr rr rr rr", "fixed 4 and broke 0 of 20 (p = 0.12), which could be chance, at"),
        ("rw rr rr rr rr", "fixed 0 and broke 4 of 20 (p = 0.12), so it did not help, at"),
        ("rw rw rw wr wr", "fixed 8 and broke 12 of 20 (p = 0.5), which could be chance, at"),
        ("rw", "fixed 0 and broke 20 of 20 (p < 0.001), so it did harm, at"),
    ],
)
def test_a_method_that_did_not_help_is_told_as_such(write_run: Any, drafts: str, said: str) -> None:
    """No sentence praises what could be chance, changed nothing or did harm; what 20 problems can't tell is said."""
    kinds = drafts.split()
    refined = [solved(kinds[at % len(kinds)], tokens=200) for at in range(20)]
    runs = [write_run("zero-shot", answers(10, 20, tokens=100)), write_run("self-refine-1", refined)]
    told = build_ledger(find_runs(runs)).methods[1].verdict
    assert told.startswith(f"self-refine-1 {said}")
    assert "; zero-shot at 0.5× its tokens reached 50.0% against its" in told
    settled = "p = 0.016" in said or "did" in said
    assert ("Can't tell whether it helped: 20 problems would have shown" in told) is not settled


@pytest.mark.parametrize(
    ("drafts", "said"),
    [
        ("wrw wrw wrr rrr www", "Stop after round 1: 4 → 16 of 20, then it falls to 8."),
        ("wrr wrw wrr rrr wrr", "Stop after round 1: 4 → 20 of 20, then it falls to 16, which could be chance."),
        ("wrr rrr", "Stop after round 1: 10 → 20 of 20, and no more later."),
        ("wwr wrr", "Most are right after round 2: 0 → 20 of 20."),
        ("rrw", "Stop after the first draft: 20 of 20, then it falls to 0."),
    ],
)
def test_a_verdict_names_the_round_to_stop_after(write_run: Any, drafts: str, said: str) -> None:
    """Someone who let a loop run on too long reads which round was best, and whether what came after is chance."""
    kinds = drafts.split()
    row = only(
        build_ledger([read_run(write_run("self-refine-2", [solved(kinds[at % len(kinds)]) for at in range(20)]))])
    )
    assert row.verdict.endswith(said)
    right = [row.first_draft.k, *(one.delivered.k for one in row.rounds)]
    assert right[row.best_round] == max(right)


def test_of_several_methods_each_p_is_corrected_and_both_are_shown(write_run: Any, tmp_path: Path) -> None:
    """The best of three methods looks better than it is: its p of 0.016 is 0.047 by Holm's method, without oracles."""
    for at, drafts in enumerate(("wr ww rr", "wr ww rr rr", "ww rr")):
        kinds = drafts.split()
        write_run(f"self-refine-{at + 1}", [solved(kinds[number % len(kinds)]) for number in range(20)])
    write_run("oracle-refine-1", [solved("wr", oracle=True)] * 20, oracle=True)
    ledger = build_ledger(find_runs([tmp_path]))
    rows = {row.method: row for row in ledger.methods}
    assert [rows[f"self-refine-{at}"].p_corrected for at in (1, 2, 3)] == pytest.approx([3 / 64, 0.125, 1])
    assert rows["oracle-refine-1"].p_corrected == rows["oracle-refine-1"].overall.mcnemar_p
    assert "fixed 7 and broke 0 of 20 (p = 0.016, corrected 0.047) at" in rows["self-refine-1"].verdict
    assert (
        "fixed 5 and broke 0 of 20 (p = 0.062, corrected 0.12), which could be chance," in rows["self-refine-2"].verdict
    )


def test_failed_problems_stay_in_the_denominator(write_run: Any) -> None:
    """A problem without an answer is wrong; one cut short keeps its best draft; both are counted and told."""
    records = [
        solved("r"),
        solved("", stop="failed", error="Timeout: …", is_correct=False, cost_usd=None),
        solved("wr", stop="failed", error="Timeout: …"),
        solved("r", is_correct=None),
    ]
    row = only(build_ledger([read_run(write_run("self-refine-3", records, n=6))]))
    assert (row.n, row.asked, row.failed, row.cut_short, row.accuracy.k, row.first_draft.k) == (4, 6, 1, 1, 2, 2)
    assert row.cost_usd is None
    assert row.warnings == [
        "2 of 6 problems have no result yet",
        "1 of 4 problems failed and count as wrong",
        "an error cut 1 of 4 problems short: their best draft so far counts",
        "1 answers have no verdict and count as wrong",
    ]
    assert (row.rounds[0].measured.k, row.rounds[0].measured.n) == (3, 4)
    assert row.token_ratio is None
    assert (
        "at 100 tokens a problem. Can't tell whether it helped: 4 problems would have shown no difference"
        in row.verdict
    )


def test_the_answer_is_the_best_draft_not_the_last(write_run: Any) -> None:
    """A round that breaks a draft shows in its row, though the answer is the better draft; rejected ones count."""
    row = only(build_ledger([read_run(write_run("program-2", [solved("rwx", answer="r")] * 3 + [solved("wxr")]))]))
    assert (row.overall.fixed, row.overall.broken, row.accuracy.k) == (1, 0, 4)
    assert [(one.revised.fixed, one.revised.broken, one.rejected) for one in row.rounds] == [(0, 3, 1), (1, 0, 3)]
    assert [one.measured.k for one in row.rounds] == [0, 1]
    assert row.ever_right.k == 4


def test_an_empty_run_has_a_row_without_numbers(write_run: Any) -> None:
    """A run that has only begun gives intervals from 0 to 1 and no rate, not an error or NaN."""
    ledger = build_ledger([read_run(write_run("program-3", [], n=10))])
    row = only(ledger)
    assert (row.accuracy.rate, row.accuracy.ci95, row.verdict) == (None, (0, 1), "program-3 has no results.")
    assert (row.early_stop_rate, row.accuracy_per_1000_tokens, row.cost_usd) == (None, None, None)
    assert ledger.warnings == ["sums, openai:gpt-5-mini: no baseline was run: nothing shows what the same tokens bring"]
    json.dumps(ledger.model_dump(mode="json"), allow_nan=False)


def test_only_like_is_compared_with_like(write_run: Any, tmp_path: Path) -> None:
    """Other datasets and models stand apart; labels tell runs apart; only shared problems are paired."""
    write_run("zero-shot", answers(5, 10, tokens=10), folder="a/zero-shot")
    write_run("program-1", [solved("wr", question_id=f"p{at}") for at in range(5, 15)], folder="a/program-1")
    write_run("zero-shot", answers(5, 10, tokens=10), folder="b/zero-shot", model="other")
    write_run("zero-shot", answers(5, 10, tokens=10), folder="c/zero-shot", dataset="words", dataset_sha256="cd" * 32)
    write_run("self-refine-1", [solved("wr", oracle=True)] * 10, folder="c/self")
    ledger = build_ledger(find_runs([tmp_path, tmp_path / "a"]))
    assert [row.label for row in ledger.methods] == [
        "program-1",
        "zero-shot · sums · openai:gpt-5-mini",
        "zero-shot · sums · other",
        "self-refine-1 (oracle)",
        "zero-shot · words",
    ]
    assert [len(group.methods) for group in ledger.groups] == [3, 1, 1]
    (program, _) = ledger.equal_cost
    assert (program.paired.n, program.near) == (5, False)
    assert ledger.warnings[0].endswith("its runs share 5 of 15 problems; two methods are compared on those both have")


def test_critics_are_rated_run_by_run(write_run: Any) -> None:
    """What each critic said is held against the gold answers, under the label of the method."""
    record = solved("w")
    judged = {**record["iterations_log"][0], "type": "feedback", "feedback": "fine", "by": "self", "accepted": True}
    record["iterations_log"].append(judged)
    ledger = build_ledger([read_run(write_run("self-refine-3", [record] * 4))])
    assert [(one.critic, one.method, one.false_accept.rate) for one in ledger.critics] == [("self", "self-refine-3", 1)]


@pytest.mark.slow
def test_an_acceptance_says_what_it_is_worth(write_run: Any) -> None:
    """Of the answers that each accepted, the share that is wrong; what nobody accepted is left to a person."""
    took = {"is_correct_per_feedback": True, "stop_reason": "accepted"}
    records = [
        {**solved("ww"), **took, "accepted_by": "program"},
        {**solved("r"), **took, "accepted_by": "program"},
        {**solved("r"), **took, "accepted_by": "human"},
        {**solved("w"), "is_correct_per_feedback": False, "accepted_by": None},
    ]
    numbered = [{**record, "question_id": str(number)} for number, record in enumerate(records)]
    rows = build_ledger([read_run(write_run("program-2", numbered))]).acceptance
    assert [(row.by, row.answers.k, row.wrong.k) for row in rows] == [("program", 2, 1), ("human", 1, 0), (None, 1, 1)]
    assert {row.answers.n for row in rows} == {4}
    assert not build_ledger([read_run(write_run("zero-shot", [numbered[3]]))]).acceptance


def test_the_record_of_a_real_run_is_read_as_it_was_played(write_run: Any) -> None:
    """From the loop itself: a wrong draft is rejected, a revision fixes it, and the judge made no error."""
    from redraft.evals.run.result_record import result_record
    from redraft.graphs.math_problems import build_math_graph
    from redraft.models import ScriptedModel
    from redraft.nodes.verify.numeric_answers import extract_number, same_number

    question = "Ann has 2 bags of 3 nuts and eats one nut. How many are left?"
    replies = ["2 * 3 = 6\n#### 6", "One nut was eaten.", "6 - 1 = 5\n#### 5", "SOLUTION_IS_CORRECT"]
    model = ScriptedModel([{"text": reply, "input_tokens": 10, "output_tokens": 5} for reply in replies])
    output = build_math_graph(model, critic="self").invoke({"task": question, "limits": {"max_rounds": 2}})
    record = result_record(
        output,
        question_id="nuts",
        question=question,
        read_answer=extract_number,
        is_correct=lambda solution: same_number(extract_number(solution), "5"),
    )
    folder = write_run("self-refine-2", [record.model_dump()], limits={"max_rounds": 2})
    ledger = build_ledger([read_run(folder)])
    row, (judge,) = only(ledger), ledger.critics
    assert (row.overall.fixed, row.overall.n, row.tokens, row.early_stop_rate, len(row.rounds)) == (1, 1, 60, 1, 1)
    assert (row.rates.accept_right.k, row.rates.accept_wrong.k, row.rates.fixed.k) == (1, 0, 1)
    assert (judge.critic, judge.right, judge.wrong, judge.unreadable) == ("self", 1, 1, 0)
    assert (judge.false_accept.k, judge.false_reject.k) == (0, 0)


def test_a_run_that_is_being_written_can_be_read(write_run: Any) -> None:
    """A line that is not whole yet is left out and told; other faults are errors that name file and line."""
    folder = write_run("zero-shot", answers(2, 4, tokens=10))
    results = folder / "results.jsonl"
    whole = results.read_text(encoding="utf-8")
    results.write_text(whole[:-20], encoding="utf-8")
    row = only(build_ledger([read_run(folder)]))
    assert (row.n, row.warnings[0]) == (
        3,
        "the results end within a line, which is left out: resume the run to mend it",
    )
    results.write_text(whole + whole.splitlines()[1] + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"results.jsonl, line 5: the problem 'p1' has a result already"):
        read_run(folder)
    results.write_text("{}\n" + whole, encoding="utf-8")
    with pytest.raises(ValueError, match=r"results.jsonl, line 1: question_id: Field required"):
        read_run(folder)


def test_folders_without_runs_are_told(write_run: Any, tmp_path: Path) -> None:
    """A wrong folder, a missing or foreign run.json, no runs at all, and results without labels are named."""
    with pytest.raises(FileNotFoundError, match="no run in"):
        find_runs([tmp_path])
    with pytest.raises(ValueError, match="at least one run"):
        build_ledger([])
    folder = write_run("zero-shot", [solved("r", is_correct=None)])
    with pytest.raises(ValueError, match="a ledger needs gold answers"):
        build_ledger([read_run(folder)])
    (folder / "run.json").write_text('{"method": "zero-shot", "format": 1}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"run.json: dataset: Field required"):
        read_run(folder)
    (folder / "run.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"it has no run.json"):
        read_run(folder)


@pytest.mark.parametrize("method", METHODS)
def test_baselines_are_those_that_the_methods_name(method: str) -> None:
    """Nothing that refines on feedback passes as a baseline, and the other way round."""
    assert is_baseline(method.replace("-N", "-5")) == KINDS[method].baseline


def test_the_ledger_needs_no_langgraph(tmp_path: Path) -> None:
    """A report is ready without the seconds that importing langgraph or the statistics takes."""
    import subprocess

    code = (
        "import sys, redraft.evals.analysis.ledger, redraft.evals.analysis.comparison\n"
        "heavy = ('langgraph', 'langchain_core', 'scipy', 'statsmodels', 'numpy')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(not YELP.exists(), reason="needs ../shared/data beside the checkout")
def test_the_published_traces_give_the_published_figures(write_run: Any) -> None:
    """Self-Refine's recorded reviews: 363 first, 420 last, 431 any, fixed 62, broken 5."""
    traces: dict[int, str] = defaultdict(str)
    for line in YELP.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        said = row["transferred_review_sentiment"].rpartition("sentiment is ")[2].strip().lower().removesuffix(".")
        traces[row["record_id"]] += "r" if said == "very positive" else "w"
    row = only(build_ledger([read_run(write_run("self-refine-3", [solved(rights) for rights in traces.values()]))]))
    assert (row.n, row.first_draft.k, row.accuracy.k, row.ever_right.k) == (431, 363, 420, 431)
    assert (row.overall.fixed, row.overall.broken) == (62, 5)
    assert row.rounds[-1].measured.k == 420
