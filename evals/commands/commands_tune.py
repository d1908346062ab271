"""Command `tune`: prompts improved from what was said of their drafts. Internal."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..._files import write_file
from ...faces.cli.options import (
    DATA,
    LIMITS,
    MODELS,
    AnswerField,
    AsJson,
    MaxOutputTokens,
    MethodCritic,
    Model,
    QuestionField,
    Temperature,
)
from ...faces.problems import BadInputError, RunStoppedError, Stopping, bad_input
from ...faces.views.wording import amount, percent

if TYPE_CHECKING:
    from ...faces.views.console import Screen
    from ..tuning.tuning import TuningProgress

__all__ = ["tune"]

REFLECTION_TEMPERATURE = 1.0
"""As in gepa: at the writer's temperature, often 0, a model proposes the same again and again."""


def tune(
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET", help="As for `redraft eval`: development rows, not those you report on.")
    ],
    budget_tokens: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Tokens in and out of all calls: trials, proposals and the report. Once spent, no call begins.",
            rich_help_panel=LIMITS,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The prompts, and all that was measured.")],
    method: Annotated[str, typer.Option(metavar="NAME", help="The method whose prompts are improved.")] = "adaptive",
    model: Model = None,
    critic: MethodCritic = None,
    reflection_model: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help="Proposes the prompts; else the writer does, at temperature 1.", rich_help_panel=MODELS
        ),
    ] = None,
    temperature: Temperature = None,
    max_output_tokens: MaxOutputTokens = None,
    prompts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Prompts to begin with; else the method's own.")
    ] = None,
    train: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Rows whose critiques it learns from; else a quarter.", rich_help_panel=DATA
        ),
    ] = None,
    validation: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=2, help="Rows by which prompts are chosen; else a quarter.", rich_help_panel=DATA
        ),
    ] = None,
    minibatch: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows looked at for a proposal.", rich_help_panel=DATA)
    ] = 3,
    shown_characters: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1000,
            help="What the reflection model is shown for a proposal; 8000 fit a context of 4,096 tokens.",
            rich_help_panel=DATA,
        ),
    ] = 8_000,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=4, help="So many rows of the file; else all.", rich_help_panel=DATA)
    ] = None,
    offset: Annotated[int, typer.Option(metavar="N", min=0, help="Leave out the first N.", rich_help_panel=DATA)] = 0,
    seed: Annotated[
        int, typer.Option(metavar="S", help="Of the split, of sampling and of the search.", rich_help_panel=DATA)
    ] = 0,
    question_field: QuestionField = None,
    answer_field: AnswerField = None,
    cost_up_to: Annotated[
        float,
        typer.Option(
            metavar="X",
            min=1,
            help="The chosen prompts may take X times the untuned ones' tokens a row; dearer ones are listed only.",
            rich_help_panel=LIMITS,
        ),
    ] = 1.05,
    concurrency: Annotated[int, typer.Option(metavar="C", min=1, help="Rows worked on at once.")] = 4,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what FILE.run holds; no answered call is paid again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Improve the prompts that write, judge and refine, by reflection on critiques, within a token budget.

    The rows are split in three. On the first part a model reads what the method's calls were asked, what they replied,
    which answers were right or wrong, and what critics said, never a gold answer, and proposes another prompt. Prompts
    are chosen on the second. The third, which tuning never sees, says whether they are better than the untuned ones at
    equal cost. It needs the extra `tune`.

    Use what it found with --prompts FILE, in `run`, `eval` and `serve`, and in Python as
    build_math_graph(model, **builder_prompts("FILE")).
    """
    from ...faces.run_config import kept_spec
    from ...faces.sessions import encryption_key, model_or_default, seal_key
    from ...faces.views.console import Screen, say
    from ...models import chat_model
    from ...nodes.writing.prompt_files import read_prompts
    from ..datasets.dataset import load_dataset
    from ..run.methods import check_methods
    from ..tuning.tuning import tune_prompts

    folder = out.with_name(f"{out.name}.run")
    if folder.exists() and not resume:
        raise BadInputError(f"{folder} holds a run already: --resume goes on with it, another --out begins anew")
    fields = {
        name: field for name, field in (("question_field", question_field), ("answer_field", answer_field)) if field
    }
    screen = Screen(as_json=as_json)
    spec, note = model_or_default(model)
    if note:
        say(note)
    with bad_input():
        data = load_dataset(dataset, **fields).sample(limit, None if limit is None else seed, offset=offset)  # type: ignore[arg-type]
        check_methods([method], data.kind)
        spec = kept_spec(spec)
        options = {"temperature": temperature, "max_output_tokens": max_output_tokens, "seed": seed}
        reflecting = {"temperature": REFLECTION_TEMPERATURE, "max_output_tokens": max_output_tokens}
        others = {"critic": critic, "reflection_model": reflection_model}
        built = {name: other and other != "self" and chat_model(kept_spec(other)) for name, other in others.items()}
        try:
            found = tune_prompts(
                data,
                folder,
                method=method,
                model=chat_model(spec, **options),  # type: ignore[arg-type]
                budget_tokens=budget_tokens,
                critic=built["critic"] or None,
                reflection_model=built["reflection_model"] or chat_model(spec, **reflecting),  # type: ignore[arg-type]
                prompts=read_prompts(prompts) if prompts else None,
                train=train,
                validation=validation,
                minibatch=minibatch,
                seed=seed,
                cost_up_to=cost_up_to,
                concurrency=concurrency,
                shown_characters=shown_characters,
                encryption_key=encryption_key(),
                seal_key=seal_key(),
                named={"model": spec, **others, "model_options": options},
                on_progress=lambda progress: _show_progress(screen, progress),
            )
        except RuntimeError as error:
            raise RunStoppedError(f"{error}; what is done is in {folder}, and --resume goes on") from None
        except KeyboardInterrupt:
            raise RunStoppedError(
                f"interrupted; what is done is in {folder}; the same command with --resume goes on",
                exit_code=Stopping.exit_code(),
            ) from None
    write_file(out, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    screen.result(found, lambda screen: _show(screen, found, out))


def _show_progress(screen: Screen, progress: TuningProgress) -> None:
    said = f"{progress.spent:,} of {amount(progress.budget, 'token')}"
    if progress.best is not None:
        said += f" · best {percent(progress.best)} (untuned {percent(progress.untuned or 0.0)})"
    screen.line((f"{progress.stage}  {said} · {progress.candidates} measured", "dim"))


def _show(screen: Screen, found: dict[str, Any], out: Path) -> None:
    """Show what was found and what it is worth on rows that tuning never saw."""
    before, after = found["validation"]["untuned"], found["validation"]["tuned"]
    spent = found["spent_tokens"]
    screen.line(f"stopped: {found['stopped']} · {amount(spent['all'], 'token')}, {spent['reflection']:,} to reflect")
    if not found["changed"]:
        screen.line(f"No better prompts at this cost: the untuned ones are right on {_share(before)} validation rows.")
    else:
        screen.line(f"changed: {', '.join(found['changed'])}")
        screen.line(f"validation: {_share(before)} → {_share(after)}, by which they were chosen")
        _show_report(screen, found["held_out"])
    if found["refused"]:
        screen.line((f"{len(found['refused'])} proposals were refused, for what they lacked", "dim"))
    screen.line(("wrote ", "dim"), str(out), ("; use it: ", "dim"), f"redraft run … --prompts {shlex.quote(str(out))}")


def _show_report(screen: Screen, held: dict[str, Any]) -> None:
    if not held["n"]:
        screen.line("Whether that holds on rows never seen can't be said: the budget was spent before.")
        return
    low, high = held["diff_ci95"]
    chance = "" if held["mcnemar_p"] < 0.05 else ", which could be chance"
    screen.line(
        f"rows never seen: {percent(held['before'])} → {percent(held['after'])} of {held['n']}, "
        f"{100 * held['diff']:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f}), "
        f"fixed {held['fixed']}, broke {held['broken']}, p = {held['mcnemar_p']:.3f}{chance}"
    )
    equal = "equal cost" if held["equal_cost"] else "not equal cost"
    screen.line(f"tokens a row: {held['untuned_tokens_a_row']:.0f} → {held['tuned_tokens_a_row']:.0f}, {equal}")


def _share(one: dict[str, Any]) -> str:
    low, high = one["ci95"]
    return f"{one['k']} of {one['n']} ({percent(low)} to {percent(high)})"
