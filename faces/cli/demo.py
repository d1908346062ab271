"""`redraft demo`. Internal.

Six small tasks refined live on the embedded model, and an honest table of what came of them.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..problems import bad_input, command
from ..views.console import plain_table
from ..views.wording import amount, money, reason_style, score_of, seconds
from .running import run_graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..views.console import Screen

__all__ = ["DEMO_REFINE_PROMPT", "DemoTask", "demo_tasks", "run_demo"]

TEMPERATURE = 0.7
MAX_ROUNDS = 3

DEMO_REFINE_PROMPT = """\
(Try {round}. {feedback})

{task}"""
"""For a model of 135M parameters: shown its draft, it copies it. The round is named so that, with a fixed seed, the
same feedback twice does not give the same reply twice."""


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
    """Whether the answer is the known one; `None` where a verifier alone decides."""


def demo_tasks() -> list[DemoTask]:
    """Return the bundled tasks."""
    text = files(__package__).joinpath("demo_tasks.jsonl").read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.splitlines()]
    return [DemoTask(**{**one, "verifiers": tuple(one["verifiers"])}) for one in found]


def run_demo(saver: Any, *, model: str, screen: Screen, db: str) -> list[DemoResult]:
    """Refine every bundled task, printing each round as it happens, and return what came of them."""
    results = []
    tasks = demo_tasks()
    names = _free_names(saver, [task.name for task in tasks])
    for number, (task, thread_id) in enumerate(zip(tasks, names, strict=True), start=1):
        screen.line("")
        screen.line(
            (f"{number}/{len(tasks)} {thread_id}", "bold"), ("  checked by " + ", ".join(task.verifiers), "dim")
        )
        screen.block(task.title or task.task, indent=2)
        results.append(_refined(saver, task, thread_id=thread_id, model=model, screen=screen, db=db))
        if results[-1].right is not None:
            said = "right" if results[-1].right else f"wrong: {task.answer} expected"
            screen.line(("  the known answer, looked up after the run: ", "dim"), said)
    return results


def show_results(screen: Screen, results: Sequence[DemoResult], *, db: str) -> None:
    """Print the table of tasks, one plain sentence, and what to do next."""
    from rich.text import Text

    numbers = ("rounds", "score", "tokens", "seconds")
    table = plain_table("thread", "stopped", *numbers, "answer", right=numbers)
    for one in results:
        answer = {True: Text("right", "green"), None: Text("–", "dim")}.get(one.right)
        table.add_row(
            Text(one.thread_id, "bold"),
            Text(one.stop_reason or "unfinished", reason_style(one.stop_reason)),
            str(one.rounds),
            score_of(one.score),
            f"{one.total_tokens:,}",
            f"{one.seconds:.1f}",
            answer if answer is not None else Text(f"wrong: {one.expected} expected", "red"),
        )
    screen.line("")
    screen.put(table)
    screen.line("")
    screen.line(in_a_sentence(results))
    costs = [one.cost_usd for one in results]
    cost = None if None in costs else sum(cost for cost in costs if cost is not None)
    tokens = amount(sum(one.total_tokens for one in results), "token")
    screen.line((f"{tokens} · {money(cost)} · {seconds(sum(one.seconds for one in results))}", "dim"))
    if db != "memory":
        _say_what_next(screen, results, db=db)


def in_a_sentence(results: Sequence[DemoResult]) -> str:
    """Return what came of the tasks, failures included, in plain words."""
    accepted = [one for one in results if one.stop_reason == "accepted"]
    mended = sum(one.rounds > 0 for one in accepted)
    parts = [f"{len(accepted)} of {len(results)} tasks were accepted, {mended} of them after a revision"]
    if left := len(results) - len(accepted):
        parts.append(f"{left} that no program accepted {'is' if left == 1 else 'are'} shown as they are")
    if fooled := sum(one.right is False for one in accepted):
        parts.append(f"{fooled} accepted {'answer is' if fooled == 1 else 'answers are'} wrong all the same")
    return "; ".join(parts) + "."


def _ends_in(text: str, expected: str) -> bool:
    """Return whether the last line of a worked solution gives this number."""
    from ...nodes.verify.numeric_answers import same_number

    lines = text.strip().splitlines() or [""]
    return same_number(lines[-1], expected)


def results_data(results: Sequence[DemoResult]) -> dict[str, Any]:
    """Return the results as JSON holds them."""
    return {"tasks": [asdict(one) for one in results], "summary": in_a_sentence(results)}


def _refined(saver: Any, task: DemoTask, *, thread_id: str, model: str, screen: Screen, db: str) -> DemoResult:
    from ...state.limits import Limits
    from ..run_config import RunConfig

    recipe = RunConfig.given(
        model=model,
        verifiers=task.verifiers,
        temperature=TEMPERATURE,
        seed=task.seed,
        max_output_tokens=task.max_output_tokens,
        refine_prompt=DEMO_REFINE_PROMPT,
        memory="last",
    )
    with bad_input():
        graph = recipe.build(saver)
    given = {"task": task.task, "limits": Limits(max_rounds=MAX_ROUNDS)}
    values = run_graph(graph, given, thread_id=thread_id, recipe=recipe, screen=screen, db=db)
    usage = values["usage"]
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
        right=None if task.answer is None else _ends_in(values["answer"], task.answer),
    )


def _free_names(saver: Any, names: list[str]) -> list[str]:
    """Return the names as they are, or all with the same fresh ending where the database has one of them already."""
    if all(saver.runs.get(name) is None for name in names):
        return names
    ending = secrets.token_hex(2)
    return [f"{name}-{ending}" for name in names]


def _say_what_next(screen: Screen, results: Sequence[DemoResult], *, db: str) -> None:
    shown = max(results, key=lambda one: one.rounds).thread_id
    lines = (
        ("look at a run, step by step", command("history", shown, db=db)),
        (
            "fork it with feedback of your own",
            command("fork", shown, "--at", "0", "--feedback", "Make it rhyme.", "--run", db=db),
        ),
        ("use a model of your own", command("run", "Write …", "--model", "openai:gpt-5-mini", db=db)),
    )
    screen.line("")
    for what, typed in lines:
        screen.line((f"{what}:", "dim"))
        screen.line((typed, "cyan"), indent=2)
