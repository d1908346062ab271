"""Command `choose`: which method to use on problems like these. Internal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..._files import write_file
from ...faces.cli.options import (
    DATA,
    MODELS,
    AsJson,
    MaxOutputTokens,
    MethodCritic,
    Model,
    QuestionField,
    Temperature,
)
from ...faces.problems import bad_input
from ...faces.views.console import Screen, plain_table, say
from ...faces.views.wording import percent
from .options import AtOnce, GraphOptions, OwnScore, Verify

if TYPE_CHECKING:
    from ..choosing import Choice

__all__ = ["choose"]


def choose(
    dataset: Annotated[str, typer.Argument(metavar="DATA", help="JSONL, CSV, or what else `redraft eval` takes.")],
    graph: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A graph of `redraft run`, a recipe's file, or module:name of yours.",
            rich_help_panel=DATA,
        ),
    ] = "refine",
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A further candidate: another graph of `redraft run` with the same model and judges, or module:name; "
            "may be repeated.",
            rich_help_panel=DATA,
        ),
    ] = None,
    verify: Verify = None,
    score: OwnScore = None,
    question_field: QuestionField = None,
    option: GraphOptions = None,
    budget_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Choosing ends once these are spent.")
    ] = None,
    margin: Annotated[
        float, typer.Option(metavar="POINTS", min=0.1, max=99, help="A difference that is not worth paying for.")
    ] = 5,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the choice as a recipe, for `redraft run --recipe`."),
    ] = None,
    concurrency: AtOnce = 4,
    model: Model = None,
    critic: MethodCritic = None,
    temperature: Temperature = None,
    max_output_tokens: MaxOutputTokens = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Orders the rows, and seeds sampling.", rich_help_panel=MODELS)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which method to use: one call, a longer one, samples, a vote, or refining, and how often.

    The candidates are played against each other row by row, and dropped as soon as the rows show that they are not
    worth their tokens. A third of the rows takes no part in it and says what the chosen one is worth.
    """
    from ..choosing import choose as chosen_by
    from .named_graphs import brings_model, named_options, named_subject

    screen = Screen(as_json=as_json)
    tuning = {"temperature": temperature, "max_output_tokens": max_output_tokens, "seed": seed}
    with bad_input():
        if out is not None and brings_model(graph):
            raise ValueError("--out writes a recipe of a graph of redraft's by its name; yours is built otherwise")

        def subject(name: str) -> Any:
            shared: dict[str, Any] = {"model": model, "critic": critic, "verify": verify or ()}
            own = option or () if name == graph else ()
            return named_subject(name, **shared, score=score, options=own, tuning=tuning)

        built, judged, note = subject(graph)
        if note:
            say(note)
        choice = chosen_by(
            built,
            dataset,
            score=judged,
            also={name.replace(":", "."): subject(name)[0] for name in also or ()},
            question_field=question_field,
            margin=margin / 100,
            budget_tokens=budget_tokens,
            seed=seed or 0,
            concurrency=concurrency,
            on_progress=lambda n, of, alive, spent: screen.line(
                (f"{n}/{of} rows  {spent:,} tokens  {', '.join(alive)}", "dim")
            ),
        )
        if out is not None:
            given = {"model": model, "critics": [critic] if critic else None, "verifiers": verify, **tuning}
            recipe = {"preset": graph, **{key: value for key, value in given.items() if value is not None}}
            write_file(
                out, json.dumps(recipe | named_options(option or ()) | _of(choice.chosen, built), indent=1) + "\n"
            )
    screen.result(choice.model_dump(mode="json"), lambda screen: _show(screen, choice, out))


def _of(chosen: str, graph: Any) -> dict[str, Any]:
    """Return the keys of a recipe that make a method of the graph it was chosen for."""
    from ..choosing import ONE_CALL
    from ..run.own_graph import LONGER, parts_of

    name, _, number = chosen.rpartition("-")
    parts = parts_of(graph)
    if chosen == ONE_CALL or name == graph.name:
        return {"limits": {"max_rounds": int(number) if name == graph.name else 0}}
    if chosen == "longer-call" and parts is not None:
        template: Any = parts.first.templates[0].messages[0]  # type: ignore[union-attr]
        return {"generate_prompt": template.prompt.template + LONGER, "limits": {"max_rounds": 0}}
    if name == "samples":
        return {"rungs": [f"sample:{number}"], "limits": {"max_rounds": int(number) - 1}}
    return {"preset": f"majority-{number}" if name == "vote" else chosen}


def _show(screen: Screen, choice: Choice, out: Path | None) -> None:
    columns: Sequence[str] = ("method", "score", "rows", "tokens a row", "tokens a right answer", "")
    table = plain_table(*columns, right=columns[1:5])
    for one in choice.candidates:
        cost = "" if one.tokens_per_right is None else f"{one.tokens_per_right:,.0f}"
        table.add_row(one.name, percent(one.mean), str(one.n), f"{one.tokens:,.0f}", cost, one.dropped)
    screen.put(table)
    screen.line(f"{choice.sentence} Choosing took {choice.tokens:,} tokens.")
    if out is not None:
        screen.line(("wrote ", "dim"), str(out), ("; use it: ", "dim"), f"redraft run … --recipe {out}")
