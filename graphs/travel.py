"""`travel`: a trip planner that knows dates, budgets and distances, judged on six dimensions, two of them for free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..nodes.rubric.critic import rubric_critic
from ..nodes.rubric.grounding import GroundedModel
from ..nodes.rubric.judges import JUDGE_PROMPT
from ..nodes.rubric.wiring import rubric_wiring
from ..nodes.travel import (
    TRAVEL_TOOLS,
    ToolWriter,
    TravelFacts,
    calls_tools,
    feasibility,
    personalization,
    require_cities,
)
from ..state.rubrics import Dimension, Rubric
from .loop import build_refine_graph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.language_models import BaseChatModel
    from langgraph.store.base import BaseStore

    from ..nodes.prompts import Prompts
    from ..nodes.rubric.critic import Adaptive, Panel
    from ..nodes.rubric.judges import DimensionJudge
    from ..nodes.rubric.voting import Vote
    from ..nodes.travel.tool_writer import OfferTools
    from .loop import RefineGraph

__all__ = [
    "JUDGE_PROMPT",
    "TRAVEL_GENERATE_PROMPT",
    "TRAVEL_REFINE_PROMPT",
    "TRAVEL_RUBRIC",
    "build_travel_graph",
]


def build_travel_graph(
    model: BaseChatModel,
    *,
    offer_tools: OfferTools = "auto",
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
    store: BaseStore | None = None,
    **options: Any,
) -> RefineGraph:
    """Return the loop as a trip planner.

    Personalization and feasibility are checked by programs (`redraft.nodes.travel.indicators`), the rest by a model.
    `redraft.nodes.travel.travel_metadata` tells from the output what refining did.

    Args:
        model: Plans, and judges where nobody else is named.
        offer_tools: Whether the model is offered the tools in `TRAVEL_TOOLS`. Where it is not, what they know about the
            task's dates, places and budget is told to it. `"auto"`: where its profile says that it can call tools.
        rubric: The dimensions; default: `TRAVEL_RUBRIC`.
        judge: As in `rubric`: the model that judges, or several that vote. Default: `model`.
        judges: For a dimension, a model or a function in place of the default.
        vote: How several in `judge` are counted: `"mean"`, `"median"` or `"majority"`.
        together: Whether a judge is asked about all its dimensions in one call.
        threshold: The overall score that is enough, 0–1. Default: the rubric's, 0.8.
        adaptive: Whether the threshold follows the task's complexity; or `(task, threshold) -> threshold`.
        enabled: `False` answers with the first plan, judged by nobody.
        critics: Asked beside the rubric. Where a verifier stands among them it decides alone, unless
            `critics_after="always"`.
        cache: Where judgements are kept, a cache of LangGraph's; default: memory, `False`: nowhere.
        judge_prompt: Template over `task` and `draft`; RUBRIC stands where the dimensions are put.
        generate_prompt: As in `build_refine_graph`; default: `TRAVEL_GENERATE_PROMPT`.
        refine_prompt: As in `build_refine_graph`; default: `TRAVEL_REFINE_PROMPT`.
        store: Keeps what people said about plans, and tells it to later runs with the same `user_id` in
            `configurable`.
        options: Everything else that `build_refine_graph` takes.

    Raises:
        ImportError: At build: the extra `travel` is not installed.
        ValueError: At build: an argument makes no sense, or as in `build_refine_graph`.
        TypeError: At build: a judge or critic is not one.
    """
    require_cities()
    dimensions = rubric or TRAVEL_RUBRIC
    free = {name: judge_it for name, judge_it in FREE_JUDGES.items() if name in dimensions.names}
    critic = rubric_critic(
        dimensions,
        judge=model if judge is None else judge,
        judges={**free, **(judges or {})},
        vote=vote,
        together=together,
        threshold=threshold,
        adaptive=adaptive,
        cache=cache,
        prompt=judge_prompt,
    )
    with_tools = calls_tools(model, offer_tools)

    def writer(prompts: Prompts, what: str) -> ToolWriter | GroundedModel:
        seen = {"keep": options.get("keep", "best"), "memory": options.get("memory", "all")}
        if with_tools:
            return ToolWriter(model, prompts, tools=TRAVEL_TOOLS, what=what, **seen)
        return GroundedModel(model, prompts, what=what, **seen)

    defaults: dict[str, Any] = {
        "generate": writer(generate_prompt or TRAVEL_GENERATE_PROMPT, "generate_prompt"),
        "refine": writer(refine_prompt or TRAVEL_REFINE_PROMPT, "refine_prompt"),
        "name": "travel",
        **rubric_wiring(
            critic, critics=critics, enabled=enabled, store=store, grounds=() if with_tools else (TravelFacts(),)
        ),
    }
    return build_refine_graph(model, **{**defaults, **options})


FREE_JUDGES: Mapping[str, DimensionJudge] = {"personalization": personalization, "feasibility": feasibility}

TRAVEL_RUBRIC = Rubric(
    dimensions=(
        Dimension(name="relevance", weight=0.25, description="Is it a plan for the trip that was asked for?"),
        Dimension(
            name="completeness",
            weight=0.2,
            description="Does it cover every day, with transport, places to stay and eat, and costs?",
        ),
        Dimension(
            name="accuracy",
            weight=0.2,
            description="Do places, dates, distances and sums agree with what is known and with each other?",
        ),
        Dimension(
            name="actionability",
            weight=0.15,
            description="Can the travellers follow it as it stands: names, times, what to book?",
        ),
        Dimension(
            name="personalization",
            weight=0.1,
            description="Is it made for these travellers, with their wishes and limits?",
        ),
        Dimension(
            name="feasibility",
            weight=0.1,
            description="Can it be done in the days and with the money that there are?",
        ),
    )
)

TRAVEL_GENERATE_PROMPT = """\
You plan a trip. Plan day by day, each day under its heading (Day 1, Day 2 …), with transport, where to eat and stay, \
and costs with a total at the end.

{task}

Reply with the plan only: no preface."""

TRAVEL_REFINE_PROMPT = """\
You plan a trip.

{task}

Earlier plans, for what not to repeat:
{history}

Current plan:
{draft}

How it was judged, what matters most first:
{feedback}

Rewrite the plan so that each of these points is met, and keep what is good already: day by day, each day under its \
heading (Day 1, Day 2 …), with a total of the costs at the end. Reply with the new plan only: no preface, no comment \
on the changes."""
