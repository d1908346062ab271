"""Command `pipeline`: steps in the pipe language, and the view of a self-critique. Internal."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..problems import DEFAULT_DB, BadInputError, bad_input
from ..views.wording import score_of
from .options import (
    MODELS,
    AsJson,
    CostBudget,
    Db,
    MaxOutputTokens,
    Model,
    Prices,
    Temperature,
    TimeBudget,
    TokenBudget,
    given_limits,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..views.console import Screen

__all__ = ["pipeline"]


def pipeline(
    steps: Annotated[
        str, typer.Argument(metavar="PIPELINE", help="Steps with | between them, in quotes for the shell.")
    ],
    model: Model = None,
    critic: Annotated[
        str | None, typer.Option(metavar="SPEC", help="A model that criticises.", rich_help_panel=MODELS)
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="SCORE", min=0, max=1, help="Score, 0–1, from which a loop stops early."),
    ] = None,
    passages: Annotated[int, typer.Option(metavar="K", min=1, help="Passages looked up for a query, at most.")] = 4,
    temperature: Temperature = None,
    max_output_tokens: MaxOutputTokens = None,
    prices: Prices = None,
    token_budget: TokenBudget = None,
    time_budget: TimeBudget = None,
    cost_budget: CostBudget = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every step: passages, texts, critiques, costs.")] = False,
    thread: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The thread; on one that has a topic, the pipeline goes on with it."),
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Draft, criticise and improve in the steps that you write down; each step has its checkpoint.

    Steps: SetTopic('…') · SetQuery('…') · UseDir('folder') · UseIndex('name') · UseThinking · UseDraft ·
    UseCritique · EvaluateQuality('uses_words:A,B'), as --verify of run · UseImprove (or UseFinal) ·
    UseRefinementLoop('3') · UseSelfCritique('1'), which scores what it made; and those of installed packages. A step
    that finds nothing to work on says so and changes nothing.
    """
    from ..pipeline_text import read_pipeline
    from ..run_config import RunConfig
    from ..sessions import checked_thread_id, model_or_default, opened
    from ..views.console import LiveRun, QuietRun, Screen, say
    from .running import finish, run_graph

    parsed = read_pipeline(steps)
    thread_id = checked_thread_id(thread) if thread is not None else f"run-{secrets.token_hex(4)}"
    limits = given_limits(max_tokens=token_budget, max_seconds=time_budget, max_cost_usd=cost_budget)
    spec, note = model_or_default(model)
    recipe = RunConfig.given(
        preset="pipeline",
        steps=str(parsed),
        model=spec,
        critics=(critic,) if critic else (),
        threshold=threshold,
        passages=passages,
        temperature=temperature,
        max_output_tokens=max_output_tokens,
        prices=prices,
    )
    if note:
        say(note)
    screen = Screen(as_json=as_json)
    with bad_input():
        graph_alone = recipe.build(None)  # before a database is made: a wrong spec leaves nothing behind
    with opened(db, create=True) as saver:
        if not parsed.sets_topic and saver.runs.get(thread_id) is None:
            raise BadInputError(
                "the pipeline has no topic: begin it with SetTopic('…'), or name a --thread that has one"
            )
        values, _ = run_graph(
            graph_alone.copy({"checkpointer": saver}),
            {"limits": limits} if limits else {},
            thread_id=thread_id,
            recipe=recipe,
            screen=screen,
            db=db,
            watch=LiveRun if trace else QuietRun,
        )
    if parsed.steps[-1].name == "UseSelfCritique" and (result := _self_critique(values)):
        values = {**values, "self_critique": result}
        if not as_json:
            _show_self_critique(screen, result)
    finish(screen, values, thread_id=thread_id, db=db)


def _self_critique(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the result of a self-critique as plain data; `None` where nothing was drafted.

    `improved_answer` is `None` where no improvement was better than the draft.
    """
    from ...nodes.reasoning.branches import self_critique
    from ...state.summary import latest_draft

    if latest_draft(values.get("events") or []) is None:
        return None
    result = self_critique(values["events"])
    return {
        "draft": result.draft,
        "critique": result.critique,
        "improved_answer": None if result.improved == result.draft else result.improved,
        "iterations": result.iterations,
        "confidence": result.confidence,
        "rating": result.rating,
    }


def _show_self_critique(screen: Screen, result: Mapping[str, Any]) -> None:
    """Print the draft, the critique, the improved answer, how often it was improved, and the confidence in it."""
    answer = result["improved_answer"] or "(none: the draft is the answer)"
    for title, text in (("draft", result["draft"]), ("critique", result["critique"]), ("improved answer", answer)):
        screen.line("")
        screen.line((title, "bold"))
        screen.block(text or "(none)", indent=2)
    screen.line("")
    screen.line(("iterations ", "bold"), str(result["iterations"]))
    confidence = f"{result['rating']} ({score_of(result['confidence'])})"
    screen.line(("confidence ", "bold"), confidence, (", in its own opinion", "dim"))
