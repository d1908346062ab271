"""The same refinement, written with redraft and by hand with LangGraph, on a model that answers at once.

All of them send the same texts to the same LangChain model, which objects to every draft: each draft, critique and
revision is one call. `benchmarks/peer_loops.py` has it without LangGraph.
"""

from __future__ import annotations

import asyncio
import itertools
import operator
import random
from functools import cache
from typing import Annotated, Any, Literal, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

__all__ = [
    "CRITIC_PROMPT",
    "REFINE_PROMPT",
    "ROUNDS",
    "Answering",
    "accepts",
    "by_hand",
    "calls_in",
    "piece",
    "redraft_graph",
    "run_rounds",
    "task_of",
    "thread_config",
    "tutorial_graph",
]

ROUNDS = 3
CRITIC_PROMPT = "Task:\n{task}\n\nDraft:\n{draft}\n\nName every error, or reply with exactly: no issues"
REFINE_PROMPT = "Task:\n{task}\n\nEarlier:\n{history}\n\nDraft:\n{draft}\n\nFeedback:\n{feedback}\n\nRewrite the draft."


def calls_in(rounds: int) -> int:
    """Return how many model calls a run makes: each draft and each judgement."""
    return 2 + 2 * rounds


@cache
def prose() -> str:
    """Return 300,000 characters in paragraphs and lists, with the quotes and dashes that models write.

    No part of it repeats, so that no compression flatters what is stored.
    """
    chance = random.Random(25)

    def words(least: int, most: int) -> str:
        made = ["".join(chance.choices("etaoinshrdlucmfw", k=chance.randint(2, 9))) for _ in range(least)]
        made += [
            "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(chance.randint(0, most - least))
        ]
        return " ".join(made).capitalize()

    parts, length = [], 0
    while length < 300_000:
        line = (
            f"- {words(4, 9)}: {words(3, 8)}"
            if chance.random() < 0.4
            else f"{words(9, 30)}, it’s {words(9, 30)} – yes.\n"
        )
        parts.append(line)
        length += len(line) + 1
    return "\n".join(parts)


def piece(size_kb: float, start: int) -> str:
    """Return so many KB of prose from somewhere in it."""
    size = int(1024 * size_kb)
    start %= len(prose()) - size
    return prose()[start : start + size].strip() or "empty"


def task_of(size_kb: float) -> str:
    """Return a task of this size: a request, and below it the material."""
    return f"Write about the night, with a river and a lamp in it, from these notes.\n{piece(size_kb, 1)}"[
        : int(1024 * size_kb)
    ]


COUNT = itertools.count()
"""Of replies: no two of a run are alike."""


class Answering(BaseChatModel):
    """Objects to every draft and writes another, of `text_kb`; after `delay_s`, where one is given."""

    delay_s: float = 0.0
    text_kb: float = 0.4

    @property
    def _llm_type(self) -> str:
        return "answering"

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        asked = messages[-1].content
        judging = asked.endswith("no issues")
        text = piece(min(self.text_kb, 0.4) if judging else self.text_kb, 997 * next(COUNT))
        usage = {"input_tokens": 40, "output_tokens": 20, "total_tokens": 60}
        message = AIMessage(text, usage_metadata=usage, response_metadata={"model_name": "answering"})
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        return self._generate(messages)


def redraft_graph(model: Any, *, rounds: int = ROUNDS, **options: Any) -> Any:
    """Return the loop of redraft, where the model judges itself."""
    from redraft import build_refine_graph, model_critic

    critic = model_critic(model, prompt=CRITIC_PROMPT, structured=False)
    limits = {"max_rounds": rounds}
    return build_refine_graph(model, critics=[critic], refine_prompt=REFINE_PROMPT, limits=limits, **options)


def run_rounds(saver: Any, rounds: int, thread_id: str, *, memory: Literal["all", "last"] = "last") -> None:
    """Run redraft's loop for so many rounds in this thread, in step; drafts are of 1 KB."""
    graph = redraft_graph(Answering(text_kb=1.0), rounds=rounds, checkpointer=saver, memory=memory)
    out = graph.invoke({"task": task_of(0.1)}, thread_config(thread_id, rounds))
    if out["rounds"] != rounds:
        raise RuntimeError(f"the run made {out['rounds']} rounds, not {rounds}: {out['stop_reason']}")


def thread_config(thread_id: str, rounds: int) -> Any:
    """Return the config of a run of so many rounds."""
    return {"configurable": {"thread_id": thread_id}, "recursion_limit": 10 * rounds + 50}


class ByHand(TypedDict, total=False):
    """The state of a run by hand: plain values, and a list of earlier attempts."""

    task: str
    draft: str
    feedback: str
    attempts: Annotated[list[str], operator.add]
    usage: Annotated[list[dict[str, Any]], operator.add]
    rounds: int
    stop_reason: str | None


def accepts(said: str) -> bool:
    return said.strip().strip(".").lower() == "no issues"


def by_hand(model: Any, *, rounds: int = ROUNDS, **options: Any) -> Any:
    """Return redraft's five nodes as one would write them with LangGraph and nothing else, all of them async."""
    from langgraph.graph import END, START, StateGraph

    async def prepare(state: ByHand) -> dict[str, Any]:
        return {"rounds": 0, "stop_reason": None}

    async def generate(state: ByHand) -> dict[str, Any]:
        reply = await model.ainvoke(state["task"])
        return {"draft": reply.text, "usage": [reply.usage_metadata]}

    async def feedback(state: ByHand) -> dict[str, Any]:
        reply = await model.ainvoke(CRITIC_PROMPT.format(task=state["task"], draft=state["draft"]))
        return {"feedback": reply.text, "usage": [reply.usage_metadata]}

    async def check(state: ByHand) -> dict[str, Any]:
        if accepts(state["feedback"]):
            return {"stop_reason": "accepted"}
        return {"stop_reason": "max_rounds" if state["rounds"] >= rounds else None}

    async def refine(state: ByHand) -> dict[str, Any]:
        reply = await model.ainvoke(
            REFINE_PROMPT.format(
                task=state["task"],
                history="\n\n".join(state.get("attempts", [])),
                draft=state["draft"],
                feedback=state["feedback"],
            )
        )
        told = f"{state['draft']}\n{state['feedback']}"
        return {
            "draft": reply.text,
            "attempts": [told],
            "rounds": state["rounds"] + 1,
            "usage": [reply.usage_metadata],
        }

    async def route(state: ByHand) -> str:
        return END if state["stop_reason"] else "refine"

    graph = StateGraph(ByHand)
    for node in (prepare, generate, feedback, check, refine):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "generate")
    graph.add_edge("generate", "feedback")
    graph.add_edge("feedback", "check")
    graph.add_conditional_edges("check", route, ["refine", END])
    graph.add_edge("refine", "feedback")
    return graph.compile(**options)


def tutorial_graph(model: Any, *, rounds: int = ROUNDS, **options: Any) -> Any:
    """Return the two nodes and the route of LangGraph's own tutorial (Workflows and agents: evaluator-optimizer).

    https://docs.langchain.com/oss/python/langgraph/workflows-agents
    """
    from langgraph.graph import END, START, StateGraph

    async def llm_call_generator(state: ByHand) -> dict[str, Any]:
        if not state.get("feedback"):
            return {"draft": (await model.ainvoke(state["task"])).text, "rounds": 0}
        history = "\n\n".join(state.get("attempts", []))
        values = {"task": state["task"], "draft": state["draft"], "feedback": state["feedback"], "history": history}
        reply = await model.ainvoke(REFINE_PROMPT.format(**values))
        told = f"{state['draft']}\n{state['feedback']}"
        return {"draft": reply.text, "attempts": [told], "rounds": state["rounds"] + 1}

    async def llm_call_evaluator(state: ByHand) -> dict[str, Any]:
        reply = await model.ainvoke(CRITIC_PROMPT.format(task=state["task"], draft=state["draft"]))
        done = accepts(reply.text) or state["rounds"] >= rounds
        return {"feedback": reply.text, "stop_reason": "max_rounds" if done else None}

    async def route(state: ByHand) -> str:
        return "Accepted" if state["stop_reason"] else "Rejected + Feedback"

    graph = StateGraph(ByHand)
    graph.add_node("llm_call_generator", llm_call_generator)
    graph.add_node("llm_call_evaluator", llm_call_evaluator)
    graph.add_edge(START, "llm_call_generator")
    graph.add_edge("llm_call_generator", "llm_call_evaluator")
    ways = {"Accepted": END, "Rejected + Feedback": "llm_call_generator"}
    graph.add_conditional_edges("llm_call_evaluator", route, ways)
    return graph.compile(**options)
