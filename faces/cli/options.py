"""Command-line options that commands share, and those of presets; nothing heavy is imported for them. Internal."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_origin

import typer

from ..problems import DEFAULT_DB, BadInputError, ProblemError, bad_input
from ..sessions import OPENAI_DEFAULT, listing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...graphs.preset import Option

__all__ = [
    "AllowChanges",
    "AnswerField",
    "AsJson",
    "CostBudget",
    "Db",
    "DemoModel",
    "MaxOutputTokens",
    "MaxRounds",
    "MethodCritic",
    "Model",
    "Patience",
    "Prices",
    "PromptFile",
    "QuestionField",
    "Temperature",
    "ThreadId",
    "TimeBudget",
    "Timeout",
    "TokenBudget",
    "TrustRecipe",
    "age",
    "critic_help",
    "examples",
    "given_limits",
    "with_preset_options",
]

DATA = "Which rows"
LIMITS = "When to stop"
MODELS = "Who writes and who judges"


def thread_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Return the ids that a shell completes a word to, the thread that moved last first."""
    try:
        with listing(context.params.get("db") or DEFAULT_DB) as saver:
            return [*(name for name in ["last"] if name.startswith(incomplete)), *saver.runs.ids(incomplete, limit=50)]
    except (ProblemError, ValueError, OSError):
        return []


ThreadId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="A thread, as `redraft threads` lists it: its id, the beginning of it, or last.",
        autocompletion=thread_ids,
    ),
]
Db = Annotated[
    str,
    typer.Option(
        envvar="REDRAFT_DB",
        metavar="DB",
        help=f"Where runs are kept: a SQLite file, postgresql://user@host/name, or memory (default {DEFAULT_DB}).",
        show_default=False,
        show_envvar=True,
    ),
]
AllowChanges = Annotated[
    bool,
    typer.Option(
        "--allow-changes",
        help="Go on also where the graph differs from the one that the run was begun with; the record says in what.",
    ),
]
TrustRecipe = Annotated[
    bool,
    typer.Option(
        "--trust-recipe",
        envvar="REDRAFT_TRUST_RECIPE",
        help="Follow a recipe that somebody else wrote into the database: its models' addresses, its files.",
        show_envvar=True,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout; progress goes to stderr.")]


def _model(without: str) -> Any:
    return typer.Option(
        envvar="REDRAFT_MODEL",
        metavar="SPEC",
        help="openai:NAME, another PROVIDER:NAME, http://host:port/v1#NAME, gguf:FILE, or local (embedded). "
        f"Without it: {without}.",
        rich_help_panel=MODELS,
    )


Model = Annotated[str | None, _model(f"{OPENAI_DEFAULT}, which is paid, where OPENAI_API_KEY is set; else local")]
DemoModel = Annotated[str | None, _model("local")]
Temperature = Annotated[
    float | None, typer.Option(metavar="T", help="Sampling temperature of the writer.", rich_help_panel=MODELS)
]
MaxOutputTokens = Annotated[
    int | None, typer.Option(metavar="N", help="Longest reply, in tokens.", rich_help_panel=MODELS)
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="S",
        help="Seconds that an attempt of a call may take, 600 if not given; each call has five attempts.",
        rich_help_panel=MODELS,
    ),
]
Prices = Annotated[
    str | None, typer.Option(metavar="FILE", help="A table of prices of your own.", rich_help_panel=MODELS)
]
PromptFile = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="FILE",
        help="Prompts in place of its own: a file of texts by name.",
        rich_help_panel=MODELS,
    ),
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", help="Seed for sampling, where it is known.", rich_help_panel=MODELS)
]
RecipeFile = Annotated[
    Path | None,
    typer.Option(
        "--recipe", metavar="FILE", help="Options from a file, as `redraft tune` writes it; a flag overrides it."
    ),
]
MethodCritic = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="Judges in self-refine and graphs: a model, or a critic as in `redraft run`; else the writer does.",
        rich_help_panel=MODELS,
    ),
]
QuestionField = Annotated[
    str | None, typer.Option(metavar="NAME", help="Where a line has its question.", rich_help_panel=DATA)
]
AnswerField = Annotated[
    str | None, typer.Option(metavar="NAME", help="Where a line has its gold answer.", rich_help_panel=DATA)
]
MaxRounds = Annotated[
    int | None,
    typer.Option(metavar="N", help="Revisions at most; 0 judges the first draft only.", rich_help_panel=LIMITS),
]
TokenBudget = Annotated[
    int | None, typer.Option(metavar="N", help="Tokens in and out, all calls together.", rich_help_panel=LIMITS)
]
TimeBudget = Annotated[
    float | None, typer.Option(metavar="S", help="Seconds spent in calls; a pause is free.", rich_help_panel=LIMITS)
]
CostBudget = Annotated[
    float | None, typer.Option(metavar="USD", help="Dollars; needs models of known price.", rich_help_panel=LIMITS)
]
Patience = Annotated[
    int | None, typer.Option(metavar="N", help="Rounds in a row without a better score.", rich_help_panel=LIMITS)
]

_OPTION_OF = {
    "max_rounds": "--max-rounds",
    "max_tokens": "--token-budget",
    "max_seconds": "--time-budget",
    "max_cost_usd": "--cost-budget",
    "patience": "--patience",
}


def given_limits(current: Mapping[str, Any] | None = None, /, **limits: float | None) -> dict[str, Any]:
    """Return the limits that were given, checked.

    Args:
        current: Limits that hold where none is given.
        limits: By their names in `Limits`; `None` is not given.

    Raises:
        BadInputError: One makes no sense; the message names the option.
    """
    values = {name: value for name, value in limits.items() if value is not None}
    if not values:
        return {}
    from ...state.limits import Limits

    try:
        Limits(**{**(current or {}), **values})
    except ValueError as error:
        message = str(error).removeprefix("limits: ")
        for name, option in _OPTION_OF.items():
            message = message.replace(f"{name}=", f"{option} ")
        raise BadInputError(message) from error
    return values


def _judging(text: str) -> Any:
    return Annotated[list[str] | None, typer.Option(metavar="SPEC", help=text, rich_help_panel=MODELS)]


def _every_run(
    *,
    graph: str = "refine",
    model: Model = None,
    critic: list[str] | None = None,
    verify: list[str] | None = None,
    temperature: Temperature = None,
    max_output_tokens: MaxOutputTokens = None,
    seed: Seed = None,
    timeout: Timeout = None,
    prices: Prices = None,
    prompts: PromptFile = None,
    recipe_file: RecipeFile = None,
    max_rounds: MaxRounds = None,
    token_budget: TokenBudget = None,
    time_budget: TimeBudget = None,
    cost_budget: CostBudget = None,
    patience: Patience = None,
) -> None:
    """The options of each command that runs a preset; `_of_presets` writes the help of the first and of the judges."""


_FIELD_OF = {"critic": "critics", "verify": "verifiers", "timeout": "timeout_s"}


def with_preset_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of every run, and a flag for each option of the presets.

    They stand before its `db`. The command is given `limits`, checked, and `written`, which `recipe_given` takes. The
    presets' stand behind `--verify` on the help page, each with the graphs that it is for.
    """
    from ...nodes.verify.verifiers import type_in

    flags, added = _of_presets()
    # Annotations are strings under `from __future__ import annotations`, and are wanted as types here.
    own = [
        one for one in signature(command, eval_str=True).parameters.values() if one.kind is not Parameter.KEYWORD_ONLY
    ]
    shared = list(signature(_every_run, eval_str=True).parameters.values())
    before, behind = [one.name for one in own].index("db"), [one.name for one in shared].index("verify") + 1
    every = (*own[:before], *shared[:behind], *added, *shared[behind:], *own[before:])

    @wraps(command)
    def with_options(**values: Any) -> None:
        if values["answer_type"] is not None:
            with bad_input():  # the schema and not its file goes into the recipe
                values["answer_type"] = type_in(values["answer_type"])
        given = {one.name: values.pop(one.name) for one in own}
        limits = given_limits(**{name: values.pop(flag[2:].replace("-", "_")) for name, flag in _OPTION_OF.items()})
        written = {name: values.pop(name) for name in ("graph", "model", "recipe_file", "prompts")}
        written["flags"] = {_FIELD_OF.get(name, name): value for name, value in values.items()}
        command(**given, limits=limits, written=written)

    parameters = [
        one.replace(kind=Parameter.KEYWORD_ONLY, annotation=flags.get(one.name, one.annotation)) for one in every
    ]
    with_options.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return with_options


def _of_presets() -> tuple[dict[str, Any], list[Parameter]]:
    """Return the options of every run whose help the registry writes, and those of the presets."""
    from ...graphs.registry import known_options, registered
    from ...nodes.verify.verifiers import known_verifiers

    presets = [preset for preset in registered() if not preset.own_command]
    names = ", ".join(preset.name for preset in presets)
    checks = " · ".join(
        f"{kind.name}:{kind.argument}".rstrip(":") + (f" ({kind.line})" if kind.line else "")
        for kind in known_verifiers().values()
    )
    flags = {
        "graph": Annotated[str, typer.Option(metavar="NAME", help=f"The workflow: {names}.")],
        "critic": _judging(f"{critic_help()} May be repeated."),
        "verify": _judging(f"A program that judges: {checks}; may be repeated."),
    }
    # One without a flag is for Python and recipes.
    added = [
        _flag(option, [preset.name for preset in presets if option in preset.options])
        for option in known_options().values()
        if option.flag
    ]
    return flags, added


def _flag(option: Option, graphs: Sequence[str]) -> Parameter:
    """Return the parameter that typer reads the flag of a presets' option from."""
    is_flag = option.kind is bool
    # A path or a choice is text to typer: `RunConfig` checks it, here as in a stored recipe.
    kind: Any = option.kind if option.kind in (bool, int, float) else str
    kind = list[str] if get_origin(option.kind) is tuple else kind
    declared = typer.Option(
        option.flag,
        *(f"--{alias.replace('_', '-')}" for alias in option.aliases),
        metavar=option.metavar,
        min=option.least,
        max=option.most,
        help=f"{option.help} For --graph {', '.join(graphs)}." if graphs else option.help,
        rich_help_panel=MODELS if option.judging else None,
    )
    annotation: Any = Annotated[kind if is_flag else kind | None, declared]
    default = False if is_flag else None
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def critic_help() -> str:
    """Return the help of `--critic`, read off the registry."""
    from ...nodes.critics.registry import known_critics
    from ...nodes.verify.verifiers import known_verifiers

    own = [kind for name, kind in known_critics().items() if name not in known_verifiers()]
    named = [f"{kind.name}:{kind.argument}".rstrip(":") + f" ({kind.line})" for kind in own]
    return f"Who judges: self, a model, {', '.join(named)}, or a verifier as in `redraft run --verify`."


def examples(*lines: str) -> str:
    """Return the foot of a help page: commands to copy, one a line."""
    # typer prints it as rich markup, which takes what stands in brackets for a style.
    return "\n".join(["[bold]Examples[/bold]", *(f"[dim]$[/dim] {line}".replace(" [", " \\[") for line in lines)])


def age(text: str, option: str) -> timedelta:
    """Return the time that an option such as `--older-than` names."""
    match = AGE.fullmatch(text.strip())
    if match is None:
        raise BadInputError(f"{option} takes a number and d, h or m, such as 30d, not {text!r}")
    unit = {"d": "days", "h": "hours", "m": "minutes"}[match["unit"]]
    if (duration := timedelta(**{unit: float(match["number"])})) > LONGEST:
        raise BadInputError(f"{option} {text} is more than {LONGEST.days}d")
    return duration


AGE = re.compile(r"(?P<number>\d{1,6}(?:\.\d{1,3})?)\s*(?P<unit>[dhm])")
LONGEST = timedelta(days=36500)
