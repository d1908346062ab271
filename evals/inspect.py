"""Graphs as solvers and critics as scorers of Inspect, whose logs, sandboxes and models a team keeps.

Needs `inspect_ai`: the extra `inspect`. `redraft report` reads what refining brought from the logs.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

from ..nodes.critics.critics import name_of, read_critiques, takes, takes_state, verifier_critic
from ..state.dual import calling
from ..state.events import DRAFT_KINDS
from ..state.summary import current_run
from ..state.usage import NO_USAGE
from .run.own_graph import own_graph

try:
    from inspect_ai.agent import agent_bridge
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
    from inspect_ai.scorer import score as score_now
    from inspect_ai.solver import Generate, Solver, TaskState, solver
except ImportError as error:
    raise ImportError(
        f"Inspect's solvers and scorers need an extra: pip install '.[inspect]' in a checkout ({error})"
    ) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..state.critique import AnyVerifier, Critic, DualCritic
    from ..state.events import Event

__all__ = ["critic_scorer", "graph_solver"]


def graph_solver(
    graph: Any,
    *,
    verifiers: Sequence[AnyVerifier] = (),
    critics: Sequence[Any] = (),
    task: Callable[[TaskState], str] | None = None,
    score_drafts: bool = True,
) -> Solver:
    """Return a solver of Inspect that answers a sample by a graph.

    A chat model named `inspect`, as in `ChatOpenAI(model="inspect")`, is the model that Inspect evaluates; any other is
    asked as it is, and Inspect counts none of its tokens. The graph's thread is named by the sample's uuid. The
    sample's metadata hold, under `redraft`, the run's `stop_reason`, `rounds`, `accepted_by`, `oracle`, `usage` and
    the `tokens` of each draft.

    Args:
        graph: A graph of redraft's, or of LangGraph's, an agent, a chain, or a function of the task.
        verifiers: Programs that judge, where the graph is none of redraft's.
        critics: Who else judges there.
        task: Makes the task of a sample. Default: its user prompt, as the solvers before have left it.
        score_drafts: Have the task's scorers score the drafts that were revised, too, so that the log tells what
            refining changed. A scorer that asks a model does so for each of them.

    Raises:
        TypeError: The graph answers nothing.
        ValueError: A graph of redraft's is given judges. In a sample: it has choices or a system message, which the
            default task leaves out.
        RuntimeError: In a sample: the run failed, or waits for a person.

    Source: Inspect's agent bridge, https://inspect.aisi.org.uk/agent-bridge.html

    Example:
        >>> from inspect_ai import Task
        >>> from inspect_ai.dataset import Sample
        >>> from redraft import build_refine_graph, uses_words
        >>> from redraft.evals.inspect import critic_scorer, graph_solver
        >>> from redraft.models import ScriptedModel
        >>> model = ScriptedModel(["Rain.", "Rain falls on the roof."])
        >>> graph = build_refine_graph(model, verifiers=[uses_words("roof")])
        >>> rows = [Sample(input="Write about rain.")]
        >>> task = Task(rows, solver=graph_solver(graph), scorer=critic_scorer(uses_words("roof")))
    """
    own: Any = own_graph(graph, verifiers=verifiers, critics=critics)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        given = {"task": _task_of(state) if task is None else task(state)}
        async with agent_bridge():
            output = await own.ainvoke(given, {"configurable": {"thread_id": state.uuid}})
        if "__interrupt__" in output:
            raise RuntimeError("the graph waits for a person, and nobody is asked here: build it without human critics")
        if output["stop_reason"] == "failed":
            raise RuntimeError(output["error"])
        drafts = _drafts(output["events"])
        if score_drafts:
            with suppress(RuntimeError):  # the task has no scorers
                for text, _ in drafts[:-1]:
                    await score_now(_answered(copy(state), text))
        told = {key: output[key] for key in ("stop_reason", "rounds", "accepted_by", "oracle", "usage")}
        state.metadata = {**state.metadata, "redraft": {**told, "tokens": [spent for _, spent in drafts]}}
        return _answered(state, output["answer"])

    @solver(name=own.name)
    def named() -> Solver:
        return solve

    return cast("Solver", named())


def critic_scorer(critic: Critic | DualCritic | AnyVerifier, *, name: str | None = None) -> Scorer:
    """Return a scorer of Inspect that asks a critic, a judge or a verifier about the answer of a sample.

    It is given the sample's input and the answer, and not the target. An answer that is accepted counts as correct, any
    other as incorrect. Without a verdict the score counts; where the critic says neither, the sample is unscored.

    Args:
        critic: A critic `(task, draft, history)`, or a verifier `(task, draft)`. A model named `inspect` is the one
            that Inspect evaluates.
        name: Of the scorer in the log; default: the critic's own.

    Raises:
        TypeError: It is neither.

    Example:
        >>> from redraft import uses_words
        >>> from redraft.evals.inspect import critic_scorer
        >>> scorer = critic_scorer(uses_words("roof"))
    """
    checks = takes(critic, "task", "draft") or not takes(critic, "task", "draft", ())
    judge: Any = verifier_critic(critic) if checks else critic  # type: ignore[arg-type]
    label = name or name_of(critic)

    async def judged(state: TaskState, target: Target) -> Score:
        task, answer = state.input_text, state.output.completion
        own = {"state": {"task": task, "draft": answer}} if takes_state(judge) else {}
        async with agent_bridge():
            said = read_critiques(await calling(judge, task, answer, (), **own).acall(), by=label)
        verdicts = [one.accepted for one in said if one.accepted is not None]
        scores = [one.score for one in said if one.score is not None]
        told: dict[str, Any] = {
            "answer": answer,
            "explanation": "\n\n".join(one.text for one in said if one.text) or None,
            "metadata": {"score": fmean(scores) if scores else None, "evidence": [one.evidence for one in said]},
        }
        if verdicts:
            return Score(value=CORRECT if all(verdicts) else INCORRECT, **told)
        return Score(value=fmean(scores), **told) if scores else Score.unscored(**told)

    @scorer(metrics=[accuracy(), stderr()], name=label)
    def named() -> Scorer:
        return judged

    return named()


def _task_of(state: TaskState) -> str:
    """Return the user prompt of a sample; raise ValueError where it is not all that the sample asks."""
    if state.choices or any(message.role == "system" for message in state.messages):
        raise ValueError("the sample has choices or a system message: task= makes one text of these and the question")
    return state.user_prompt.text


def _drafts(events: Sequence[Event]) -> list[tuple[str, int]]:
    """Return the drafts of a run in order, each with the tokens spent since the one before."""
    drafts: list[tuple[str, int]] = []
    spent = 0
    for event in current_run(events):
        spent += event.get("usage", NO_USAGE)["total_tokens"]
        if event["kind"] in DRAFT_KINDS and not event.get("rejected"):
            drafts.append((event["text"], spent))
            spent = 0
    return drafts


def _answered(state: TaskState, answer: str) -> TaskState:
    """Return the state with an answer of the assistant."""
    state.output = ModelOutput.from_content(str(state.model), answer)
    state.messages = [*state.messages, state.output.message]
    return state
