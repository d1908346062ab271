"""Preset `travel`. Internal.

A trip planner that knows dates, budgets and distances, judged on six dimensions, two of them for free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..graphs.loop import TASK_ONLY, RefineGraph, build_refine_graph
from ..models.specs import as_model
from ..nodes.rubric.judges import JUDGE_PROMPT, DimensionJudge, GroundedModel
from ..nodes.rubric.rubrics import Dimension, Rubric
from ..nodes.rubric.wiring import rubric_wiring
from ..nodes.writing.prompts import Prompts, seen_by_refiner
from ..nodes.writing.sampling import revising_model
from ..state.threads.kind import kind_of
from .cities import distance_between_cities, require_cities
from .indicators import feasibility, personalization, travel_metadata
from .money import budget_left, cost_each
from .tool_writer import OfferTools, ToolWriter, TravelFacts, calls_tools
from .trip_dates import days_between, trip_calendar, weekday

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.language_models import BaseChatModel


__all__ = [
    "JUDGE_PROMPT",
    "TRAVEL_GENERATE_PROMPT",
    "TRAVEL_REFINE_PROMPT",
    "TRAVEL_RUBRIC",
    "TRAVEL_TOOLS",
    "build_travel_graph",
]


def build_travel_graph(
    model: BaseChatModel | str,
    *,
    offer_tools: OfferTools = "auto",
    rubric: Rubric | None = None,
    judges: Mapping[str, BaseChatModel | DimensionJudge] | None = None,
    generate_prompt: Prompts | None = None,
    refine_prompt: Prompts | None = None,
    refine_temperature: float | None = 0.7,
    **options: Any,
) -> RefineGraph:
    """Return the loop as a trip planner.

    Personalization and feasibility are checked by programs (`redraft.travel.feasibility`), the rest by a model.
    `redraft.travel.travel_metadata` tells from the output what refining did.

    Args:
        model: Plans, and judges where nobody else is named.
        offer_tools: Whether the model is offered the tools in `TRAVEL_TOOLS`. Where it is not, what they know about the
            task's dates, places and budget is told to it. `"auto"`: where its profile says that it can call tools.
        rubric: The dimensions; default: `TRAVEL_RUBRIC`.
        judges: For a dimension, a model or a function in place of the default.
        generate_prompt: As in `build_refine_graph`; default: `TRAVEL_GENERATE_PROMPT`.
        refine_prompt: As in `build_refine_graph`; default: `TRAVEL_REFINE_PROMPT`.
        refine_temperature: Revisions are sampled at this temperature where the model was built with a lower one,
            since a model that is sure of itself repeats its plan, which ends the run. `None`: as it was built.
        options: Everything else that `build_rubric_graph` takes.

    Raises:
        ImportError: At build: the extra `travel` is not installed.
        ValueError: At build: an argument makes no sense, or as in `build_rubric_graph`.
        TypeError: At build: the model, a judge or critic is not one, or an argument is of the wrong type.

    Example:
        >>> from redraft import build_travel_graph
        >>> from redraft.models import ScriptedModel
        >>> graph = build_travel_graph(ScriptedModel(["Day 1: Rome."]))
        >>> graph.get_name()
        'travel'
    """
    require_cities()
    model = as_model(model)
    rubric = rubric or TRAVEL_RUBRIC
    free = {name: judge for name, judge in FREE_JUDGES.items() if name in rubric.names}
    with_tools = calls_tools(model, offer_tools)
    grounds = () if with_tools else (TravelFacts(),)
    wiring, rest = rubric_wiring(model, rubric, {"judges": {**free, **(judges or {})}, **options}, grounds=grounds)

    def writer(prompts: Prompts, what: str) -> ToolWriter | GroundedModel:
        seen = seen_by_refiner(rest)
        writing = revising_model(model, refine_temperature if what == "refine_prompt" else None)
        if with_tools:
            return ToolWriter(writing, prompts, tools=TRAVEL_TOOLS, what=what, **seen)
        return GroundedModel(writing, prompts, what=what, **seen)

    defaults: dict[str, Any] = {
        **TASK_ONLY,
        "generate": writer(generate_prompt or TRAVEL_GENERATE_PROMPT, "generate_prompt"),
        "refine": writer(refine_prompt or TRAVEL_REFINE_PROMPT, "refine_prompt"),
        "name": "travel",
        **wiring,
    }
    graph = build_refine_graph(model, **{**defaults, **rest})
    kind_of(graph).metadata = travel_metadata
    return graph


TRAVEL_TOOLS = (days_between, weekday, trip_calendar, budget_left, cost_each, distance_between_cities)
"""LangChain tools; all work offline."""

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
            required=True,  # checked by a program, as is feasibility: a plan that fails there is not saved by opinions
            description="Is it made for these travellers, with their wishes and limits?",
        ),
        Dimension(
            name="feasibility",
            weight=0.1,
            required=True,
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
