"""Preset `agent`: whatever an agent comes up with, judged and refined as text. Internal.

The base runs whole and with its tools for the first draft. The rounds after it are calls of a critic and a refiner,
which have no tools unless the critic is a `tool_critic`, or the base itself is the refiner.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..models.specs import as_model
from ..nodes.agents.agent_answers import AnswerRefiner
from ..nodes.agents.agent_judge import AGENT_CRITIC_PROMPT, AGENT_VERDICT_PROMPT, agent_judge
from ..nodes.agents.agent_runs import agent_reviser, agent_writer
from ..nodes.agents.react import react_agent
from ..nodes.arguments import check_lists, refuse
from ..nodes.critics.critics import verifier_critic
from ..nodes.critics.registry import parted
from ..nodes.mending.ladder import wishes
from ..nodes.writing.prompts import Prompts, is_prompt, seen_by_refiner
from ..nodes.writing.sampling import revising_model
from ..state.limits import merged_limits
from .loop import build_refine_graph

if TYPE_CHECKING:
    import os

    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool
    from langgraph.graph.state import CompiledStateGraph

    from ..nodes.writing.writers import Writer
    from ..state.critique import AnyVerifier, Critic
    from ..state.schema import RefineInput, RefineOutput, RefineState

    AgentGraph = CompiledStateGraph[RefineState, None, RefineInput, RefineOutput]
    AgentCritic = BaseChatModel | Critic

__all__ = ["AGENT_CRITIC_PROMPT", "AGENT_REFINER_PROMPT", "AGENT_VERDICT_PROMPT", "build_agent_graph"]


def build_agent_graph(
    base: Any = None,
    *,
    model: BaseChatModel | str,
    tools: Sequence[str | BaseTool | Callable[..., Any]] = (),
    documents: str | os.PathLike[str] | None = None,
    index: str | None = None,
    top_k: int = 4,
    functions: Sequence[str] = (),
    max_calls: int | None = None,
    critic: AgentCritic | Sequence[AgentCritic] | None = None,
    critics: Sequence[AgentCritic] | None = None,
    verifiers: Sequence[AnyVerifier | str] = (),
    critic_prompt: Prompts | None = None,
    refine: Literal["base"] | Writer | Mapping[str, Literal["base"] | Writer | Prompts] | None = None,
    revise_with_tools: bool = False,
    refiner_prompt: Prompts | None = None,
    stop_phrase: str = "no issues",
    max_rounds: int | None = None,
    refine_temperature: float | None = 0.7,
    **options: Any,
) -> AgentGraph:
    """Return the loop around an agent: its output is the first draft.

    The input is a `task`, or `messages`, whose last user message is the task; critic and refiner are told what was
    said before it. An agent that did not finish (it ran out of steps, its last message was cut off or empty, or tools
    that it called never answered) is not refined: the run ends as `failed`, with what it said as the answer and the
    reason in the record.

    Args:
        base: The agent: any Runnable that takes `messages` or `task`, such as a compiled graph, a prompt chain or a
            chat model; an agent of pydantic-ai or of the OpenAI Agents SDK, or anything with a `run`; or a function,
            async or not, of the task, or of `messages` where it has a parameter of that name. What such an agent says
            of its tokens is counted. Default: a ReAct agent of `model` and `tools`.
        model: Writes the revisions, and judges where no critic is given.
        tools: Of the default agent: LangChain tools, functions with type hints and a docstring, or `"calculate"`,
            `"run_python"` (in the sandbox) and `"search"` (in `documents` or `index`).
        documents: The folder that `"search"` looks passages up in.
        index: A stored index in its place, as `redraft index` makes it.
        top_k: The most passages that a search finds.
        functions: Of the default agent: what the caller can run, each as the JSON of an OpenAI function. The run ends
            where the agent calls one.
        max_calls: Tool calls that the default agent may make for an answer, 50 by default. Those beyond are refused;
            one that calls on after that has not finished.
        critic: Who judges: another model, a critic such as `redraft.nodes.tool_critic(…)`, or
            several of these, who must all accept. Default, where no verifier is given: the model itself.
        critics: The same, as several.
        verifiers: As in `build_refine_graph`.
        critic_prompt: Of models that judge, over `task`, `draft`, `history` and `round`; in a text, `STOP_PHRASE`
            stands for `stop_phrase`. Default: `AGENT_VERDICT_PROMPT` where the judge has structured output, else
            `AGENT_CRITIC_PROMPT`.
        refine: Who revises. `"base"`: the agent itself, with its tools, which is given its answers and what was found
            in them; for what has to be looked up or calculated. Or as in `build_refine_graph`, also several by name,
            `"base"` among them. Default: the model, which is shown the answer and has no tools.
        revise_with_tools: The same as `refine="base"`.
        refiner_prompt: Of the model that revises, over `task`, `draft`, `feedback`, `history` and `round`; default:
            `AGENT_REFINER_PROMPT`. With `refine="base"`, what the agent is told, of which only `feedback` is needed.
        stop_phrase: Where verdicts are text: the reply that accepts, when it is the whole reply.
        max_rounds: How often the draft may be revised, where the caller doesn't say it; it stands over the one in
            `limits=`. Default: what `limits=` says, or 3.
        refine_temperature: Revisions are sampled at this temperature where the model was built with a lower one,
            since a model that is sure of itself repeats its answer, which ends the run. `None`: as it was built.
        options: Everything else that `build_refine_graph` takes.

    Raises:
        ValueError: At build: `tools=`, `max_calls=` or `generate=` stand beside a base, a prompt is given that nothing
            would read, a base graph takes neither `messages` nor `task`, or as in `build_refine_graph`.
        TypeError: At build: the model is none, the base can't be run, or a critic is neither a model nor callable.

    Example:
        >>> from redraft import build_agent_graph
        >>> from redraft.models import ScriptedModel
        >>> graph = build_agent_graph(model=ScriptedModel(["Four.", "no issues"]))
        >>> graph.invoke({"task": "How many is 2 + 2?"})["answer"]
        'Four.'
    """
    model = as_model(model)
    refuse(options, BASE_WRITES)
    if base is None:
        most = MAX_CALLS if max_calls is None else max_calls
        own_tools = _tools(tools, documents, index, top_k=top_k)
        base = react_agent(model, own_tools, functions=[json.loads(spec) for spec in functions], max_calls=most)
    elif tools or functions or documents is not None or index is not None:
        raise ValueError("tools= are for the default agent; give yours its tools when you build it")
    elif max_calls is not None:
        raise ValueError("max_calls= is for the default agent; bound yours when you build it")
    feedback = options.get("feedback")
    if sum(judging is not None for judging in (critic, critics, feedback)) > 1:
        raise ValueError("give critic=, critics= or feedback=, one of them")
    if critic is not None:
        critics = critic if isinstance(critic, list | tuple) else [critic]  # type: ignore[list-item]
    elif critics is None:
        critics = [] if verifiers or feedback is not None else [model]
    check_lists(critics=critics, verifiers=verifiers)
    seen = seen_by_refiner(options)
    prompt = options.pop("refine_prompt", None) or refiner_prompt
    if revise_with_tools and refine is not None:
        raise ValueError("give revise_with_tools= or refine=, not both")
    revising = revising_model(model, refine_temperature)
    checks = [*map(verifier_critic, verifiers)]  # once: a text may name a file
    requirements = wishes([*checks, *(critics or [])]) if options.get("tell_checks", True) else ""
    seen["told"] = requirements
    defaults = {
        "generate": agent_writer(base, told=requirements),
        "critics": [*checks, *_judges(critics, critic_prompt, stop_phrase)],
        "refine": _refiners(BASE if revise_with_tools else refine, prompt, base, revising, seen),
        "name": "agent",
    }
    limits = merged_limits(options.pop("limits", None), None if max_rounds is None else {"max_rounds": max_rounds})
    return build_refine_graph(model, limits=limits, **{**defaults, **options})


def _judges(critics: Sequence[Any], prompt: Prompts | None, stop_phrase: str) -> list[Any]:
    """Return the critics with each chat model among them as a judge of answers."""
    models, _ = parted(critics)
    if prompt is not None and not models:
        raise ValueError("critic_prompt= is for models that judge; nothing here would read it")
    return [
        agent_judge(critic, prompt=prompt, stop_phrase=stop_phrase) if critic in models else critic
        for critic in critics
    ]


def _refiners(refine: Any, prompt: Prompts | None, base: Any, model: Any, seen: Mapping[str, Any]) -> Any:
    """Return the writer of revisions: the agent, the model with a prompt, a writer, or several of these by name."""
    if prompt is not None and refine is not None and not _is_base(refine):
        raise ValueError("refiner_prompt= is for the model, or for refine='base'; nothing here would read it")

    def refiner(part: Any, what: str = "refiner_prompt") -> Any:
        if _is_base(part):
            return agent_reviser(base, prompt, keep=seen["keep"], memory=seen["memory"])
        return AnswerRefiner(model, part, what=what, **seen) if is_prompt(part) else part

    if isinstance(refine, Mapping):
        return {name: refiner(part, f"refiner_prompt of {name!r}") for name, part in refine.items()}
    return refiner((prompt or AGENT_REFINER_PROMPT) if refine is None else refine)


def _is_base(refiner: Any) -> bool:
    return isinstance(refiner, str) and refiner == BASE


def _tools(tools: Sequence[Any], documents: Any, index: str | None, *, top_k: int) -> list[Any]:
    """Return the tools with those made that are named."""
    from ..nodes.agents.tool_critics import calculator_tool, python_tool, search_tool
    from ..nodes.documents import named_documents
    from ..nodes.programs import default_sandbox

    makers: dict[str, Callable[[], Any]] = {
        "calculate": calculator_tool,
        "run_python": lambda: python_tool(default_sandbox()),
        "search": lambda: search_tool(named_documents(documents, index, top_k=top_k)),
    }
    if unknown := [tool for tool in tools if isinstance(tool, str) and tool not in makers]:
        raise ValueError(f"there is no tool {unknown[0]!r}; known are {', '.join(makers)}")
    if ("search" in tools) != (documents is not None or index is not None):
        raise ValueError(
            "--tool search and --documents FOLDER, or --index NAME, belong together: that is what it searches"
        )
    names = dict.fromkeys(tool for tool in tools if isinstance(tool, str))
    return [*(makers[name]() for name in names), *(tool for tool in tools if not isinstance(tool, str))]


BASE = "base"
"""The refiner that is the agent itself."""
BASE_WRITES = dict.fromkeys(("generate", "generate_prompt"), "has no place here: the base writes the first draft")
MAX_CALLS = 50
"""Tool calls: a model that calls the same tool over and over would make hundreds in a minute."""
AGENT_REFINER_PROMPT = """\
Request:
{task}

Earlier answers, for what not to repeat:
{history}

Current answer:
{draft}

Feedback on the current answer:
{feedback}

Rewrite the current answer so that every point of the feedback is met. Keep the facts in it that the feedback does not \
dispute, and make up no new ones: nothing can be looked up any more. Reply with the new answer only: no preface, no \
comment on the changes."""
