"""Running a method on a dataset: every problem has one result, whatever happens in between."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from redraft.evals.run.methods import build_method
from redraft.evals.run.result_record import ResultRecord
from redraft.evals.run.run_folder import ResultFile, check_same_run, read_results, write_run_info
from redraft.evals.run.runner import GivenUpError, RateLimits, run_method
from redraft.models import ScriptedModel, chat_model
from redraft.state import open_checkpointer

if TYPE_CHECKING:
    from pathlib import Path

    from redraft.evals.datasets.dataset import Dataset


def run(data: Dataset, model: Any, folder: Path, method: str = "zero-shot", **options: Any) -> dict[str, ResultRecord]:
    """Run a method with a SQLite file for its checkpoints, and return the records."""

    async def go() -> None:
        async with open_checkpointer(str(folder / "runs.sqlite")) as saver:
            built = build_method(method, data.kind, model, checkpointer=saver)
            with ResultFile(folder / "results.jsonl") as results:
                await run_method(built, data, results, run_id="r", **options)

    asyncio.run(go())
    return read_results(folder / "results.jsonl")


def test_every_problem_gets_a_result_that_fits_the_schema(sums: Dataset, right: Any, tmp_path: Path) -> None:
    """Six problems are six lines, each a whole record with what was asked, answered and paid."""
    seen: list[int] = []
    model = ScriptedModel([right] * 6)
    records = run(sums, model, tmp_path, concurrency=3, on_progress=lambda progress, _: seen.append(progress.done))
    assert sorted(records) == [f"sum-{number}" for number in range(6)]
    assert all(record.is_correct and record.num_iterations == 0 and record.error is None for record in records.values())
    assert records["sum-4"].predicted_answer == "5"
    assert seen == [0, 1, 2, 3, 4, 5, 6]
    for line in (tmp_path / "results.jsonl").read_text().splitlines():
        assert set(json.loads(line)) == set(ResultRecord.model_fields)


def test_finished_problems_are_not_run_again(sums: Dataset, right: Any, tmp_path: Path) -> None:
    """A second start asks for nothing that has a result, and leaves the file as it is."""
    run(sums, ScriptedModel([right] * 6), tmp_path)
    before = (tmp_path / "results.jsonl").read_bytes()
    idle = ScriptedModel([])
    assert len(run(sums, idle, tmp_path)) == 6
    assert (len(idle.calls), (tmp_path / "results.jsonl").read_bytes()) == (0, before)


@pytest.mark.parametrize("torn", [b'{"question_id": "sum-5", "quest', b"\xff\xfe{", b'{"question_id"'])
def test_a_torn_line_is_cut_off_and_its_problem_is_not_paid_twice(
    sums: Dataset, right: Any, tmp_path: Path, torn: bytes
) -> None:
    """A line that a killed process left unfinished goes; the thread still has the answer, so nobody is asked again."""
    run(sums, ScriptedModel([right] * 6), tmp_path)
    path = tmp_path / "results.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + torn)
    idle = ScriptedModel([])
    assert len(run(sums, idle, tmp_path)) == 6
    assert len(idle.calls) == 0
    assert sorted(path.read_bytes().splitlines(keepends=True)) == sorted(lines)


def test_half_run_problems_go_on_and_their_usage_adds_up(sums: Dataset, tmp_path: Path) -> None:
    """A run cancelled in mid-problem goes on from the checkpoint: no call is paid twice, and all are counted."""
    one = sums.sample(1)
    reached = asyncio.Event()

    class Stalls(ScriptedModel):
        async def _agenerate(self, messages: Any, *rest: Any, **given: Any) -> Any:
            if self.calls:
                reached.set()
                await asyncio.Event().wait()
            return await super()._agenerate(messages, *rest, **given)

    async def cancelled() -> None:
        async with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
            method = build_method("self-refine-1", "numeric", Stalls(["#### 9"]), checkpointer=saver)
            with ResultFile(tmp_path / "results.jsonl") as results:
                running = asyncio.create_task(run_method(method, one, results, run_id="r"))
                await reached.wait()
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running

    asyncio.run(cancelled())
    assert read_results(tmp_path / "results.jsonl") == {}
    model = ScriptedModel(["0 + 1 is 1", "#### 1", "SOLUTION_IS_CORRECT"])
    (record,) = run(one, model, tmp_path, "self-refine-1").values()
    assert (record.is_correct, record.num_iterations, len(model.calls)) == (True, 1, 3)
    assert [step.type for step in record.iterations_log] == [
        "initial_generation", "feedback", "refinement", "feedback",
    ]  # fmt: skip
    assert all(step.tokens_used > 0 for step in record.iterations_log)


def test_a_problem_that_fails_is_wrong_and_stays_in_the_denominator(sums: Dataset, right: Any, tmp_path: Path) -> None:
    """A response that can't be used is logged with the reason, counted as wrong, and not dropped."""
    replies = [right, ValueError("no such thing"), right, {"text": "", "output_tokens": 9}, right, right]
    records = run(sums, ScriptedModel(replies), tmp_path, concurrency=1)
    failed = {name: record.error for name, record in records.items() if record.error}
    assert len(records) == 6
    assert sum(bool(record.is_correct) for record in records.values()) == 4
    assert failed["sum-1"] == "ValueError: no such thing"
    assert "came back empty" in str(failed["sum-3"])
    assert (records["sum-1"].total_tokens, records["sum-3"].total_tokens > 9) == (0, True)


def test_failed_problems_are_run_again_on_demand(sums: Dataset, right: Any, tmp_path: Path) -> None:
    """What failed can be taken out of the results and run again; what succeeded stays as it is."""
    run(sums, ScriptedModel([right, OSError("lost"), right, right, right, right]), tmp_path, concurrency=1)
    with ResultFile(tmp_path / "results.jsonl") as results:
        assert results.drop(lambda record: record.error is not None) == 1
    model = ScriptedModel([right])
    records = run(sums, model, tmp_path)
    assert (len(model.calls), records["sum-1"].is_correct) == (1, True)


def test_a_model_that_is_not_there_ends_the_run_early(sums: Dataset, tmp_path: Path) -> None:
    """When the first problems all fail the rest is not tried, and the message says why."""
    model = ScriptedModel([ConnectionError("refused")] * 6)
    with pytest.raises(GivenUpError, match=r"the first 5 problems all failed.*refused"):
        run(sums, model, tmp_path, concurrency=1)
    assert len(read_results(tmp_path / "results.jsonl")) == 5


def test_so_many_are_worked_on_at_once_and_no_more(sums: Dataset, tmp_path: Path) -> None:
    """With concurrency 2 two problems are under way together, and never three."""
    now, most = 0, 0
    both = asyncio.Barrier(2)  # passes only when two are under way

    class Counts(ScriptedModel):
        async def _agenerate(self, messages: Any, *rest: Any, **given: Any) -> Any:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.wait_for(both.wait(), 20)
            now -= 1
            return await super()._agenerate(messages, *rest, **given)

    run(sums, Counts(["#### 1"] * 6), tmp_path, concurrency=2)
    assert most == 2
    with pytest.raises(ValueError, match="concurrency must be a whole number from 1 up"):
        run(sums, ScriptedModel([]), tmp_path, concurrency=0)


def test_gold_answers_reach_no_checkpoint(sums: Dataset, right: Any, tmp_path: Path) -> None:
    """Nothing that a run stores beside its results holds a gold answer."""
    from dataclasses import replace

    marked = replace(sums, problems=tuple(replace(one, gold=Decimal(31415926)) for one in sums.problems))
    records = run(marked, ScriptedModel([right] * 6), tmp_path)
    assert {record.ground_truth for record in records.values()} == {"31415926"}
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("runs.sqlite*"))
    assert b"31415926" not in stored


def test_a_record_is_never_written_twice(sums: Dataset, right: Any, tmp_path: Path) -> None:
    """A second record of the same problem is refused, also after the file was opened anew."""
    records = list(run(sums, ScriptedModel([right] * 6), tmp_path).values())
    with ResultFile(tmp_path / "results.jsonl") as results:
        assert not results.add(records[0])
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 6


@pytest.mark.parametrize(
    ("line", "says"),
    [("nonsense\n", "line 2: .*JSON"), ('{"question_id": "x"}\n', "line 2: question: Field required")],
)
def test_a_spoilt_line_in_the_middle_is_named(sums: Dataset, right: Any, tmp_path: Path, line: str, says: str) -> None:
    """A file that somebody edited is not silently mended: the message gives the line and what is wrong there."""
    run(sums, ScriptedModel([right] * 6), tmp_path)
    path = tmp_path / "results.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], line, *lines[1:]]))
    with pytest.raises(ValueError, match=says):
        run(sums, ScriptedModel([]), tmp_path)


def test_one_command_at_a_time_writes_a_run(sums: Dataset, right: Any, tmp_path: Path) -> None:
    """The same command typed twice: the second says so and pays nothing; a killed one is in nobody's way."""
    code = f"""if True:
        from pathlib import Path
        from redraft.evals.run.run_folder import ResultFile
        with ResultFile(Path({str(tmp_path)!r}) / "results.jsonl") as results:
            results.drop(lambda record: True)
            print("open", flush=True)
            input()
    """
    run(sums, ScriptedModel([right] * 6), tmp_path)
    idle = ScriptedModel([])
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(RuntimeError, match=r"another command is at work on the run in .*wait for its end or stop"):
            run(sums, idle, tmp_path)
        other.kill()
    assert not idle.calls
    assert len(run(sums, idle, tmp_path)) == 6  # from the checkpoints


def test_a_run_is_resumed_only_as_it_began(tmp_path: Path) -> None:
    """Going on with another model or other prompts would mix two runs: it is refused, and what differs is named."""
    info = {"method": "zero-shot", "model": "a", "dataset": "d", "limits": {}, "seed": None}
    write_run_info(tmp_path, info)
    check_same_run(tmp_path, info)
    with pytest.raises(ValueError, match=r"another model \('a', now 'b'\)"):
        check_same_run(tmp_path, {**info, "model": "b"})


def test_rate_limits_make_calls_wait_their_turn(sums: Dataset, serve: Any, tmp_path: Path) -> None:
    """Two requests are let through at once and the next ones wait: a minute is not over in this test."""
    pytest.importorskip("aiolimiter")
    server = serve(lambda request: "#### 1")
    limits = RateLimits(rpm=2)

    async def go() -> None:
        async with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
            method = build_method("zero-shot", "numeric", chat_model(server.spec), checkpointer=saver)
            with ResultFile(tmp_path / "results.jsonl") as results:
                two = asyncio.Event()

                def seen(progress: Any, _: Any) -> None:
                    if progress.done == 2:
                        two.set()

                running = asyncio.create_task(
                    run_method(method, sums, results, run_id="r", concurrency=6, rate_limits=limits, on_progress=seen)
                )
                await two.wait()
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running

    asyncio.run(go())
    assert len(server.requests) == 2


def test_tokens_above_the_rate_delay_the_next_call() -> None:
    """A call that used up the minute's tokens leaves none for the next, which has to wait."""
    pytest.importorskip("aiolimiter")
    from redraft.evals.run.runner import RATE_LIMITS

    async def go() -> int:
        model = ScriptedModel([{"text": "a", "input_tokens": 60, "output_tokens": 40}] * 3)
        RATE_LIMITS.set(RateLimits(tpm=100))
        await model.ainvoke("one")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(model.ainvoke("two"), 0.05)
        return len(model.calls)

    assert asyncio.run(go()) == 2


@pytest.mark.parametrize("rates", [{"rpm": 0}, {"tpm": -1}])
def test_a_rate_that_makes_no_sense_is_refused(rates: Any) -> None:
    """A rate of 0 would wait for ever, and is named."""
    pytest.importorskip("aiolimiter")
    with pytest.raises(ValueError, match="must be above 0"):
        RateLimits(**rates)
