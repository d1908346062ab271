"""The same refinement, written with redraft and by hand, on a model that answers at once: what the benchmarks run."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

__all__ = ["CALLS", "ROUNDS", "STEPS", "TASK", "Answering", "bare_graph", "redraft_graph"]

ROUNDS = 3
STEPS = 4 + 3 * ROUNDS
"""Nodes of one run: prepare, generate, feedback and check, and refine, feedback and check a round."""
CALLS = 2 + 2 * ROUNDS
"""Model calls of one run: each draft and each judgement."""
TASK = "Write one short sentence about the night, with a river and a lamp in it."
DRAFT = "The lamp by the river burned low, and the night leaned in to listen, version {}."
CRITIQUE = "The river is named too late in the sentence; begin with it, and keep the lamp."
CRITIC_PROMPT = "Task:\n{task}\n\nDraft:\n{draft}\n\nName every error, or reply with exactly: no issues"
REFINE_PROMPT = "Task:\n{task}\n\nEarlier:\n{history}\n\nDraft:\n{draft}\n\nFeedback:\n{feedback}\n\nRewrite the draft."


class Answering(BaseChatModel):
    """Objects to every draft and writes another; after `delay_s`, where one is given."""

    delay_s: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "answering"

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        asked = messages[-1].content
        text = CRITIQUE if "no issues" in asked else DRAFT.format(len(asked))
        usage = {"input_tokens": 40, "output_tokens": 20, "total_tokens": 60}
        message = AIMessage(text, usage_metadata=usage, response_metadata={"model_name": "answering"})
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        return self._generate(messages)


def redraft_graph(model: Any, **options: Any) -> Any:
    """The loop of redraft, where the model judges itself."""
    from redraft import build_refine_graph, model_critic

    critic = model_critic(model, prompt=CRITIC_PROMPT, structured=False)
    limits = {"max_rounds": ROUNDS}
    return build_refine_graph(model, critics=[critic], refine_prompt=REFINE_PROMPT, limits=limits, **options)


class Bare(TypedDict, total=False):
    """The state of a run, in the channels that redraft has too."""

    task: str
    limits: dict[str, Any]
    events: Annotated[list[dict[str, Any]], operator.add]
    answer: str
    stop_reason: str | None
    rounds: int
    score: float | None
    accepted_by: str | None
    usage: dict[str, int]


def bare_graph(model: Any, **options: Any) -> Any:
    """The same nodes with the same calls, as one would write them by hand with LangGraph and nothing else."""
    from langchain_core.prompts import ChatPromptTemplate
    from langgraph.graph import END, START, StateGraph

    generating = ChatPromptTemplate.from_template("{task}")
    judging = ChatPromptTemplate.from_template(CRITIC_PROMPT)
    refining = ChatPromptTemplate.from_template(REFINE_PROMPT)

    def event(kind: str, number: int, reply: Any = None, **fields: Any) -> dict[str, Any]:
        usage = dict(reply.usage_metadata) if reply is not None else {}
        text = str(reply.text) if reply is not None else ""
        return {"kind": kind, "round": number, "by": "model", "text": text, "usage": usage, **fields}

    def prepare(state: Bare) -> dict[str, Any]:
        limits = {"max_rounds": ROUNDS, **(state.get("limits") or {})}
        told = {**event("task", 0), "text": state["task"]}
        return {"limits": limits, "events": [told], "answer": "", "stop_reason": None, "rounds": 0}

    async def generate(state: Bare) -> dict[str, Any]:
        reply = await model.ainvoke(generating.format_messages(task=state["task"]))
        return {"events": [event("draft", 0, reply)]}

    async def feedback(state: Bare) -> dict[str, Any]:
        draft = [one["text"] for one in state["events"] if one["kind"] in ("draft", "revision")][-1]
        reply = await model.ainvoke(judging.format_messages(task=state["task"], draft=draft))
        accepted = str(reply.text).strip().strip(".").lower() == "no issues"
        return {"events": [event("critique", state["rounds"], reply, accepted=accepted)]}

    def check(state: Bare) -> dict[str, Any]:
        events = state["events"]
        drafts = [one["text"] for one in events if one["kind"] in ("draft", "revision")]
        accepted = [one for one in events if one["kind"] == "critique"][-1]["accepted"]
        reason = "accepted" if accepted else None
        if reason is None and state["rounds"] >= state["limits"]["max_rounds"]:
            reason = "max_rounds"
        usage: dict[str, int] = {}
        for one in events:
            for name in ("input_tokens", "output_tokens", "total_tokens"):
                usage[name] = usage.get(name, 0) + one["usage"].get(name, 0)
        return {
            "events": [event("verdict", state["rounds"], accepted=accepted, stop_reason=reason)],
            "stop_reason": reason,
            "answer": drafts[-1] if reason else "",
            "accepted_by": "model" if accepted else None,
            "score": None,
            "usage": usage,
        }

    async def refine(state: Bare) -> dict[str, Any]:
        drafts = [one["text"] for one in state["events"] if one["kind"] in ("draft", "revision")]
        critiques = [one["text"] for one in state["events"] if one["kind"] == "critique"]
        told = zip(drafts[:-1], critiques[:-1], strict=True)
        history = "\n\n".join(f"Attempt {n}:\n{draft}\n{said}" for n, (draft, said) in enumerate(told, start=1))
        values = {"task": state["task"], "draft": drafts[-1], "feedback": critiques[-1], "history": history}
        reply = await model.ainvoke(refining.format_messages(**values))
        number = state["rounds"] + 1
        return {"events": [event("revision", number, reply, base=number - 1)], "rounds": number}

    graph = StateGraph(Bare)
    for node in (prepare, generate, feedback, check, refine):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "generate")
    graph.add_edge("generate", "feedback")
    graph.add_edge("feedback", "check")
    graph.add_conditional_edges("check", lambda state: END if state["stop_reason"] else "refine", ["refine", END])
    graph.add_edge("refine", "feedback")
    return graph.compile(**options)
