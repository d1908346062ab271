"""Graphs, checks and scores by name, as the commands of evaluations take them. Internal.

`module:name` imports from the folder at hand too: these commands run what their user names, and nobody else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..datasets.own_rows import Score

__all__ = ["brings_model", "imported", "named_graph", "named_options", "named_score", "named_subject"]


RECIPE = ".json"
"""What the name of a recipe's file ends with."""


def brings_model(text: str) -> bool:
    """Tell if a graph's name stands for one that has its model, where none is given: one's own, or a recipe's."""
    return ":" in text or text.endswith(RECIPE)


def imported(text: str, what: str) -> Any:
    """Return the object that `module:name` names.

    Raises:
        ValueError: There is none; the message says what was looked for.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return resolve_name(text)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{what} {text!r} can't be imported: {error}") from None


def named_graph(
    text: str,
    writer: Any,
    *,
    critics: Sequence[Any] = (),
    verify: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
) -> Any:
    """Return a graph by its name.

    Args:
        text: A preset, a recipe's file, or `module:name` of a graph, an agent or a function of the task.
        writer: The model of a preset.
        critics: Who judges in a preset, or around what is no graph of redraft's.
        verify: Verifiers as `--verify` takes them, or `module:name` of a function of one's own.
        options: Of a preset.
        given: In place of what a recipe says: the model's spec and its settings; `None` where they were not given.

    Raises:
        ValueError: One makes no sense.
    """
    from ...faces.run_config import build_from_recipe, read_recipe
    from ...graphs.registry import build_preset
    from ...nodes.verify.verifiers import known_verifiers, stored_verifier
    from ..run.own_graph import own_graph

    if text.endswith(RECIPE):
        if critics or verify or options:
            raise ValueError(f"{text!r} says itself who judges and with which options: leave these flags out")
        over = {name: value for name, value in (given or {}).items() if value is not None}
        return build_from_recipe({**read_recipe(text), **over})
    known = known_verifiers()
    own = {one: ":" in one and one.partition(":")[0] not in known for one in verify}
    checks = [imported(one, "--verify") if own[one] else stored_verifier(one) for one in verify]
    if ":" not in text:
        return build_preset(text, writer, critics=critics, verifiers=checks, **(options or {}))
    if options:
        raise ValueError(f"--option {next(iter(options))} is for a preset, and {text!r} is a graph of yours")
    return own_graph(imported(text, "--graph"), verifiers=checks, critics=critics)


def named_score(text: str | None, writer: Any) -> Score | None:
    """Return a score by its name: `module:name` of a function of `(row, answer)`, or the file of a calibrated judge."""
    from ...models import chat_model
    from ...nodes.critics.calibrated import judge_from_specs
    from ...nodes.critics.judge_file import read_judge

    if text is None:
        return None
    if text.endswith(".json"):
        judge: Score = judge_from_specs(read_judge(Path(text)).model_dump(mode="json"), writer, chat_model)
        return judge
    score: Score = imported(text, "--score")
    return score


def named_subject(
    text: str,
    *,
    model: str | None,
    critic: str | None,
    verify: Sequence[str],
    score: str | None,
    options: Sequence[str],
    tuning: Mapping[str, Any],
) -> tuple[Any, Score | None, str]:
    """Return the graph, the score and a note on the model that a command names.

    Args:
        text: As in `named_graph`.
        model: The spec of a preset's model; default: the embedded one, and the note says so.
        critic: Judges in a preset.
        verify: As in `named_graph`.
        score: As in `named_score`.
        options: `NAME=VALUE` each, of a preset.
        tuning: As of `chat_model`.

    Raises:
        ValueError: One makes no sense.
    """
    from ...faces.sessions import model_or_default
    from ...models import chat_model
    from ...nodes.critics.registry import SELF, named_critic

    spec, note = (None, "") if model is None and brings_model(text) else model_or_default(model)
    writer = None if spec is None else chat_model(spec, **tuning)
    judges = () if critic is None else (writer if critic == SELF else named_critic(critic, writer, chat_model),)
    given = {"model": model, **tuning}
    graph = named_graph(text, writer, critics=judges, verify=verify, options=named_options(options), given=given)
    return graph, named_score(score, writer), note or ""


def named_options(given: Sequence[str]) -> dict[str, Any]:
    """Return options by name, each value as JSON has it or else as text."""
    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--option takes NAME=VALUE, such as depth=1, not {text!r}")
        try:
            content = json.loads(value)
        except ValueError:
            content = value
        values[name.strip().replace("-", "_")] = tuple(content) if isinstance(content, list) else content
    return values
