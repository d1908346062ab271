"""Preset `branching`: several paths of refinement side by side, of which the best go on. Internal.

START → prepare ──→ branch (one a path, at once) ──→ select ──┬─ stop_reason set ──→ END
                      ↑                                       └─ else, the next level ─┐
                      └────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from ..models.specs import as_model
from ..nodes.arguments import check_choices, check_lists, checked_count, refuse
from ..nodes.critics.critics import verifier_critic
from ..nodes.critics.registry import as_critics
from ..nodes.fingerprint import fingerprint
from ..nodes.search.explore import StopWhen, explore_path, prepare_search
from ..nodes.search.path_run import PathRun
from ..nodes.search.paths import (
    BranchingOutput,
    BranchingState,
    SearchKind,
    Variation,
    check_critics,
    names_of,
    search_options,
    varied_options,
)
from ..nodes.search.ranking import PAIRWISE_PROMPT, PairwiseJudge
from ..nodes.search.selection import select
from ..nodes.search.shared_budget import SharedBudgets
from ..nodes.verify.answer_type import answer_type_of
from ..nodes.writing.prompts import Prompt, Prompts, seen_by_refiner
from ..state.limits import Limits, merged_limits
from ..state.open_state import typed_schemas
from ..state.schema import RefineInput
from ..state.summary import required_by_caller
from ..state.threads.checked_graph import compiled
from ..state.threads.kind import kind_of
from ..state.usage import add_usage
from .loop import build_refine_graph, price_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

    from ..nodes.runtime.meter import Prices
    from ..state.critique import AnyVerifier

    BranchingGraph = CompiledStateGraph[BranchingState, None, RefineInput, BranchingOutput]

__all__ = ["PAIRWISE_PROMPT", "Variation", "build_branching_graph"]


def build_branching_graph(
    model: BaseChatModel | str,
    *,
    critics: Sequence[Any] | None = None,
    verifiers: Sequence[AnyVerifier | str] = (),
    branching_factor: int = 3,
    depth: int = 2,
    beam_width: int = 1,
    vary: Sequence[Variation] = (),
    judge: BaseChatModel | Callable[..., Any] | PairwiseJudge | None = None,
    judge_prompt: Prompt | None = None,
    stop_when: StopWhen = "accepted",
    max_concurrency: int = 4,
    critic_prompt: Prompts | None = None,
    limits: Mapping[str, Any] | None = None,
    prices: Prices | Mapping[str, Any] | None = None,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    name: str = "branching",
    **options: Any,
) -> BranchingGraph:
    """Return a search over drafts and revisions as an ordinary compiled graph; the answer is the best draft it found.

    It begins with `branching_factor` drafts. At each level the best `beam_width` paths go on, and each is revised
    `branching_factor` times. `depth=0` is best-of-N, and `branching_factor=1` the plain loop with `max_rounds=depth`.

    With a checkpointer each path is a thread of its own, `<thread>/b<level>.<number>`, with its parent recorded:
    `Thread(graph, thread).tree()` shows them, and each is resumed or forked with a `build_refine_graph` of the same
    critics. A search that was killed goes on with `invoke(None, config)`; it pays for nothing that a path has finished.
    `Thread(graph, thread).stop()` reaches into its paths. A name that another thread has already is not used: the path
    gets one with a number behind.

    Args:
        model: Writes drafts and revisions, and judges them where no critic is given.
        critics: Judge every draft, as in `build_refine_graph`; people can't be asked. Default: the model itself.
        verifiers: As in `build_refine_graph`.
        branching_factor: How many drafts there are, and how often one is revised; 1 up.
        depth: How many levels of revisions there are; 0 up.
        beam_width: How many paths go on from a level; 1 up.
        vary: What differs between siblings, taken in turn. Default: nothing, but they are sampled at temperature 0.7
            where the model was built with a lower one.
        judge: Compares two drafts where acceptance and the scores of programs don't tell them apart, in place of the
            scores of other critics: a model, or a function `(task, first, second) -> "first" | "second" | "neither"`.
            It is asked in both orders; answers that contradict each other are a tie, which the score decides.
        judge_prompt: Template over `task`, `first` and `second`; default: `PAIRWISE_PROMPT`.
        stop_when: `"accepted"`: with the level in which a draft was accepted, of which no further path begins then.
            `"exhausted"`: an accepted path ends, the others go on, and the best accepted draft is the answer.
        max_concurrency: How many paths run at once, those that wait in the order of their plans; a lower
            `max_concurrency` of the caller's config holds too. For one at a time set it here: with 1 in the config
            LangGraph itself hangs in a synchronous `stream`.
        critic_prompt: Of the chat models that judge.
        limits: Hold for all paths together: tokens, dollars, seconds in model calls; `max_rounds` is the most
            revisions, by default as many as the search can make. `patience` holds within a path. A plain dict leaves
            the others as they are; a `Limits` sets them all, `max_rounds=3` too.
        prices: As in `build_refine_graph`.
        checkpointer: As in `StateGraph.compile`.
        name: Name of the graph.
        options: Everything else that `build_refine_graph` takes, but for `check`, `judge_last` and `input_schema`.

    Raises:
        ValueError: At build: a number or choice makes no sense, an option would be without effect, a critic is a
            person, or as in `build_refine_graph`. At run: the task is empty, or a limit makes no sense.
        TypeError: At build: the model, a critic, the judge or a variation is not one.
        Exception: At run: the error of a first draft, where no path has one; the search is resumed with those paths.

    Example:
        >>> from redraft import build_branching_graph, uses_words, verifier_critic
        >>> from redraft.models import ScriptedModel
        >>> critics = [verifier_critic(uses_words("rain", "roof"))]
        >>> model = ScriptedModel(["Rain.", "Rain on a roof."])
        >>> graph = build_branching_graph(model, critics=critics, branching_factor=2, depth=0)
        >>> graph.invoke({"task": "Write about rain."})["answer"]
        'Rain on a roof.'
    """
    model = as_model(model)
    checked_count("branching_factor", branching_factor, least=1)
    checked_count("depth", depth, least=0)
    checked_count("beam_width", beam_width, least=1)
    checked_count("max_concurrency", max_concurrency, least=1)
    check_choices(stop_when=(stop_when, StopWhen))
    refuse(options, OURS)
    if wrong := [one for one in vary if not isinstance(one, Variation)]:
        raise TypeError(f"vary is a list of Variation(…), and {wrong[0]!r} is none")
    critics = _critics(model, critics, verifiers, options, critic_prompt)
    compare = _comparing(judge, judge_prompt)
    prices = price_table(prices)
    keep = seen_by_refiner(options)["keep"]
    options["answer_type"] = answer = answer_type_of(options.get("answer_type"))
    several = list(vary) or [Variation()]
    names = names_of(several)
    shared = {**options, "critics": critics, "prices": prices}
    # One loop a variation and not one a path: paths differ by what they are sent.
    loops = [
        build_refine_graph(**varied_options(one, model, shared, siblings=branching_factor > 1), name="path")
        for one in several
    ]
    runs = [PathRun(loop, called) for loop, called in zip(loops, names, strict=True)]
    most = _most_revisions(branching_factor, depth, beam_width)
    # A `Limits` sets every limit, its default `max_rounds` too; a dict leaves as many revisions as there can be.
    first = limits if isinstance(limits, Limits) else merged_limits({"max_rounds": most}, limits)
    budgets = SharedBudgets(prices, most=max_concurrency)
    numbers = {"branching_factor": branching_factor, "depth": depth, "beam_width": beam_width}
    identity = fingerprint(
        ["prepare", "branch", "select"],
        writers={} if compare is None else {"judge": compare},
        critics=[],
        options={**numbers, "stop_when": stop_when},
        parts={called if vary else "": kind_of(loop).fingerprint for loop, called in zip(loops, names, strict=True)},
    )
    opening = prepare_search(
        budgets,
        limits=first,
        options=search_options(keep, answer),
        fingerprint=identity,
        branching_factor=branching_factor,
        variations=len(several),
    )
    explore = explore_path(runs, budgets, keep=keep, stop_when=stop_when)
    choose = select(
        budgets,
        judge=compare,
        branching_factor=branching_factor,
        depth=depth,
        beam_width=beam_width,
        stop_when=stop_when,
        variations=names,
        keep=keep,
        prices=prices,
    )

    schemas: Any = (BranchingState, BranchingOutput)
    state, output = schemas if answer is None else typed_schemas(BranchingState, BranchingOutput, answer)
    graph = StateGraph(state, input_schema=RefineInput, output_schema=output)
    graph.add_node("prepare", opening)
    graph.add_node("branch", _drawn(explore, loops[0]))
    graph.add_node("select", choose)
    graph.add_edge(START, "prepare")
    graph.add_conditional_edges("prepare", dispatch, ["branch"])
    graph.add_edge("branch", "select")
    graph.add_conditional_edges("select", route, ["branch", "__end__"])
    # The same store for the search and its paths, which get it with the other options.
    search: BranchingGraph = compiled(
        graph,
        SearchKind(identity, search_options(keep, answer)),
        checkpointer=checkpointer,
        store=options.get("store"),
        name=name,
    )
    return search


def _critics(
    model: BaseChatModel,
    critics: Sequence[Any] | None,
    verifiers: Sequence[AnyVerifier | str],
    options: Mapping[str, Any],
    prompt: Prompts | None,
) -> list[Any]:
    """Return the critics of every path."""
    check_lists(critics=critics, verifiers=verifiers)
    check_critics(critics or ())
    if critics is None and not verifiers and options.get("feedback") is None and options.get("answer_type") is None:
        # One for all, on the writer of most: scores of different judges can't be compared.
        critics = [model]
    return [*map(verifier_critic, verifiers), *as_critics(critics or (), prompt=prompt)]


def _comparing(judge: Any, prompt: Prompt | None) -> PairwiseJudge | None:
    """Return the judge that compares two drafts."""
    if judge is not None and not isinstance(judge, PairwiseJudge):
        return PairwiseJudge(judge, prompt=prompt)
    if prompt is not None:
        raise ValueError("judge_prompt= is for a model given as judge=; nothing here would read it")
    return judge


def dispatch(state: BranchingState) -> list[Send]:
    """Send each plan to a node of its own."""
    # A thread may hold an earlier search too, whose paths cost this one nothing.
    mine = [path for path in state.get("paths", []) if path["search"] == state["search"]]
    values = {path["name"]: path.get("values") for path in mine}
    # A `Send` carries all that its node sees: a path reads no channel of the search.
    sent = {
        "task": state["task"],
        "require": required_by_caller(state["events"]),
        "limits": state["limits"],
        # Budgets hold for all paths together, so each is told what was spent before it.
        "spent": add_usage([*(path["usage"] for path in mine), state["judging"]]),
        "siblings": state["plans"],
        "search": state["search"],
        "root": state["root"],
    }
    return [Send("branch", {**plan, **sent, "values": values.get(plan["parent"])}) for plan in state["plans"]]


def route(state: BranchingState) -> list[Send] | Literal["__end__"]:
    """End where there is a reason to stop, else explore the next level."""
    return "__end__" if state.get("stop_reason") else dispatch(state)


def _drawn(step: Any, loop: Any) -> RunnableLambda[Any, Any]:
    """Return a node as a function that names the loop it runs, which is how LangGraph finds it for a drawing."""

    def explore(plan: Any, config: RunnableConfig) -> Any:
        # Only what a function names is in its closure, and LangGraph looks for inner graphs there.
        _ = loop
        return step.invoke(plan, config)

    async def aexplore(plan: Any, config: RunnableConfig) -> Any:
        return await step.ainvoke(plan, config)

    return RunnableLambda(explore, aexplore, name="branch")


def _most_revisions(factor: int, depth: int, beam: int) -> int:
    paths, total = factor, 0
    for _ in range(depth):
        # Each level revises only the paths that the one before let go on.
        paths = min(paths, beam) * factor
        total += paths
    return total


OURS = {
    **dict.fromkeys(("input_schema", "state_schema"), "is not for a search, which takes a task and limits"),
    "check": "is not for a search, which stops by itself: see stop_when= and limits=",
    "judge_last": "is not for a search: every draft is judged, or none could be chosen",
}
