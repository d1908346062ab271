"""Command `gate`: whether a graph got worse than its baseline. Internal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
from ...faces.problems import BadInputError, bad_input
from ...faces.views.console import Screen, say
from .options import AtOnce, GraphOptions, OwnScore, Verify

__all__ = ["gate"]


def gate(
    dataset: Annotated[str, typer.Argument(metavar="DATA", help="JSONL, CSV, or what else `redraft eval` takes.")],
    graph: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A graph of `redraft run`, a recipe's file, or module:name of yours.",
            rich_help_panel=DATA,
        ),
    ],
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The baseline: scores of an earlier version.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Play every problem and write its score: a baseline.")
    ] = None,
    verify: Verify = None,
    score: OwnScore = None,
    question_field: QuestionField = None,
    option: GraphOptions = None,
    margin: Annotated[
        float, typer.Option(metavar="POINTS", min=0.1, max=99, help="A loss that is not worth stopping for.")
    ] = 5,
    alpha: Annotated[
        float, typer.Option(metavar="A", min=0.001, max=0.5, help="The chance of a wrong verdict.")
    ] = 0.05,
    budget_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Once these are spent it can't tell.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the verdict as JUnit XML.")] = None,
    summary: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write it as Markdown, for a pull request.")
    ] = None,
    concurrency: AtOnce = 4,
    model: Model = None,
    critic: MethodCritic = None,
    temperature: Temperature = None,
    max_output_tokens: MaxOutputTokens = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Orders the problems, and seeds sampling.", rich_help_panel=MODELS)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a graph got worse than its baseline, on as few problems as it takes.

    Exit code 0: it held; 1: it got worse; 3: can't tell within the problems and the budget. You may look after every
    problem, and stop whenever you like: the chance of a wrong verdict stays below --alpha.
    """
    from ..gating import gate as gated
    from ..gating import junit_xml, markdown, write_baseline
    from .named_graphs import named_subject

    if (against is None) is (write is None):
        raise BadInputError("give --against FILE, or --write FILE to make one")
    screen = Screen(as_json=as_json)
    with bad_input():
        subject, judged, note = named_subject(
            graph,
            model=model,
            critic=critic,
            verify=verify or (),
            score=score,
            options=option or (),
            tuning={"temperature": temperature, "max_output_tokens": max_output_tokens, "seed": seed},
        )
        if note:
            say(note)
        options = {"score": judged, "question_field": question_field, "concurrency": concurrency}
        if write is not None:
            baseline = write_baseline(subject, dataset, write, **options)
            shown = f"wrote {write}: {len(baseline.scores)} problems, mean score {baseline.mean:.1%}"
            screen.result(baseline.model_dump(mode="json"), lambda screen: screen.line(shown))
            return
        result = gated(
            subject,
            dataset,
            str(against),
            margin=margin / 100,
            alpha=alpha,
            budget_tokens=budget_tokens,
            seed=seed or 0,
            on_progress=lambda n, of, diff: screen.line((f"{n}/{of}  {100 * diff:+.1f} points", "dim")),
            **options,
        )
    for path, text in ((junit, junit_xml(result)), (summary, markdown(result))):
        if path is not None:
            write_file(path, text)
    screen.result(result.model_dump(mode="json"), lambda screen: screen.line(result.sentence))
    raise typer.Exit(result.exit_code)
