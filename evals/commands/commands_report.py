"""Commands `report`, `compare` and `diagnose`: tables of what refining was worth. Internal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ...faces.cli.options import MODELS, AsJson, MaxOutputTokens, Model, Prices, Temperature
from ...faces.problems import BadInputError, bad_input
from ...faces.sessions import every_row, opened
from ...faces.views.console import Screen, plain_table, safe
from ...faces.views.wording import amount, money, percent, seconds

if TYPE_CHECKING:
    from ..analysis.comparison import Comparison
    from ..analysis.diagnosis import Diagnosis
    from ..analysis.ledger import Group, Ledger, MethodRow
    from ..analysis.paired import Proportion

LOGS = "A log of another tool, or JSONL or CSV with an id and a verdict in each row."
IdField = Annotated[
    str | None,
    typer.Option("--id-field", "--id", metavar="FIELD", help="Names the problem; default: the only one possible."),
]
RightField = Annotated[
    str | None,
    typer.Option(
        "--right-field", "--correct", metavar="FIELD", help="Says right or wrong; default: the only one possible."
    ),
]
RightFrom = Annotated[
    float | None,
    typer.Option(metavar="X", help="Of verdicts that are numbers: from which one on an answer is right."),
]

Baseline = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Of logs: the method, or file, that refined nothing; default: first drafts."),
]

__all__ = ["compare", "diagnose", "report", "show_comparison", "show_diagnosis", "show_ledger"]

Wanted = Annotated[
    float, typer.Option(metavar="POINTS", min=0.01, max=99, help="The difference worth finding, in percentage points.")
]


def report(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR|LOG…", help="Folders of `redraft eval`, or above them; logs as `redraft compare` reads them."
        ),
    ] = None,
    db: Annotated[
        str | None,
        typer.Option(metavar="DB", help="Say of the threads in a database what hidden checks found (`redraft goal`)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where report.html goes; else the first DIR, or beside the LOG.")
    ] = None,
    wanted: Wanted = 5,
    baseline: Baseline = None,
    id_field: IdField = None,
    right_field: RightField = None,
    right_from: RightFrom = None,
    as_json: AsJson = False,
) -> None:
    """Say what refining fixed and broke, at what cost, what else costs the same, and whom to trust.

    Writes report.html, one file with the tables, plots and every single problem; it needs no network.

    With --db it says instead how often "done" was false: the visible checks accepted an answer, a hidden one did not.
    """
    if db is not None and not sources:
        _report_hidden(db, as_json=as_json)
        return
    if db is not None or not sources:
        raise BadInputError("name folders of `redraft eval` or logs, or a database of threads with --db")
    from ..analysis.ledger import build_ledger
    from ..logs.registry import Naming, read_runs
    from ..report.page import write_report

    first = sources[0]
    with bad_input():
        runs, read = read_runs(sources, Naming(id_field, right_field, right_from), baseline=baseline)
        ledger = build_ledger(runs, wanted=wanted / 100).model_copy(update={"read": read})
        page = write_report(ledger, runs, out or (first if first.is_dir() else first.parent))

    def show(screen: Screen) -> None:
        show_ledger(screen, ledger)
        screen.line(("wrote ", "dim"), str(page))

    Screen(as_json=as_json).result(ledger.model_dump(mode="json"), show)


def _report_hidden(db: str, *, as_json: bool) -> None:
    from ..analysis.hidden_checks import false_done

    with opened(db, read_only=True) as saver:
        ids = (row.thread_id for row in every_row(saver.runs))
        kept = (saver.get_tuple({"configurable": {"thread_id": thread_id}}) for thread_id in ids)
        said = false_done(one.checkpoint["channel_values"] for one in kept if one is not None)

    def show(screen: Screen) -> None:
        if not (said.accepted_failed.n or said.rejected_passed.n):
            screen.line("no thread here was put to hidden checks (`redraft goal --hidden COMMAND`)")
            return
        for share, words in (
            (said.accepted_failed, "accepted answers fail hidden checks"),
            (said.rejected_passed, "answers that were not accepted pass them"),
        ):
            if share.n:
                low, high = share.ci95
                screen.line(f"{share.k} of {share.n} {words} (95% {percent(low)} to {percent(high)})")
        for check, times in said.failed.items():
            screen.line((f"  {check!r} fails for {times}", "dim"))

    Screen(as_json=as_json).result(said.model_dump(mode="json"), show)


def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help=LOGS)],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="The same problems, later.")],
    id_field: IdField = None,
    right_field: RightField = None,
    right_from: RightFrom = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method", metavar="NAME", help="Of several prompts or models in a file; twice: before and after."
        ),
    ] = None,
    wanted: Wanted = 5,
    as_json: AsJson = False,
) -> None:
    """Say what changed between anyone's two files of results, problem by problem, and whether that could be chance.

    Formats are known by what is in a file: logs of Inspect, lm-evaluation-harness, OpenAI evals, promptfoo, DeepEval,
    Langfuse, LangSmith and Phoenix, JSONL and CSV. It says which fields it took, and takes none that is not clear.
    """
    from ..analysis.comparison import compare as compared

    named = methods or []
    with bad_input():
        if len(named) > 2:
            raise ValueError(f"--method is given once for both files or twice, not {len(named)} times")
        comparison = compared(
            before,
            after,
            id_field=id_field,
            correct_field=right_field,
            right_from=right_from,
            methods=(named[0], named[-1]) if named else (None, None),
            wanted=wanted / 100,
        )
    Screen(as_json=as_json).result(
        comparison.model_dump(mode="json"), lambda screen: show_comparison(screen, comparison)
    )


def diagnose(
    sample: Annotated[
        list[str],
        typer.Argument(
            metavar="DATASET|DIR|LOG…",
            help="As in `redraft eval`, with --out; or results or logs with rounds, and nothing is run.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Results of the sample of a DATASET; a second start goes on with them."),
    ] = None,
    methods: Annotated[
        str, typer.Option(metavar="A,B,…", help="At least one baseline and one that refines.")
    ] = "zero-shot,majority-3,self-refine-2,program-2",
    rounds: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rounds looked at; those that were played always are.")
    ] = 3,
    wanted: Wanted = 5,
    baseline: Baseline = None,
    id_field: IdField = None,
    right_field: RightField = None,
    right_from: RightFrom = None,
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
    """Say whether refining is worth it here, and how many rounds, from a small labelled sample or from results."""
    from ..analysis.diagnosis import diagnose as diagnosed
    from ..logs.registry import Naming, read_runs

    screen = Screen(as_json=as_json)
    sources = [Path(one) for one in sample]
    results = all(source.is_dir() or (source.is_file() and out is None) for source in sources)
    if not results:
        if out is None:
            raise BadInputError(
                f"{sample[0]!r} is no folder of results and no log; for a dataset name --out, where its results go"
            )
        if len(sample) > 1:
            raise BadInputError("one dataset is diagnosed at a time; several folders or logs go without --out")
        from .eval_runs import EvalPlan, run_plan

        plan = EvalPlan.given(
            dataset=sample[0],
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
        sources = run_plan(plan, screen)
    # A model that the environment names is meant for the commands that ask one.
    elif out or critic or (model and model != os.environ.get("REDRAFT_MODEL")):
        raise BadInputError(f"{sample[0]} is a folder of results: --out, --model and --critic are for a dataset")
    with bad_input():
        try:
            runs, read = read_runs(sources, Naming(id_field, right_field, right_from), baseline=baseline)
        except ValueError as error:
            hint = "" if out or sources[0].is_dir() else "; for a dataset name --out, where its results go"
            raise ValueError(f"{error}{hint}") from None
        diagnosis = diagnosed(runs, rounds=rounds, wanted=wanted / 100).model_copy(update={"read": read})
    screen.result(diagnosis.model_dump(mode="json"), lambda screen: show_diagnosis(screen, diagnosis))


def show_ledger(screen: Screen, ledger: Ledger, *, hint: str | None = None) -> None:
    """Print each method's difference to its baseline, tables of methods and critics, and the verdicts in words.

    Args:
        screen: Where to.
        ledger: What is shown.
        hint: A command that shows more.
    """
    for difference in ledger.differences:
        screen.line(difference.sentence)
    for group in ledger.groups:
        _show_headlines(screen, group, [row for row in ledger.methods if row.label in group.methods])
    columns = ("method", "right", "95%", "first", "fixed", "broke", "p", "tokens", "cost", "seconds", "rounds")
    table = plain_table(*columns, right=columns[1:])
    for row in ledger.methods:
        change = row.overall
        table.add_row(
            Text(safe(row.label), style="bold"),
            _share(row.accuracy),
            _interval(row.accuracy),
            "" if row.baseline and row.kind == "log" else _share(row.first_draft),
            "" if row.baseline else str(change.fixed),
            "" if row.baseline else str(change.broken),
            "" if row.baseline else _both_p(change.mcnemar_p, row.p_corrected),
            f"{row.tokens:,.0f}",
            money(row.cost_usd),
            seconds(row.seconds),
            f"{row.mean_iterations:.1f}",
        )
    screen.put(table)
    screen.line(("tokens, cost and seconds are a problem's; first: the first draft; p in brackets: corrected", "dim"))
    if ledger.critics:
        screen.line("")
        _show_critics(screen, ledger)
    if ledger.acceptance:
        screen.line("")
        _show_acceptance(screen, ledger)
    screen.line("")
    for row in ledger.methods:
        screen.line(row.verdict)
    for warning in [*ledger.warnings, *(f"{row.label}: {text}" for row in ledger.methods for text in row.warnings)]:
        screen.line((f"! {warning}", "yellow"))
    for sentence in ledger.read:
        screen.line((sentence, "dim"))
    if hint:
        screen.line(("more: ", "dim"), hint)


def _show_headlines(screen: Screen, group: Group, rows: list[MethodRow]) -> None:
    """Print what the page's first picture shows: a line a method, and the recommendation."""
    from ..analysis.sentences import finding_in_words, points

    screen.line((safe(group.title), "bold"), f": {amount(group.problems, 'problem')}")
    table = plain_table("method", "points", "95%", "", "against", right=("points", "95%"))
    for row in sorted((row for row in rows if row.headline), key=lambda one: one.baseline):
        if first := row.headline:
            both = points(first.paired.diff), points(first.paired.diff_ci95)
            found = finding_in_words(first.finding, row.power)
            table.add_row(Text(safe(row.name), style="bold"), *both, found, safe(first.against))
    if table.row_count:
        screen.put(table)
    if group.recommendation:
        screen.line((safe(group.recommendation), "bold"))
    screen.line("")


def _show_critics(screen: Screen, ledger: Ledger) -> None:

    table = plain_table("critic", "in", "accepts wrong", "95%", "rejects right", "95%")
    for one in ledger.critics:
        table.add_row(
            Text(safe(one.critic), style="bold"),
            safe(one.method),
            f"{one.false_accept.k} of {one.wrong}",
            _interval(one.false_accept),
            f"{one.false_reject.k} of {one.right}",
            _interval(one.false_reject),
        )
    screen.put(table)
    for one in ledger.critics:
        if one.warning:
            screen.line((f"! {one.critic} in {one.method}: {one.warning}", "yellow"))


def _show_acceptance(screen: Screen, ledger: Ledger) -> None:
    table = plain_table("accepted by", "in", "answers", "wrong of them", "95%", right=("answers", "wrong of them"))
    for row in ledger.acceptance:
        answers, wrong = (f"{one.k} of {one.n} ({_share(one)})" for one in (row.answers, row.wrong))
        table.add_row(
            Text(safe(row.by or "left to a person"), style="bold" if row.by else "dim"),
            safe(row.method),
            answers,
            wrong,
            _interval(row.wrong),
        )
    screen.put(table)


def show_comparison(screen: Screen, comparison: Comparison) -> None:
    """Print what changed between two files of results: the difference first."""
    from ..analysis.paired import finding
    from ..analysis.sentences import finding_in_words, p_in_words, points

    outcome = finding(
        comparison.diff or 0.0, comparison.diff_ci95, comparison.mcnemar_p, wanted=comparison.power.wanted
    )
    interval = f"95% {points(comparison.diff_ci95)}; {p_in_words(comparison.mcnemar_p)}"
    screen.line(
        (f"{points(comparison.diff)} points", "bold"),
        f" ({interval}): {finding_in_words(outcome, comparison.power)}",
    )
    table = plain_table("", "right after", "wrong after", right=("right after", "wrong after"))
    table.add_row("right before", str(comparison.kept_right), str(comparison.broken))
    table.add_row("wrong before", str(comparison.fixed), str(comparison.kept_wrong))
    screen.put(table)
    for sentence in comparison.read:
        screen.line((sentence, "dim"))
    screen.line("")
    screen.line(comparison.verdict)
    for warning in comparison.warnings:
        screen.line((f"! {warning}", "yellow"))


def show_diagnosis(screen: Screen, diagnosis: Diagnosis) -> None:
    """Print what a sample says about refining, and what is recommended."""
    first = f"{_share(diagnosis.first_draft)} ({_interval(diagnosis.first_draft)})"
    screen.line(f"{amount(diagnosis.n, 'problem')}; the first draft is right in {first}")
    screen.line("")
    columns = ("method", "rounds", "right", "95%", "gain", "95%", "p", "corrected", "tokens", "")
    table = plain_table(*columns, right=columns[1:-1])
    for option in diagnosis.options:
        low, high = option.ci95
        table.add_row(
            safe(option.method),
            "" if option.rounds is None else str(option.rounds),
            percent(option.accuracy),
            f"{percent(low)}–{percent(high)}",
            f"{100 * option.gain:+.1f}",
            f"{100 * option.gain_ci95[0]:+.1f} to {100 * option.gain_ci95[1]:+.1f}",
            f"{option.p:.2g}",
            "" if option.rounds is None else f"{option.p_corrected:.2g}",
            f"{option.tokens:,.0f}",
            "" if option.observed else "predicted",
        )
    screen.put(table)
    screen.line(("gain is in points above the cheapest baseline; p is corrected for all rounds and methods", "dim"))
    for sentence in diagnosis.read:
        screen.line((sentence, "dim"))
    screen.line("")
    screen.line((diagnosis.recommendation, "bold"))


def _both_p(raw: float, corrected: float | None) -> str:
    shown, also = f"{raw:.2g}", f"{raw if corrected is None else corrected:.2g}"
    return shown if shown == also else f"{shown} ({also})"


def _share(one: Proportion) -> str:
    return "–" if one.rate is None else percent(one.rate)


def _interval(one: Proportion) -> str:
    ends: Any = one.ci95
    return "–" if one.n == 0 else f"{percent(ends[0])}–{percent(ends[1])}"
