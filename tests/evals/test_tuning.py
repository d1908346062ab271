"""Tuned prompts: better on rows that tuning never saw, within the budget, and without a gold answer in any prompt.

As a program it tunes, and dies in the call that it is told: `test_tuning.py FOLDER CALL`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redraft.evals.datasets.dataset import Dataset, Problem
from redraft.evals.tuning.tuning import split_rows, tune_prompts
from redraft.models import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("gepa", reason="the extra tune is not installed")

GOLD = 7_351_000
GOLDS = [GOLD + n if n % 5 == 0 else n + 1 for n in range(14)]
"""Of sums, of which every fifth has a gold answer that no model ever comes to."""
ROWS = Dataset(
    "sums",
    "numeric",
    "0" * 64,
    tuple(Problem(f"sum-{n}", f"What is {n} + 1?", Decimal(gold)) for n, gold in enumerate(GOLDS)),
)


def task_reply(messages: Any) -> str:
    """Add right only where the prompt says how; judge by whether it did."""
    text = "\n".join(str(message.text) for message in messages)
    right = int(re.findall(r"What is (\d+) \+ 1\?", text)[-1]) + 1
    if "SOLUTION_IS_CORRECT" in text:
        return "SOLUTION_IS_CORRECT" if f"#### {right}" in text else "The one was not carried."
    return f"#### {right if 'CARRY' in text else right + 1}"


def better(messages: Any) -> str:
    """Propose what the critic asked for, for a prompt that writes."""
    text = messages[-1].text
    if "named generate" in text:
        return "```\nCARRY the one.\n{task}\n```"
    if "named refine" in text:
        return "Here:\n```\nCARRY the one.\n{task}\n{history}\n{draft}\n{feedback}\n```"
    return "I would leave it."


def tuned(
    folder: Path, *, budget: int = 200_000, reflect: Callable[[Any], str] = better, deadly: int = 0, **more: Any
) -> tuple[dict[str, Any], ScriptedModel, ScriptedModel]:
    """Tune self-refine-1; the process dies in the call with the number `deadly`, of both models together."""
    calls = 0

    def counted(reply: Callable[[Any], str]) -> Callable[[Any], str]:
        def answer(messages: Any) -> str:
            nonlocal calls
            calls += 1
            if calls == deadly:
                os._exit(9)
            return reply(messages)

        return answer

    model = ScriptedModel([counted(task_reply)] * 2_000)
    reflecting = ScriptedModel([counted(reflect)] * 500)
    options = {"method": "self-refine-1", "train": 4, "validation": 4, "concurrency": 1, "seed": 18, **more}
    found = tune_prompts(ROWS, folder, model=model, reflection_model=reflecting, budget_tokens=budget, **options)
    return found, model, reflecting


def texts(*models: ScriptedModel) -> list[str]:
    return ["\n".join(str(message.text) for message in call) for model in models for call in model.calls]


def paid(folder: Path) -> list[int]:
    """Return the tokens of each call that was answered."""
    return [json.loads(line)["tokens"] for line in (folder / "calls.jsonl").read_text().splitlines()]


def test_better_prompts_are_found_and_hold_on_rows_never_seen(tmp_path: Path) -> None:
    """Tuned prompts solve rows never seen that the untuned ones fail; no prompt holds a gold answer or such a row."""
    found, model, reflecting = tuned(tmp_path)
    assert "CARRY" in found["prompts"]["generate"]
    held = found["held_out"]
    solvable = sum(int(name.removeprefix("sum-")) % 5 != 0 for name in found["split"]["held_out"])
    assert (held["n"], held["broken"], held["before"], held["fixed"]) == (6, 0, 0.0, solvable)
    assert held["equal_cost"]
    assert found["validation"]["tuned"]["k"] > found["validation"]["untuned"]["k"] == 0
    assert any(one["chosen"] and one["candidate"] > 0 for one in found["pareto"])
    assert not any(str(GOLD)[:4] in text for text in texts(model, reflecting))
    assert "The one was not carried." in texts(reflecting)[0]
    told = {problem.task for problem in ROWS.problems if problem.id in found["split"]["train"]}
    assert {task for text in texts(reflecting) for task in re.findall(r"What is \d+ \+ 1\?", text)} <= told
    assert found["spent_tokens"]["all"] == sum(paid(tmp_path)) <= found["budget_tokens"]


def test_a_killed_run_goes_on_and_pays_nothing_twice(forking: Any, tmp_path: Path) -> None:
    """Killed in a trial, a proposal or the report, a run ends as one left alone; only the cut call is made again."""
    whole, model, reflecting = tuned(tmp_path / "whole")
    count = len(model.calls) + len(reflecting.calls)
    lines = (tmp_path / "whole" / "calls.jsonl").read_text().splitlines()
    proposed = next(number for number, line in enumerate(lines, 1) if "reflection/" in line)
    for deadly in (5, proposed, proposed + 2, count):
        folder = tmp_path / str(deadly)
        assert forking.start([__file__, folder, str(deadly)]).wait(300) == 9
        found, model, reflecting = tuned(folder)
        assert found == whole, deadly
        assert len(model.calls) + len(reflecting.calls) == count - deadly + 1, deadly
        assert paid(folder) == paid(tmp_path / "whole")


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_spent_budget_starts_no_call(share: float, tmp_path: Path) -> None:
    """A run ends within its budget but for the call in flight, says so, and one with more tokens goes on from there."""
    whole, *_ = tuned(tmp_path / "whole")
    budget = round(share * whole["spent_tokens"]["all"])
    found, *_ = tuned(tmp_path / "less", budget=budget)
    tokens = paid(tmp_path / "less")
    assert sum(tokens[:-1]) < budget
    # The better prompt is used only where it was measured on all validation rows.
    assert ("CARRY" in found["prompts"]["generate"]) == (found["candidates"] > 1)
    assert found["held_out"] is None or found["held_out"]["n"] <= found["held_out"]["rows"]
    more, *_ = tuned(tmp_path / "less", budget=200_000)
    assert (more["prompts"], more["held_out"]) == (whole["prompts"], whole["held_out"])
    assert len(paid(tmp_path / "less")) == len(paid(tmp_path / "whole"))


@pytest.mark.parametrize(
    ("proposal", "why"),
    [
        ("```\nCARRY the one.\n```", "lacks {task}"),
        ("```\n{task}\n```", "no instruction"),
        ("```\nCARRY the {digit} of {task}\n```", "unknown variables ['digit']"),
        ("```\nCARRY {task} {task.__class__}\n```", ""),
        ("```\nCARRY. " + " ".join(one.task for one in ROWS.problems) + " {task}\n```", "a task that it was shown"),
        ("```\n" + "CARRY " * 2_000 + "{task}\n```", "characters"),
    ],
)
def test_a_proposal_that_breaks_its_template_is_refused_and_never_run(proposal: str, why: str, tmp_path: Path) -> None:
    """The reflection model hears why its prompt is refused; no problem is run with it, and the untuned ones stay."""
    found, model, reflecting = tuned(tmp_path, budget=40_000, reflect=lambda _: proposal)
    assert not any("CARRY" in text for text in texts(model))
    assert (found["changed"], found["candidates"], found["held_out"]) == ([], 1, None)
    assert all(why in one["why"] for one in found["refused"] if one["prompt"] == "generate")
    assert found["refused"]
    assert sum("It was refused" in text for text in texts(reflecting)) >= len(texts(reflecting)) // 2


def test_a_reflection_model_that_fails_ends_the_run_and_costs_nothing_twice(tmp_path: Path) -> None:
    """Its error is told at once, in place of a search without proposals; the same run goes on when it answers again."""

    def broken(_: Any) -> str:
        raise ConnectionError("the server is gone")

    with pytest.raises(ConnectionError, match="the server is gone"):
        tuned(tmp_path, reflect=broken)
    before = paid(tmp_path)
    found, *_ = tuned(tmp_path)
    assert found["changed"] == ["generate"]
    assert paid(tmp_path)[: len(before)] == before


def test_rows_of_the_parts_share_no_task_and_another_run_is_refused(tmp_path: Path) -> None:
    """A task that stands twice in a file is in one part only; a folder goes on with the same arguments alone."""
    twice = Dataset(
        "sums",
        "numeric",
        "0" * 64,
        ROWS.problems + tuple(Problem(f"again-{one.id}", one.task, one.gold) for one in ROWS.problems),
    )
    split = split_rows(twice)
    tasks = [one.task for rows in vars(split).values() for one in rows]
    assert len(set(tasks)) == len(tasks) == len(ROWS.problems)
    tuned(tmp_path)
    with pytest.raises(ValueError, match="holds another run: seed, split differ"):
        tuned(tmp_path, seed=4)
    with pytest.raises(ValueError, match="knows the gold answers"):
        tuned(tmp_path / "other", method="oracle-refine-1")


if __name__ == "__main__":
    tuned(Path(sys.argv[1]), deadly=int(sys.argv[2]))
