"""Critics by name, as `--critic`, recipes, judge files and a server's callers write them. Internal.

It imports none of them, so that a help page can list them at once. To add one, write its file and a line in `OWN`; a
package adds one with an entry point in the group `redraft.critics`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._plugins import plugin_cache, registered
from ..verify.verifiers import known_verifiers, stored_verifier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from ..writing.prompts import Prompts

__all__ = [
    "FIELD",
    "SELF",
    "CriticKind",
    "as_critics",
    "critic_model",
    "known_critics",
    "named_critic",
    "on_itself",
    "parted",
    "scores",
]

SELF = "self"
"""The model that writes, as its own judge."""
FIELD = "field:"
"""Before the name of a score that stands in a file of labelled drafts."""


class CriticKind(NamedTuple):
    """A critic that is known by name: `--critic checklist:self`.

    A package of one's own registers it by an entry point:

        [project.entry-points."redraft.critics"]
        syllables = "my_package.haiku:SYLLABLES"
    """

    name: str
    """The text before the colon."""
    line: str
    """What it is asked, for a help page."""
    build: Callable[[Any, str], Any]
    """`(model, argument) -> critic`: the model that its argument names, else the one that writes; the argument as a
    text. It raises ValueError where that makes no sense, and imports what it needs when it is called."""
    argument: str = ""
    """The argument as a help page shows it: `MODEL` is `self` or a model's spec, anything else a text. Empty: it takes
    none."""
    measured: bool = False
    """Its score is measured, and no opinion: of several votes the mean score counts, not the share that accepts."""


@plugin_cache
def known_critics() -> Mapping[str, CriticKind]:
    """Return the critics by name: redraft's own, those of installed packages, then each verifier as a critic.

    Raises:
        ValueError: One of another package can't be used.
    """
    kinds = registered("redraft.critics", CriticKind, OWN, taken=(SELF, *known_verifiers()))
    for checks in known_verifiers().values():
        line, build = f"as --verify {checks.name}", partial(_verifier, checks.name)
        kinds[checks.name] = CriticKind(checks.name, line, build, checks.argument)
    return kinds


def critic_model(spec: str) -> str:
    """Return the model that a critic's spec names; empty for one that names none."""
    name, _, argument = spec.partition(":")
    kind = known_critics().get(name)
    bare = spec if kind is None else argument if kind.argument == "MODEL" else ""
    return "" if bare == SELF else bare


def on_itself(spec: str) -> str:
    """Return a critic's spec with the model that writes in place of the one that it names."""
    model = critic_model(spec)
    return f"{spec.removesuffix(model)}{SELF}" if model else spec


def scores(spec: str) -> bool:
    """Return True if a spec names a critic whose score is measured."""
    kind = known_critics().get(spec.partition(":")[0])
    return kind is not None and kind.measured


def as_critics(critics: Sequence[Any], *, prompt: Prompts | None = None) -> list[Any]:
    """Return the critics with each chat model among them as a critic that asks it.

    Args:
        critics: Critics and chat models.
        prompt: Of the models.

    Raises:
        ValueError: There is a prompt, and no model to ask with it.
    """
    from .model_critic import ModelCritic

    models, _ = parted(critics)
    if prompt is not None and not models:
        raise ValueError(
            "critic_prompt= is for the default critic; give your critic its prompt: model_critic(…, prompt=)"
        )
    return [
        ModelCritic(one, prompt=prompt, what="critic_prompt") if any(one is model for model in models) else one
        for one in critics
    ]


def parted(critics: Sequence[Any]) -> tuple[list[BaseChatModel], list[Any]]:
    """Return the chat models among critics, and the others."""
    from langchain_core.language_models import BaseChatModel

    models = [critic for critic in critics if isinstance(critic, BaseChatModel)]
    return models, [critic for critic in critics if not isinstance(critic, BaseChatModel)]


def named_critic(spec: str, writer: Any, build_model: Callable[[str], BaseChatModel]) -> Any:
    """Return the critic that a spec names; a chat model where it is `self` or names a model.

    Args:
        spec: `self`, a model, or the name of a critic or verifier, with its argument behind a colon.
        writer: The model that writes the drafts.
        build_model: Makes a model of a spec.

    Raises:
        ValueError: The spec makes no sense.
    """
    name, _, argument = spec.partition(":")
    kind = known_critics().get(name)
    model = build_model(other) if (other := critic_model(spec)) else writer
    if kind is None:
        return model
    if bool(argument) != bool(kind.argument) and kind.argument != "MODEL":
        takes = f"{name}:{kind.argument}" if kind.argument else f"{name}, and nothing behind it"
        raise ValueError(f"the critic {spec!r} makes no sense: write {takes}")
    return kind.build(model, argument)


def _verifier(name: str, model: object, argument: str) -> Any:
    from .critics import verifier_critic

    return verifier_critic(stored_verifier(f"{name}:{argument}" if argument else name))


def _program(model: BaseChatModel, argument: str) -> Any:
    from ..programs import default_sandbox
    from .program_critic import program_critic

    return program_critic(model, default_sandbox())


def _tests(model: object, argument: str) -> Any:
    from ..programs import default_sandbox
    from ..verify.code_checks import passes_visible_tests
    from .critics import verifier_critic

    return verifier_critic(passes_visible_tests(default_sandbox()))


def _checklist(model: BaseChatModel, argument: str) -> Any:
    from .measured_critics import ChecklistCritic

    return ChecklistCritic(model, name=f"checklist:{argument or SELF}")


def _logprob(model: BaseChatModel, argument: str) -> Any:
    from .measured_critics import LogprobCritic

    return LogprobCritic(model, name=f"logprob:{argument or SELF}")


def _field(model: object, argument: str) -> Any:
    raise ValueError(
        f"{FIELD}{argument} is a score in a file, which only Python can give a critic for: calibrated([…], …)"
    )


OWN = (
    CriticKind("program", "for numbers: a program that the model writes", _program),
    CriticKind("tests", "for code: the tests in the task must pass", _tests),
    CriticKind("checklist", "four yes/no questions", _checklist, "MODEL", measured=True),
    CriticKind("logprob", "the probability of yes", _logprob, "MODEL", measured=True),
    CriticKind("field", "a score in labelled rows, for calibrate", _field, "NAME"),
)
