"""`redraft demo`. Internal.

Six small tasks refined live on the embedded model, and an honest table of what came of them.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from rich.text import Text

from ..problems import bad_input, command
from ..views.console import Screen, plain_table
from ..views.timeline import stop_text
from ..views.wording import amount, money, score_of, seconds
from .running import run_graph

__all__ = ["DemoTask", "demo_tasks", "in_a_sentence", "run_demo", "show_results"]

TEMPERATURE = 0.7
MAX_ROUNDS = 5
"""As many as the ladder has rungs."""


@dataclass(frozen=True, kw_only=True)
class DemoTask:
    """One bundled task.

    `answer` is known here only: it is compared after the run, and is in no prompt and no state.
    """

    name: str
    task: str
    verifiers: tuple[str, ...]
    seed: int
    max_output_tokens: int
    title: str = ""
    answer: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the loop. A model of 135M parameters goes on with a row of worked problems, and another sentence among them
    would break it, so those are not told what the check wants, and have a refine prompt of their own."""


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """Result of one task."""

    thread_id: str
    title: str
    answer: str
    stop_reason: str | None
    rounds: int
    score: float | None
    total_tokens: int
    cost_usd: float | None
    seconds: float
    expected: str | None
    right: bool | None
    """True if the answer is the known one; `None` where a verifier alone decides."""


def demo_tasks() -> list[DemoTask]:
    """Return the bundled tasks."""
    text = files(__package__).joinpath("demo_tasks.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    return [DemoTask(**{**row, "verifiers": tuple(row["verifiers"])}) for row in rows]


def run_demo(saver: Any, *, model: str, screen: Screen, db: str) -> list[DemoResult]:
    """Refine every bundled task, printing each round as it happens, and return what came of them."""
    results = []
    tasks = demo_tasks()
    # All with the same fresh ending where the database has one of them already.
    ending = f"-{secrets.token_hex(2)}" if any(saver.runs.get(task.name) for task in tasks) else ""
    for number, task in enumerate(tasks, start=1):
        thread_id = f"{task.name}{ending}"
        screen.line("")
        screen.line(
            (f"{number}/{len(tasks)} {thread_id}", "bold"), ("  checked by " + ", ".join(task.verifiers), "dim")
        )
        screen.block(task.title or task.task, indent=2)
        results.append(_refined(saver, task, thread_id=thread_id, model=model, screen=screen, db=db))
        if results[-1].right is not None:
            verdict = "right" if results[-1].right else f"wrong: {task.answer} expected"
            screen.line(("  the known answer, looked up after the run: ", "dim"), verdict)
    return results


def show_results(screen: Screen, results: Sequence[DemoResult], *, db: str) -> None:
    """Print the table of tasks, one plain sentence, and what to do next."""
    numbers = ("rounds", "score", "tokens", "seconds")
    table = plain_table("thread", "stopped", *numbers, "answer", right=numbers)
    for result in results:
        answer = {True: Text("right", "green"), None: Text("–", "dim")}.get(result.right)
        table.add_row(
            Text(result.thread_id, "bold"),
            stop_text(result.stop_reason),
            str(result.rounds),
            score_of(result.score),
            f"{result.total_tokens:,}",
            f"{result.seconds:.1f}",
            answer if answer is not None else Text(f"wrong: {result.expected} expected", "red"),
        )
    screen.line("")
    screen.put(table)
    screen.line("")
    screen.line(in_a_sentence(results))
    costs = [result.cost_usd for result in results]
    cost = None if None in costs else sum(cost for cost in costs if cost is not None)
    tokens = amount(sum(result.total_tokens for result in results), "token")
    screen.line((f"{tokens} · {money(cost)} · {seconds(sum(result.seconds for result in results))}", "dim"))
    if db == "memory":
        return
    thread_id = max(results, key=lambda result: result.rounds).thread_id
    following = {
        "look at a run, step by step": command("history", thread_id, db=db),
        "fork it with feedback of your own": command(
            "fork", thread_id, "--at", "0", "--feedback", "Make it rhyme.", "--run", db=db
        ),
        "use a model of your own": command("run", "Write …", "--model", "openai:gpt-5-mini", db=db),
    }
    screen.line("")
    for what, typed in following.items():
        screen.line((f"{what}:", "dim"))
        screen.line((typed, "cyan"), indent=2)


def in_a_sentence(results: Sequence[DemoResult]) -> str:
    """Sum up the results in one plain sentence, failures included."""
    accepted = [result for result in results if result.stop_reason == "accepted"]
    mended = sum(result.rounds > 0 for result in accepted)
    parts = [f"{len(accepted)} of {len(results)} tasks were accepted, {mended} of them after a revision"]
    if left := len(results) - len(accepted):
        parts.append(f"{left} that no program accepted {'is shown as it is' if left == 1 else 'are shown as they are'}")
    if fooled := sum(result.right is False for result in accepted):
        parts.append(f"{fooled} accepted {'answer is' if fooled == 1 else 'answers are'} wrong all the same")
    return "; ".join(parts) + "."


def _refined(saver: Any, task: DemoTask, *, thread_id: str, model: str, screen: Screen, db: str) -> DemoResult:
    from ...nodes.verify.numeric_answers import same_number
    from ...state.limits import Limits
    from ..run_config import RunConfig

    recipe = RunConfig.given(
        model=model,
        verifiers=task.verifiers,
        temperature=TEMPERATURE,
        seed=task.seed,
        max_output_tokens=task.max_output_tokens,
        **task.options,
    )
    with bad_input():
        graph = recipe.build(saver)
    task_input = {"task": task.task, "limits": Limits(max_rounds=MAX_ROUNDS)}
    values, _ = run_graph(graph, task_input, thread_id=thread_id, recipe=recipe, screen=screen, db=db)
    usage, lines = values["usage"], values["answer"].strip().splitlines() or [""]
    return DemoResult(
        thread_id=thread_id,
        title=task.title or task.task,
        answer=values["answer"],
        stop_reason=values["stop_reason"],
        rounds=values["rounds"],
        score=values["score"],
        total_tokens=usage["total_tokens"],
        cost_usd=usage["cost_usd"],
        seconds=usage["seconds"],
        expected=task.answer,
        right=None if task.answer is None else same_number(lines[-1], task.answer),
    )
