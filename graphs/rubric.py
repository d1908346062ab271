"""Preset `rubric`. Internal.

Answers scored on weighted dimensions, and revised where they are weak until the overall is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..models.specs import as_model
from ..nodes.rubric.judges import JUDGE_PROMPT, DimensionJudge, GroundedModel
from ..nodes.rubric.rubrics import Dimension, Rubric, Vote
from ..nodes.rubric.wiring import rubric_wiring
from ..nodes.writing.prompts import Prompts, seen_by_refiner
from ..nodes.writing.sampling import revising_model
from .loop import TASK_ONLY, RefineGraph, build_refine_graph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.language_models import BaseChatModel
    from langgraph.store.base import BaseStore

    from ..nodes.rubric.critic import Adaptive, Panel

__all__ = [
    "DEFAULT_RUBRIC",
    "JUDGE_PROMPT",
    "RUBRIC_GENERATE_PROMPT",
    "RUBRIC_REFINE_PROMPT",
    "build_rubric_graph",
]


def build_rubric_graph(
    model: BaseChatModel | str,
    *,
    rubric: Rubric | None = None,
    judge: Panel | None = None,
    judges: Mapping[str, BaseChatModel | DimensionJudge] | None = None,
    vote: Vote = "mean",
    together: bool = False,
    threshold: float | None = None,
    adaptive: Adaptive = False,
    enabled: bool = True,
    critics: Sequence[Any] = (),
    cache: Any = None,
    judge_prompt: str = JUDGE_PROMPT,
    generate_prompt: Prompts | None = None,
    refine_prompt: Prompts | None = None,
    refine_temperature: float | None = 0.7,
    store: BaseStore | None = None,
    **options: Any,
) -> RefineGraph:
    """Return the loop with a rubric as critic: accepted is what scores enough over all dimensions.

    `redraft.nodes.refinement_metadata` tells from the output what refining did.

    Args:
        model: Writes, and judges where nobody else is named.
        rubric: The dimensions; default: `DEFAULT_RUBRIC`.
        judge: The model that judges, or several that vote. Default: `model`.
        judges: For a dimension, a model or a function `(task, draft) -> score | (score, suggestion) | Critique`; a
            function costs no call. A critique with `accepted=False` is a veto, and its `oracle` and `usage` count.
        vote: How several in `judge` are counted: `"mean"`, `"median"` or `"majority"`.
        together: Whether a judge is asked about all its dimensions in one call, not in one each, all at once.
        threshold: The overall score that is enough, 0–1. Default: the rubric's, 0.8.
        adaptive: Whether the threshold follows the task's complexity; or `(task, threshold) -> threshold`.
        enabled: `False` answers with the first draft, judged by nobody.
        critics: Asked beside the rubric: `human_critic()`, whose score joins the assessment, say. A verifier among them
            decides alone, unless `critics_after="always"`. Chat models among them judge by the rubric, as `judge` does.
        cache: Where judgements are kept, a cache of LangGraph's; default: memory, `False`: nowhere.
        judge_prompt: Template over `task` and `draft`; RUBRIC stands where the dimensions are put. `critic_prompt=` is
            another name of it.
        generate_prompt: As in `build_refine_graph`; default: `RUBRIC_GENERATE_PROMPT`.
        refine_prompt: As in `build_refine_graph`; default: `RUBRIC_REFINE_PROMPT`.
        refine_temperature: Revisions are sampled at this temperature where the model was built with a lower one,
            since a model that is sure of itself repeats its answer, which ends the run. `None`: as it was built.
        store: Keeps what people said about drafts, and tells it to later runs with the same `user_id` in
            `configurable`.
        options: Everything else that `build_refine_graph` takes. A `prepare` is run before preferences are looked up.

    Raises:
        ValueError: At build: a dimension has no judge or is unknown, an argument makes no sense, or as in
            `build_refine_graph`.
        TypeError: At build: the model, a judge or critic is not one, or an argument is of the wrong type.

    Example:
        >>> from redraft import build_rubric_graph
        >>> from redraft.models import ScriptedModel
        >>> graph = build_rubric_graph(ScriptedModel(["A note."]), enabled=False)
        >>> graph.invoke({"task": "Write a note."})["answer"]
        'A note.'
    """
    model = as_model(model)
    own = {
        "judge": judge,
        "judges": judges,
        "vote": vote,
        "together": together,
        "threshold": threshold,
        "adaptive": adaptive,
        "enabled": enabled,
        "critics": critics,
        "cache": cache,
        "judge_prompt": judge_prompt,
        "store": store,
    }
    wiring, rest = rubric_wiring(model, rubric or DEFAULT_RUBRIC, {**own, **options})
    seen = seen_by_refiner(rest)
    revising = revising_model(model, refine_temperature)
    defaults: dict[str, Any] = {
        **TASK_ONLY,
        "generate": GroundedModel(model, generate_prompt or RUBRIC_GENERATE_PROMPT, what="generate_prompt", **seen),
        "refine": GroundedModel(revising, refine_prompt or RUBRIC_REFINE_PROMPT, what="refine_prompt", **seen),
        "name": "rubric",
        **wiring,
    }
    return build_refine_graph(model, **{**defaults, **rest})


DEFAULT_RUBRIC = Rubric(
    dimensions=(
        Dimension(
            name="relevance",
            weight=0.3,
            description="Does it answer what was asked, and nothing else?",
        ),
        Dimension(
            name="completeness",
            weight=0.25,
            description="Is every part of the task met, with nothing important left out?",
        ),
        Dimension(
            name="accuracy",
            weight=0.25,
            description="Is what it says true, consistent in itself, and in agreement with what is known?",
        ),
        Dimension(
            name="actionability",
            weight=0.2,
            description="Can the reader act on it at once: concrete steps, names, numbers?",
        ),
    )
)

RUBRIC_GENERATE_PROMPT = """{task}"""

RUBRIC_REFINE_PROMPT = """\
Task:
{task}

Earlier attempts, for what not to repeat:
{history}

Current answer:
{draft}

How it was judged, what matters most first:
{feedback}

Rewrite the answer so that each of these points is met, and keep what is good already. Reply with the new answer only: \
no preface, no comment on the changes."""
