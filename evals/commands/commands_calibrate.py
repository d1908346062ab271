"""Command `calibrate`: how sure a judge must be before its acceptance can be trusted. Internal."""

from __future__ import annotations

import asyncio
import json
import shlex
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ..._files import opened_text, write_file
from ...faces.cli.options import MODELS, AsJson, MaxOutputTokens, Model, critic_help
from ...faces.problems import BadInputError, RunStoppedError, bad_input
from ...faces.sessions import model_or_default
from ...faces.views.console import Screen, plain_table, safe, say
from ...faces.views.wording import percent
from ...nodes.critics.registry import FIELD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..analysis.calibration import Calibration, Scored
    from ..analysis.judged_drafts import LabelledDraft

__all__ = ["calibrate"]

DATA = "What it is calibrated on"
SHOWN = ("name", "threshold", "accepted", "wrong", "right_accepted", "auc", "tokens")
"""Fields of a setting in the JSON."""


def calibrate(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="JSONL with task, draft and right (true or false) in each row; or a dataset as for `redraft eval`, of "
            "which --model writes the drafts.",
        ),
    ],
    critic: Annotated[
        list[str],
        typer.Option(
            metavar="SPEC",
            help=f"{critic_help()} Several: each, and together.",
            rich_help_panel=MODELS,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The judge, for --judge and calibrated(…).")],
    alpha: Annotated[
        float, typer.Option(metavar="SHARE", min=0, max=1, help="At most this share of what is accepted is wrong.")
    ] = 0.1,
    delta: Annotated[
        float,
        typer.Option(
            metavar="SHARE", min=0, max=1, help="The chance that this does not hold; 0.5 is a weaker promise."
        ),
    ] = 0.1,
    votes: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=99, help="Ask models up to N times; the share that accepts is the score."),
    ] = 1,
    model: Model = None,
    max_output_tokens: MaxOutputTokens = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of sampling.", rich_help_panel=MODELS)] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="So many problems; else all.", rich_help_panel=DATA)
    ] = None,
    task_field: Annotated[str, typer.Option(metavar="NAME", rich_help_panel=DATA)] = "task",
    draft_field: Annotated[str, typer.Option(metavar="NAME", rich_help_panel=DATA)] = "draft",
    right_field: Annotated[str, typer.Option(metavar="NAME", rich_help_panel=DATA)] = "right",
    concurrency: Annotated[int, typer.Option(metavar="C", min=1, help="Drafts judged at once.")] = 4,
    as_json: AsJson = False,
) -> None:
    """Find how sure a judge must be so that at most a share --alpha of what it accepts is wrong.

    A judge gives each draft a number; from a threshold on it accepts. On drafts that are known to be right or wrong,
    thresholds are tested from strict to lax (Learn-then-Test, with exact binomial tests), so that the bound holds with
    confidence 1 - delta for drafts that come about in the same way. It is used with --judge FILE in `run`, `eval` and
    `serve`, and in Python as calibrated(critics, "FILE"). Where the judge may not say, the run asks the next critic,
    then a person, or stops as `undecided`.

    Where no setting keeps alpha, nothing is written: the command says which alpha could be had, and ends with 1.
    Rows of one task count as one problem. With a field `round` (0, 1, …) they are a draft and its revisions, and the
    judge may then judge revisions too; without it, it is for first drafts.
    """
    from ..analysis import calibration as bounds
    from ..analysis.judged_drafts import labels

    screen = Screen(as_json=as_json)
    for name, share in (("--alpha", alpha), ("--delta", delta)):
        if not 0 < share < 1:
            raise BadInputError(f"{name} must be between 0 and 1, not {share:g}")
    if len(set(critic)) < len(critic):
        raise BadInputError("a --critic is named twice")
    with bad_input():
        labelled, data = _given(file, task_field, draft_field, right_field, limit)
        n = len({one.problem for one in labelled}) if labelled else len(data.problems)
        # Before anything is paid.
        needed = bounds.rows_needed(alpha, delta)
        say(
            f"{n} problems: with all of them accepted and right, no alpha below "
            f"{percent(bounds.reachable_alpha(n, delta))} can be shown; with half of them, "
            f"{percent(bounds.reachable_alpha(n // 2, delta))}"
        )
        if n < needed:
            raise BadInputError(f"--alpha {alpha:g} needs at least {needed} accepted drafts without a wrong one")
        names_model = data is not None or any(not one.startswith(FIELD) for one in critic)
        spec, note = model_or_default(model) if names_model else ("", "")
        if note:
            say(note)
        options = {"max_output_tokens": max_output_tokens, "seed": seed}
        drafts, scored = asyncio.run(_scored(labelled, data, critic, spec, votes, concurrency, options, screen))
        right = labels(drafts)
        calibration = bounds.calibrate(scored, right, alpha=alpha, delta=delta)
        best = None if calibration.chosen else bounds.smallest_alpha(scored, right, delta=delta)
    judge = None
    if calibration.chosen:
        date = datetime.now(UTC).date().isoformat()
        judge = calibration.judge(made_from=Path(file).name, drafts_by=spec if data is not None else "", date=date)
        write_file(out, json.dumps(judge.model_dump(mode="json"), indent=1) + "\n")
    result = {
        "alpha": alpha,
        "delta": delta,
        "n": calibration.n,
        "right": calibration.right,
        "smallest_alpha": best,
        "settings": [{name: getattr(setting, name) for name in SHOWN} for setting in calibration.settings],
        "judge": judge and judge.model_dump(mode="json"),
    }
    screen.result(result, lambda screen: _show(screen, calibration, out))
    if judge is None:
        can = "none of them keeps any" if best is None else f"the smallest that one would have kept here is {best:g}"
        raise RunStoppedError(
            f"no setting keeps alpha {alpha:g} with confidence {1 - delta:g}, so nothing is written; {can}"
        )


def _given(file: str, task: str, draft: str, right: str, limit: int | None) -> tuple[list[LabelledDraft], Any]:
    """Return the labelled drafts of a file, or none and the dataset that it is."""
    from ..analysis.judged_drafts import read_labelled
    from ..datasets.dataset import load_dataset

    first: Any = None
    if Path(file).is_file():
        with opened_text(file) as lines, suppress(ValueError):
            first = json.loads(lines.readline())
    if isinstance(first, dict) and (right in first or draft in first):
        return read_labelled(file, task=task, draft=draft, right=right, limit=limit), None
    return [], load_dataset(file).sample(limit)


async def _scored(
    drafts: list[LabelledDraft],
    data: Any,
    critics: Sequence[str],
    spec: str,
    votes: int,
    concurrency: int,
    options: dict[str, Any],
    screen: Screen,
) -> tuple[list[LabelledDraft], list[Scored]]:
    from ...faces.run_config import kept_spec
    from ...models import chat_model
    from ...nodes.critics.calibrated import judge_critic
    from ..analysis.judged_drafts import drafts_of, field_scores, judged

    writer: Any = chat_model(kept_spec(spec), **options) if spec else None
    # Each is built before the first is asked, so that a wrong spec costs nothing.
    built = {
        one: None if one.startswith(FIELD) else judge_critic(one, writer, lambda named: chat_model(kept_spec(named)))
        for one in critics
    }

    def tell(what: str, done: int, of: int) -> None:
        if done == of or done % max(of // 10, 1) == 0:
            screen.line((f"{what}  {done}/{of}", "dim"))

    if data is not None:
        drafts = await drafts_of(data, writer, concurrency=concurrency, tell=partial(tell, "drafts"))
    scored: list[Scored] = []
    for one, critic in built.items():
        if critic is None:
            scored.append(field_scores(drafts, one.removeprefix(FIELD)))
        else:
            scored += await judged(
                drafts, critic, spec=one, votes=votes, concurrency=concurrency, tell=partial(tell, one)
            )
    return drafts, scored


def _show(screen: Screen, found: Calibration, out: Path) -> None:

    columns = ("judge", "AUC", "tokens a draft", "threshold", "accepts", "wrong", "right ones lost")
    table = plain_table(*columns, right=columns[1:])
    for setting in found.settings:
        numbers = ("-",) * 4
        if setting.threshold is not None:
            lost = found.right - setting.right_accepted
            numbers = (
                f"{setting.threshold:g}",
                f"{setting.accepted} of {found.n}",
                f"{setting.wrong}",
                f"{lost} of {found.right}",
            )
        auc = "-" if setting.auc is None else f"{setting.auc:.2f}"
        table.add_row(Text(safe(setting.name), style="bold"), auc, f"{setting.tokens:.0f}", *numbers)
    screen.put(table)
    if found.chosen:
        screen.line(
            f"\n{found.chosen.name}, from {found.chosen.threshold:g} on: at most {percent(found.alpha)} of what it "
            f"accepts is wrong, with confidence {percent(1 - found.delta)}"
        )
        screen.line(
            ("wrote ", "dim"), str(out), ("; use it: ", "dim"), f"redraft run … --judge {shlex.quote(str(out))}"
        )
