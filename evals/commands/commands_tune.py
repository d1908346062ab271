"""Command `tune`: which rungs of the ladder mend drafts, and at how many tokens, by recorded runs. Internal."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from pydantic import BaseModel, ValidationError

from ..._files import read_file, write_file
from ...faces.cli.options import AsJson
from ...faces.problems import BadInputError, bad_input
from ...faces.run_config import RunConfig
from ...faces.sessions import every_row, opened
from ...faces.views.console import Screen, plain_table, safe
from ...faces.views.drafts import read_events
from ...faces.views.wording import percent
from ...nodes.mending.ladder import LADDER
from ...nodes.writing.writers import EDIT
from ...state import Thread
from ...state.checked_values import first_fault
from ..analysis.paired import proportion
from ..run.result_record import Iteration, iterations
from ..run.run_folder import find_runs

__all__ = ["tune"]

DEFAULT = [arm.name for arm in LADDER]


class Revision(NamedTuple):
    """A revision that a rung wrote, with the verifiers that had rejected the draft, where the record names them."""

    rung: str
    accepted: bool
    tokens: int
    checks: Sequence[str] = ()


class _Draft(BaseModel):
    accepted: bool
    tokens: int
    refiner: str | None = None


class _Run(BaseModel):
    method: str
    drafts: list[_Draft] = []


def tune(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUNS…]", help="Folders of `redraft eval`, or above them; files of benchmarks/everyday.py."
        ),
    ] = None,
    db: Annotated[
        str | None, typer.Option(metavar="DB", help="The threads of a database too: a SQLite file, or postgresql://….")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the order as a recipe.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say which rungs of the ladder mend drafts, at how many tokens, and in which order to try them.

    Where verifiers judge, a rejected draft is mended by rungs: mend, rewrite, sample, and an edit by program whenever
    one fits. This reads recorded runs and asks no model. For each rung it shows how many of its revisions were
    accepted, with Wilson's 95% interval, what one took, and how many are accepted for 1,000 tokens; then the same by
    the verifier that had rejected the draft.

    A rung is moved before another only where it is worth more per token beyond chance. Else the default order stands,
    and you are told how many more revisions would tell. Rungs further down are given the drafts that those above could
    not mend: to see one at its best, record runs that begin with it, `--rung sample --rung mend --rung rewrite`.
    """
    with bad_input():
        revisions = _recorded(runs or (), db)
    if not revisions:
        raise BadInputError("no revision of the ladder is recorded there: name folders of `redraft eval`, or --db")
    rows = {name: _row([one for one in revisions if one.rung == name]) for name in (EDIT, *DEFAULT)}
    order: list[str] = []
    # Being ahead beyond chance goes round in no circle, so one is always found.
    while left := [name for name in DEFAULT if name not in order]:
        order.append(next(name for name in left if not any(_ahead(rows[other], rows[name]) for other in left)))
    unsettled = [
        {"rung": later, "ahead_of": name, "more_revisions": _needed(rows[later], rows[name])}
        for place, name in enumerate(order)
        for later in order[place + 1 :]
        if (rows[later]["per_1000_tokens"] or 0) > (rows[name]["per_1000_tokens"] or 0)
    ]
    if out is not None:
        write_file(out, json.dumps({"preset": "refine", "rungs": order}, indent=1) + "\n")
    advice = {"rungs": rows, "order": order, "unsettled": unsettled}
    Screen(as_json=as_json).result(advice, lambda screen: _show(screen, advice, out))


def _recorded(paths: Sequence[Path], db: str | None) -> list[Revision]:
    """Return the revisions of all rungs in these folders and files, and in a database."""
    logs = [run.iterations_log for one in find_runs(path for path in paths if path.is_dir()) for run in one.records]
    if db is not None:
        with opened(db, read_only=True) as saver:
            reader = RunConfig.reader(saver)
            logs += [iterations(read_events(Thread(reader, row.thread_id))) for row in every_row(saver.runs)]
    drafts = [draft for path in paths if not path.is_dir() for draft in _drafts(path)]
    return [
        *(revision for steps in logs for revision in _revisions(steps)),
        *(Revision(one.refiner, one.accepted, one.tokens) for one in drafts if one.refiner),
    ]


def _drafts(path: Path) -> Iterator[_Draft]:
    """Yield the drafts of the refined runs in a file of benchmarks/everyday.py."""
    for number, line in enumerate(read_file(path).split("\n"), 1):
        if line.strip():
            try:
                run = _Run.model_validate_json(line)
            except ValidationError as error:
                raise ValueError(
                    f"{path}, line {number} is no run of benchmarks/everyday.py: {first_fault(error)}"
                ) from None
            yield from run.drafts if run.method == "refine" else ()


def _revisions(steps: Sequence[Iteration]) -> Iterator[Revision]:
    """Yield the revisions of one run; none where others than the ladder's rungs wrote some."""
    drafts = [step for step in steps if step.type != "feedback"]
    checks: Sequence[str] = ()
    for draft in drafts if {step.refiner for step in drafts[1:]} <= {EDIT, *DEFAULT} else ():
        verdicts = [one for one in steps if one.type == "feedback" and one.iteration == draft.iteration]
        if draft.refiner:
            # What is no draft is judged by nobody, and leaves the one before to be mended.
            accepted = bool(verdicts) and all(one.accepted is True for one in verdicts)
            yield Revision(draft.refiner, accepted, draft.tokens_used, checks)
        checks = [one.by for one in verdicts if one.verifier and not one.accepted] if verdicts else checks


def _row(revisions: Sequence[Revision]) -> dict[str, Any]:
    """Return counts and rates of revisions, in all and by the verifier that had rejected the draft."""
    share = proportion(sum(one.accepted for one in revisions), len(revisions))
    tokens = sum(one.tokens for one in revisions) / max(len(revisions), 1)
    return {
        "revisions": share.n,
        "accepted": share.k,
        "ci95": share.ci95,
        "tokens": tokens,
        "per_1000_tokens": 1000 * (share.rate or 0.0) / tokens if tokens else None,
        "by_check": {
            check: _row([one._replace(checks=()) for one in revisions if check in one.checks])
            for check in dict.fromkeys(check for one in revisions for check in one.checks)
        },
    }


def _ahead(one: dict[str, Any], other: dict[str, Any], times: int = 1) -> bool:
    """Return True if the first accepts more per token beyond chance, with so many times the evidence."""
    low, high = (proportion(row["accepted"] * times, row["revisions"] * times).ci95 for row in (one, other))
    return bool(low[0] * other["tokens"] > high[1] * one["tokens"])


def _needed(one: dict[str, Any], other: dict[str, Any]) -> int | None:
    """Return the number of further revisions of each that would tell the first is ahead, at the shares so far."""
    times = next((times for times in range(2, 1000) if _ahead(one, other, times)), None)
    return times and (times - 1) * max(one["revisions"], other["revisions"])


def _show(screen: Screen, advice: dict[str, Any], out: Path | None) -> None:
    columns = ("rung", "revisions", "accepted", "95%", "tokens each", "accepted per 1,000")
    table = plain_table(*columns, right=columns[1:])
    for rung, row in advice["rungs"].items():
        for label, part in ((rung, row), *((f"  after {check}", part) for check, part in row["by_check"].items())):
            ends = "–".join(map(percent, part["ci95"])) if part["revisions"] else ""
            gain = f"{part['per_1000_tokens']:.2f}" if part["tokens"] else "free" if part["revisions"] else ""
            table.add_row(
                safe(label), str(part["revisions"]), str(part["accepted"]), ends, f"{part['tokens']:.0f}", gain
            )
    screen.put(table)
    for pair in advice["unsettled"]:
        screen.line(
            f"{pair['rung']} seems worth more than {pair['ahead_of']}, which can be chance: "
            f"{pair['more_revisions'] or 'very many'} more revisions of each would tell"
        )
    screen.line(f"order: {', '.join(advice['order'])}")
    if out is not None:
        screen.line(
            ("wrote ", "dim"), str(out), ("; use it: ", "dim"), f"redraft run … --recipe {shlex.quote(str(out))}"
        )
