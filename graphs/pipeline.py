"""Pipelines: steps such as `SetTopic('Tea') | UseRefinementLoop('3')` as one checkpointed graph. Internal.

Each step is a node over the loop's own state, in the order in which it was written; a loop is three nodes in a circle.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable
from langgraph.graph import END, START, StateGraph

from ..models.specs import as_model
from ..nodes.arguments import checked_count
from ..nodes.check import check
from ..nodes.critics.critics import VerifierCritic, name_critics
from ..nodes.documents import measured, named_documents
from ..nodes.feedback import feedback
from ..nodes.fingerprint import fingerprint
from ..nodes.generate import generate
from ..nodes.reasoning.pipeline_language import LOOPS, Pipeline, PipelineError, PipelineStep, parse_pipeline
from ..nodes.reasoning.pipeline_steps import (
    PipelineInput,
    PipelineKind,
    PipelineState,
    begin,
    end_reason,
    keeps_task,
    lap,
    noted,
    out_of_room,
    pipeline_options,
    reason,
    repeated,
    set_query,
    set_topic,
    use_dir,
)
from ..nodes.reasoning.steps import (
    CRITIQUE_PROMPT,
    DRAFT_PROMPT,
    IMPROVE_PROMPT,
    STEP_NAMES,
    THINK_PROMPT,
    ReasoningSteps,
    thinking,
)
from ..nodes.refine import refine
from ..nodes.writing.writers import as_writer
from ..state.schema import RefineOutput
from ..state.summary import latest_draft
from ..state.threads.checked_graph import compiled
from .loop import price_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

    from ..nodes.runtime.meter import Prices
    from ..nodes.runtime.step import Step
    from ..nodes.writing.prompts import Keep, Prompts

    PipelineGraph = CompiledStateGraph[PipelineState, None, PipelineInput, RefineOutput]

__all__ = ["build_pipeline_graph"]


def build_pipeline_graph(
    pipeline: str | Pipeline | PipelineStep,
    model: BaseChatModel | str,
    *,
    critic: BaseChatModel | str | None = None,
    threshold: float | None = None,
    documents: Any = None,
    top_k: int = 4,
    k: int | None = None,
    tools: Sequence[Any] = (),
    open_folder: Callable[[str], Any] | None = None,
    draft_prompt: Prompts = DRAFT_PROMPT,
    critique_prompt: Prompts = CRITIQUE_PROMPT,
    improve_prompt: Prompts = IMPROVE_PROMPT,
    think_prompt: Prompts = THINK_PROMPT,
    limits: Mapping[str, Any] | None = None,
    prices: Prices | Mapping[str, Any] | None = None,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    name: str = "pipeline",
) -> PipelineGraph:
    """Return a pipeline as a compiled graph, each step a node with its own checkpoint.

    `graph.invoke({})` runs it. On a thread that has a topic already, a pipeline that sets none goes on with it, unless
    a task is given. A step that finds nothing to work on leaves the record as it is, and says so in the `custom`
    stream. A step that fails before the first draft raises; after it the run ends as `failed`, with the best text so
    far. Either way the thread resumes at that step. The answer is the best text: one that a program accepted, else the
    one with the highest score, and where nobody judged, the last.

    Args:
        pipeline: A text in the pipe language, or steps composed with `|` in Python.
        model: Writes and improves.
        critic: Criticises; default: the same model.
        threshold: Score (0–1) from which a text is accepted, which ends a loop early.
        documents: Where passages are looked up while no `UseDir` ran: a vector store or retriever.
        top_k: How many passages at most.
        k: Another name of `top_k`.
        tools: LangChain tools that the model may call.
        open_folder: From a folder to a retriever, for `UseDir`; default: BM25 and embeddings (extra `retrieval`).
        draft_prompt: As in `build_reasoning_graph`, like the other prompts.
        critique_prompt: One, or several, one an iteration.
        improve_prompt: One, or several, one an iteration.
        think_prompt: Template over `task` and `context`.
        limits: Budgets, which hold over all topics of one run; `max_rounds` plays no part, the pipeline says how often
            the text is improved.
        prices: As in `build_refine_graph`.
        checkpointer: As in `StateGraph.compile`.
        name: Name of the graph.

    Raises:
        PipelineError: At build: the pipeline makes no sense; the message points at the place.
        ValueError: At build: a prompt uses unknown variables, a number makes no sense, or a step can't be built.
        TypeError: At build: a model is none, or the pipeline is neither a text nor steps.

    Example:
        >>> from redraft import build_pipeline_graph
        >>> from redraft.models import ScriptedModel
        >>> model = ScriptedModel(["Tests find bugs.", "Say when.", "Tests find bugs early."])
        >>> graph = build_pipeline_graph("SetTopic('Tests') | UseDraft | UseCritique | UseImprove", model)
        >>> graph.invoke({})["answer"]
        'Tests find bugs early.'
    """
    model, critic = as_model(model), critic if critic is None else as_model(critic, what="critic")
    k = top_k if k is None else k
    checked_count("top_k", k, least=1)
    parsed = parse_pipeline(pipeline) if isinstance(pipeline, str) else Pipeline.of(pipeline)
    prices = price_table(prices)

    def asks(*, scored: bool) -> ReasoningSteps:
        return ReasoningSteps(
            model,
            critic=critic,
            draft_prompt=draft_prompt,
            critique_prompt=critique_prompt,
            improve_prompt=improve_prompt,
            think_prompt=think_prompt,
            scored=scored,
            threshold=threshold,
            prices=prices,
        )

    # A folder is read and indexed once, however many steps look into it.
    @cache
    def opened(folder: str) -> Any:
        if folder.startswith(STORED):
            return measured(named_documents(None, folder.removeprefix(STORED), top_k=k))
        return open_folder(folder) if open_folder else measured(named_documents(folder, None, top_k=k))

    built = {label: _built(step, model) for label, step in parsed.labelled()}
    folders = {_named_folder(step) for step in parsed.steps if step.name in ("UseDir", "UseIndex")}

    def reasoning(name: str, label: str, *, scored: bool = False, only_first: bool = False, again: bool = True) -> Step:
        if (own := built.get(label)) is not None:
            step = _own_step(name, own, model, prices)
        else:
            step = asks(scored=scored).step(name, tools=tools, again=again, raises_later=True)
        options: dict[str, Any] = {"opened": opened, "folders": folders, "documents": documents}
        options |= {"k": k, "prices": prices}
        return reason(step, name, label=label, only_first=only_first, **options)

    # Comments rank no text before another; programs do, and scores, where they come last.
    writing = [step.name for step in parsed.steps if step.step_kind.role]
    judged = any(isinstance(one, VerifierCritic) for one in built.values()) or writing[-1:] == ["UseSelfCritique"]
    keep: Keep = "best" if judged else "last"

    options = {
        "pipeline": str(parsed),
        "documents": documents,
        "k": k,
        "tools": ", ".join(
            sorted(str(getattr(tool, "name", None) or getattr(tool, "__name__", tool)) for tool in tools)
        )
        or None,
    }
    identity = _identity(parsed, asks(scored=judged), built, options)
    graph = StateGraph(PipelineState, input_schema=PipelineInput, output_schema=RefineOutput)
    graph.add_node("begin", begin(sets_topic=parsed.sets_topic, limits=limits, keep=keep, fingerprint=identity))
    ended = check(end_reason, keep=keep, steps_a_round=1, explained={"max_rounds": "The pipeline is at its end."})
    graph.add_node("check", keeps_task(ended))
    graph.add_edge(START, "begin")
    graph.add_edge("check", END)
    steps = parsed.labelled()
    # The node that each step begins with, which the step before must name: a loop's is its draft.
    entries = [f"{label}-draft" if step.name in LOOPS else label for label, step in steps]
    _add_edge(graph, "begin", entries[0])
    for (label, step), following in zip(steps, [*entries[1:], "check"], strict=True):
        if step.name in LOOPS:
            scored = step.name == "UseSelfCritique"
            one, two, three = (f"{label}-{what}" for what in ("draft", "critique", "improve"))
            graph.add_node(one, noted(lap(reasoning("draft", label, only_first=True), starts=True), one))
            graph.add_node(two, noted(reasoning("critique", label, scored=scored, again=False), two))
            graph.add_node(three, noted(lap(reasoning("improve", label)), three))
            _add_circle(graph, label, int(step.value), following, judge_last=scored)
        else:
            graph.add_node(label, noted(_node(step, label, opened, reasoning, keep=keep, made=identity), label))
            _add_edge(graph, label, following, drafts=step.step_kind.role == "draft")
    kind = PipelineKind(identity, pipeline_options(keep))
    whole: PipelineGraph = compiled(graph, kind, checkpointer=checkpointer, name=name)
    # every step of the pipeline, and some room: a caller's own recursion_limit still holds
    return whole.with_config(recursion_limit=parsed.longest + 10)


def _identity(
    pipeline: Pipeline, asked: ReasoningSteps, built: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fingerprint of a pipeline: who writes and criticises in its steps."""
    roles = {role for step in pipeline.steps for role in (LOOP_ROLES if step.name in LOOPS else [step.step_kind.role])}
    return fingerprint(
        ["begin", *(label for label, _ in pipeline.labelled()), "check"],
        writers={
            **{role: asked.writer(role) for role in STEP_NAMES if role in roles and role != "critique"},
            **({"critique": asked.judge()} if "critique" in roles else {}),
            **{label: own for label, own in built.items() if own is not None},
        },
        critics=[],
        options=options,
    )


LOOP_ROLES = ("draft", "critique", "improve")

STORED = "index:"
"""Stands before the name of a stored index in the state, where else is a folder's path."""


def _built(step: PipelineStep, model: BaseChatModel) -> Any:
    """Return the writer or critic of a step that brings its own; `None` for one that asks the model as others do.

    Raises:
        PipelineError: It can't be built, or is of no use.
    """
    kind = step.step_kind
    if kind.build is None:
        return None
    try:
        part = kind.build(model, step.value if kind.argument else "")
        if kind.role == "critique":
            name_critics([part], model=model)
    except (TypeError, ValueError) as error:
        raise PipelineError(f"{step}: {error}") from error
    if not callable(part) and not isinstance(part, Runnable):
        raise PipelineError(f"{step}: build= must return a callable or a Runnable, not {part!r}")
    return part


def _own_step(role: str, made: Any, model: BaseChatModel, prices: Prices | None) -> Step:
    if role == "critique":
        return feedback(name_critics([made], model=model), again=True, prices=prices)
    writer = as_writer(made, keep="last", memory="last")
    if role == "think":
        return thinking(writer, prices=prices)
    if role == "draft":
        return generate(writer, prices=prices, raises_later=True)
    return refine(writer, keep="last", prices=prices)


def _node(
    step: PipelineStep,
    label: str,
    opened: Callable[[str], Any],
    reasoning: Callable[..., Step],
    *,
    keep: Keep,
    made: Mapping[str, Any],
) -> Step:
    if step.step_kind.role is not None:
        return reasoning(step.step_kind.role, label)
    if step.name in ("UseDir", "UseIndex"):
        return use_dir(_named_folder(step), opened=opened, name=step.name)
    return set_topic(step.value, keep=keep, fingerprint=made) if step.name == "SetTopic" else set_query(step.value)


def _named_folder(step: PipelineStep) -> str:
    return f"{STORED}{step.value}" if step.name == "UseIndex" else step.value


def _add_edge(graph: StateGraph[Any, Any, Any, Any], label: str, following: str, *, drafts: bool = False) -> None:
    """Go on with the next step, or to the end once one failed or a budget is spent."""

    def go_on(state: PipelineState) -> str:
        if state.get("raised") is not None:  # where it came from, once what it cost is stored
            return label
        return "check" if out_of_room(state) else following

    # A set, since the step after the last one is `check` itself; sorted, so that drawings are alike.
    graph.add_conditional_edges(label, go_on, sorted({following, "check", *([label] if drafts else [])}))


def _add_circle(
    graph: StateGraph[Any, Any, Any, Any], label: str, laps: int, following: str, *, judge_last: bool
) -> None:
    """Go round `laps` times, or until a critique accepts the text or an improvement brings nothing new."""
    critique, improve = f"{label}-critique", f"{label}-improve"

    def criticised(state: PipelineState) -> str:
        latest = latest_draft(state["events"])
        if out_of_room(state):
            return "check"
        tried = state.get("laps", 0)
        done = tried >= laps or (latest is not None and latest.accepted) or (tried > 0 and repeated(state))
        return following if done else improve

    def improved(state: PipelineState) -> str:
        if out_of_room(state):
            return "check"
        if repeated(state):
            return following
        # UseSelfCritique wants a score of the last text; UseRefinementLoop does without, and saves that call.
        return critique if judge_last or state.get("laps", 0) < laps else following

    _add_edge(graph, f"{label}-draft", critique, drafts=True)
    graph.add_conditional_edges(critique, criticised, sorted({improve, following, "check"}))
    graph.add_conditional_edges(improve, improved, sorted({critique, following, "check"}))
