"""Preset `writing`: text under constraints, each checked by a program. Internal.

Constraints are words, length, pattern, JSON schema and reading level. They stand in the
prompts in plain words, and each that a draft breaks says what is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..models.specs import as_model
from ..nodes.arguments import check_lists
from ..nodes.critics.critics import HumanCritic, VerifierCritic, verifier_critic
from ..nodes.mending.ladder import WISHES
from ..nodes.verify.json_schema import matches_json_schema
from ..nodes.verify.text_verifiers import has_length, matches, reading_level, uses_words, wanted
from ..nodes.writing.adding_words import CLAUSE_PROMPT, WordAddingWriter
from ..nodes.writing.prompts import PromptedModel, Prompts, seen_by_refiner
from ..nodes.writing.sampling import sampled
from ..nodes.writing.writers import AdaptiveWriter
from ..state.stopping import Arm
from .loop import TASK_ONLY, RefineGraph, build_refine_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from ..state.critique import AnyVerifier

__all__ = [
    "CLAUSE_PROMPT",
    "WRITING_ARMS",
    "WRITING_GENERATE_PROMPT",
    "WRITING_REFINE_PROMPT",
    "WRITING_TASK",
    "build_writing_graph",
    "writing_task",
]


WRITING_ARMS = (Arm("revise", tries=2), Arm("rewrite", tries=1))
"""A clause with missing words; where that brings nothing, the whole text is written anew."""


def build_writing_graph(
    model: BaseChatModel | str,
    *,
    verifiers: Sequence[AnyVerifier | VerifierCritic | str] = (),
    words: Sequence[str] = (),
    min_words: int | None = None,
    max_words: int | None = None,
    pattern: str | None = None,
    json_schema: Mapping[str, Any] | bool | None = None,
    max_grade: float | None = None,
    critics: Sequence[Any] | None = None,
    clause_prompt: Prompts | None = CLAUSE_PROMPT,
    **options: Any,
) -> RefineGraph:
    """Return the loop for texts under constraints: accepted is what meets all of them.

    Without any constraint the model judges its own text. To have both, give `critics=[model_critic(judge)]` and
    `critics_after="always"`.

    Args:
        model: Writes the text.
        verifiers: Further checks, `(task, draft) -> Critique`. Those of `redraft.nodes.verify` tell the model what they
            want; for one of your own the task should say it.
        words: Words that must occur as they are, in any case.
        min_words: The fewest words, parted by white space.
        max_words: The most words.
        pattern: A regular expression that must be found in the text; `^` and `$` match at lines.
        json_schema: A JSON Schema that the text, which is JSON and nothing else, must fit; needs the extra `writing`.
        max_grade: The highest US school grade (Flesch–Kincaid) at which the text may read; needs the extra `writing`.
        critics: Asked beside the constraints, by default only where there are none. Default there: the model itself.
        clause_prompt: Template over `words` and `draft`. Where `words` are the only constraint and many are missing, or
            rewriting did not bring them, the model is asked for a clause that is added to the draft. `None`: never.
        options: Everything else that `build_refine_graph` takes.

    Raises:
        ValueError: At build: a constraint makes no sense; the message names the argument. Or as in
            `build_refine_graph`.
        TypeError: At build: a verifier is not callable.
        ImportError: At build: a constraint needs an extra that is not installed.

    Example:
        >>> from redraft import build_writing_graph
        >>> from redraft.models import ScriptedModel
        >>> model = ScriptedModel(["Wind shakes the last leaf."])
        >>> graph = build_writing_graph(model, words=["leaf", "wind"], max_words=8)
        >>> graph.invoke({"task": "Write about autumn."})["answer"]
        'Wind shakes the last leaf.'
    """
    check_lists(critics=critics, verifiers=verifiers)
    checks = _constraints(words, (min_words, max_words), pattern, json_schema, max_grade)
    checks += [check if isinstance(check, VerifierCritic) else verifier_critic(check) for check in verifiers]
    people_only = all(isinstance(critic, HumanCritic) for critic in critics or ())
    as_text = not options.get("refine") and options.get("answer_type") is None
    words_alone = words and len(checks) == 1 and people_only and as_text
    clause = clause_prompt if words_alone else None
    # Where words are all that is wanted they stand in prompts of their own, else with the task.
    requirements = f"{WISHES}\n- {wanted(checks[0].verifier)}" if clause is not None else ""
    requirements = requirements.replace("{", "{{").replace("}", "}}") if options.get("tell_checks", True) else ""
    revising = WRITING_REFINE_PROMPT.replace("CONSTRAINTS", requirements)
    defaults: dict[str, Any] = {
        **TASK_ONLY,
        "generate_prompt": WRITING_GENERATE_PROMPT.replace("CONSTRAINTS", requirements),
        **({} if checks else {"refine_prompt": revising}),
        "name": "writing",
    }
    judges = None if critics is None and not checks else [*checks, *(critics or [])]
    if clause is not None:
        seen = seen_by_refiner(options)
        prompt = options.pop("refine_prompt", revising)
        model = as_model(model)
        # Sampled, since a model that is sure of itself writes the same again.
        later = sampled(model)
        writers = {
            "revise": WordAddingWriter(later, prompt, clause_prompt=clause, **seen),
            # Earlier attempts would fill the context, and what they lacked is in the feedback.
            "rewrite": PromptedModel(later, prompt, what="refine_prompt", **{**seen, "memory": "last"}),
        }
        defaults |= {"refine": AdaptiveWriter(writers, WRITING_ARMS), "tell_checks": False}
        options.pop("tell_checks", None)
    return build_refine_graph(model, critics=judges, **{**defaults, **options})


def writing_task(row: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the task of a CommonGen-hard row, and the words for `build_writing_graph(words=…)`.

    Args:
        row: With `concepts`, the words that one coherent sentence must use.

    Raises:
        ValueError: The row has no list of words as `concepts`.
    """
    words = row.get("concepts")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise ValueError(f"a CommonGen row needs a list of words as 'concepts', not {words!r}")
    return WRITING_TASK.format(words=", ".join(words)), list(dict.fromkeys(words))


def _constraints(
    words: Sequence[str],
    length: tuple[int | None, int | None],
    pattern: str | None,
    json_schema: Mapping[str, Any] | bool | None,
    max_grade: float | None,
) -> list[VerifierCritic]:
    """Return the constraints as critics."""
    if isinstance(words, str):
        raise ValueError(f"words must be a list of words, not the text {words!r}")  # noqa: TRY004  as any other bad one
    constraints: list[tuple[str, bool, Callable[[], AnyVerifier]]] = [
        (f"words={words!r}", bool(words), lambda: uses_words(*words)),
        (f"min_words={length[0]!r}, max_words={length[1]!r}", length != (None, None), lambda: has_length(*length)),
        (f"pattern={pattern!r}", pattern is not None, lambda: matches(pattern or "")),
        (
            f"json_schema={json_schema!r}",
            json_schema is not None,
            lambda: matches_json_schema(json_schema if json_schema is not None else {}),
        ),
        (f"max_grade={max_grade!r}", max_grade is not None, lambda: reading_level(max_grade or 0)),
    ]
    critics = []
    for named, wanted_at_all, make in constraints:
        try:
            critics += [verifier_critic(make())] if wanted_at_all else []
        except (TypeError, ValueError) as error:
            raise ValueError(f"{named}: {error}") from None
    return critics


WRITING_TASK = "Write one coherent, grammatical sentence that uses all of these words: {words}"

WRITING_GENERATE_PROMPT = """\
{task}CONSTRAINTS

Reply with the text only: no preface, no comment."""

WRITING_REFINE_PROMPT = """\
Task:
{task}CONSTRAINTS

Earlier attempts, for what not to repeat:
{history}

Current text:
{draft}

What is wrong with it:
{feedback}

Mend every point, and keep what is right already. Reply with the new text only: no preface, no comment."""
