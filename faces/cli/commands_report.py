"""The commands that say what refining was worth: report, compare, diagnose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..problems import bad_input
from .options import MODELS, AsJson, MaxOutputTokens, Model, Prices, Temperature

__all__ = ["compare", "diagnose", "report"]


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders of `redraft eval`, or above them.")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where report.html goes; else the first DIR.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what refining fixed and broke, at what cost, what else costs the same, and whom to trust.

    Writes report.html, one file with the tables, plots and every single problem; it needs no network.
    """
    from ...evals.analysis.ledger import build_ledger, find_runs
    from ..views.report.page import write_report
    from .console import Screen
    from .ledger_view import show_ledger

    with bad_input():
        runs = find_runs(folders)
        ledger = build_ledger(runs)
        page = write_report(ledger, runs, out or folders[0])

    def show(screen: Screen) -> None:
        show_ledger(screen, ledger)
        screen.line(("wrote ", "dim"), str(page))

    Screen(as_json=as_json).result(ledger.model_dump(mode="json"), show)


def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE.jsonl", help="An object a line, with an id and a boolean.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER.jsonl", help="The same problems, later.")],
    id_field: Annotated[str | None, typer.Option("--id", metavar="FIELD", help="Where a line has its id.")] = None,
    correct_field: Annotated[
        str | None, typer.Option("--correct", metavar="FIELD", help="Where a line has its boolean.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what changed between anyone's two files of results, problem by problem, and whether that could be chance."""
    from ...evals.analysis.comparison import compare as compared
    from .console import Screen
    from .ledger_view import show_comparison

    with bad_input():
        found = compared(before, after, id_field=id_field, correct_field=correct_field)
    Screen(as_json=as_json).result(found.model_dump(mode="json"), lambda screen: show_comparison(screen, found))


def diagnose(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="As in `redraft eval`; its gold answers are used.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Results of the sample; a second start goes on with them.")],
    methods: Annotated[
        str, typer.Option(metavar="A,B,…", help="At least one baseline and one that refines.")
    ] = "zero-shot,majority-3,self-refine-2,program-2",
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Rounds looked ahead.")] = 3,
    model: Model = None,
    critic: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Judges in self-refine.", rich_help_panel=MODELS)
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=2, help="Problems in the sample.")] = 30,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Which ones.")] = None,
    concurrency: Annotated[int, typer.Option(metavar="C", min=1, help="Problems worked on at once.")] = 4,
    temperature: Temperature = None,
    max_output_tokens: MaxOutputTokens = None,
    prices: Prices = None,
    as_json: AsJson = False,
) -> None:
    """Run a small labelled sample, before you spend on the rest: is refining worth it here, and how many rounds?"""
    from ...evals.analysis.diagnosis import diagnose as diagnosed
    from ...evals.analysis.ledger import find_runs
    from .console import Screen
    from .eval_runs import EvalPlan, run_plan
    from .ledger_view import show_diagnosis

    plan = EvalPlan.given(
        dataset=dataset,
        methods=methods,
        limit=limit,
        seed=seed,
        model=model,
        critic=critic,
        temperature=temperature,
        max_output_tokens=max_output_tokens,
        prices=prices,
        out=out,
        resume=True,
        concurrency=concurrency,
    )
    screen = Screen(as_json=as_json)
    folders: list[Any] = run_plan(plan, screen)
    with bad_input():
        found = diagnosed(find_runs(folders), rounds=rounds)
    screen.result(found.model_dump(mode="json"), lambda screen: show_diagnosis(screen, found))
