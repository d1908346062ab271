"""Command `rescore`: recorded results, judged again without a model. Internal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...faces.cli.options import AsJson
from ...faces.problems import RunStoppedError, bad_input
from ...faces.views.console import Screen, plain_table, safe
from ...faces.views.wording import amount

if TYPE_CHECKING:
    from ..analysis.rescoring import Difference, RescoredRun

__all__ = ["rescore"]


def rescore(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders of `redraft eval`, or above them.")],
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|DIR",
            help="Judge by the dataset, or the file of its name in a folder; else by the gold answers in the records.",
        ),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write what was found into results.jsonl.")] = False,
    as_json: AsJson = False,
) -> None:
    """Judge recorded results again, without a model: every answer, draft, sample and vote; exit with 1 where the
    record disagrees.

    Answers are read out of the texts anew: numbers and texts are compared with the gold answer, words are looked for,
    and code is run against its hidden tests in the sandbox. A majority is counted again. The gold answers are those in
    the records; with --data they are compared with the dataset, whose SHA-256 must be the run's.

    The exit code is 0 only if every line was judged again and nothing differs. --write puts the new answers, votes and
    verdicts into the records; what a method answered is never rewritten, so a vote that another text won still ends
    with 1.
    """
    from ...faces.views.console import Screen
    from ..analysis import rescoring
    from ..run.run_folder import find_runs

    rescored: list[RescoredRun] = []
    with bad_input():
        for run in find_runs(folders):
            one, records = rescoring.rescore(run, None if data is None else rescoring.dataset_of(run, data))
            rescored.append(one)
            if write and one.differences:
                rescoring.write_rescored(run, records)
    screen = Screen(as_json=as_json)
    screen.result(
        {"written": write, "runs": [one.model_dump(mode="json") for one in rescored]},
        lambda screen: _show(screen, rescored, written=write),
    )
    left = [one for run in rescored for one in run.differences if not write or one.field == "solution"]
    missing = sum(sum(run.not_rescored.values()) for run in rescored)
    if left or missing:
        reasons = [f"the record disagrees in {amount(len(left), 'place')}"] if left else []
        reasons += [f"{amount(missing, 'line')} can't be judged again"] if missing else []
        raise RunStoppedError(" and ".join(reasons))


def _show(screen: Screen, rescored: list[RescoredRun], *, written: bool) -> None:
    from rich.text import Text

    columns = ("run", "lines", "judged again", "texts", "right in record", "right now", "differ")
    table = plain_table(*columns, right=columns[1:])
    for run in rescored:
        counts = (run.lines, run.rescored, run.texts, run.right_recorded, run.right, len(run.differences))
        table.add_row(Text(safe(run.run), style="bold"), *(str(count) for count in counts))
    screen.put(table)
    screen.line("")
    for run in rescored:
        for why, count in run.not_rescored.items():
            screen.line((f"! {run.run}: {amount(count, 'line')} not judged again: {why}", "yellow"))
        for difference in run.differences[:MOST_SHOWN]:
            screen.line((f"✗ {run.run}: {_said(difference)}", "red"))
        if len(run.differences) > MOST_SHOWN:
            screen.line((f"  and {len(run.differences) - MOST_SHOWN} more; --json has all", "dim"))
    lines, texts = sum(run.rescored for run in rescored), sum(run.texts for run in rescored)
    differing = sum(len(run.differences) for run in rescored)
    if differing:
        verdict = f"{amount(differing, 'place')} {'written anew' if written else 'in which the record disagrees'}"
    else:
        verdict = "the record holds" if lines else "nothing is known of the record"
    screen.line(f"{amount(lines, 'line')} with {amount(texts, 'text')} judged again, no model called: {verdict}")


def _said(one: Difference) -> str:
    from ..logs.sources import shown

    return f"{one.question_id}, {one.where}: {one.field} {shown(one.recorded)}, found {shown(one.found)}"


MOST_SHOWN = 20
