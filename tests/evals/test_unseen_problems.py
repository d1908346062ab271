"""`choose` and `gate` on problems that redraft has no kind for: puzzles, an agent, an extraction, a rubric."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from pydantic import BaseModel
from redraft import build_refine_graph, build_rubric_graph, verifier_critic
from redraft.evals import choose, gate, write_baseline
from redraft.evals.run.own_graph import own_graph

pytest.importorskip("scipy")
pytest.importorskip("statsmodels")

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


class Answering(BaseChatModel):
    """A model that answers by a function of its messages, with usage by the length of the text."""

    answer: Callable[[Sequence[BaseMessage]], Any]

    @property
    def _llm_type(self) -> str:
        return "answering"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        reply = self.answer(messages)
        message = reply if isinstance(reply, AIMessage) else AIMessage(reply)
        used = sum(len(str(one.content).split()) for one in messages)
        message.usage_metadata = {"input_tokens": used, "output_tokens": 5, "total_tokens": used + 5}
        return ChatResult(generations=[ChatGeneration(message=message)])


class Problem(NamedTuple):
    """What the commands are given, and which methods must win."""

    graph: Any
    rows: list[dict[str, Any]]
    score: Callable[[Any, Any], Any]
    worse: Any
    """Something that a gate must find worse."""
    wins: str


def puzzles(family: str) -> Problem:
    """Puzzles made by reasoning-gym; the model solves them once it sees task and fault, so not by a short edit."""
    families = importlib.import_module("families")
    lines = (BENCHMARKS / "families.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["family"] == family]
    by_task = {row["task"]: row for row in rows}

    def check(task: str, draft: str) -> Any:
        wrong = families.FAMILIES[family].complaints(by_task[task], draft)
        return (not wrong, f"Not so: {' '.join(wrong)}")

    def answer(messages: Sequence[BaseMessage]) -> str:
        text = "\n".join(str(one.content) for one in messages)
        row = next((row for task, row in by_task.items() if task in text), None)
        return str(row["answer"]) if row and "Not so:" in text else "1"

    graph = build_refine_graph(Answering(answer=answer), critics=[verifier_critic(check)], limits={"max_rounds": 2})
    is_right = families.FAMILIES[family].is_right
    return Problem(graph, rows, is_right, lambda task: "1", "refine-2")


def agent() -> Problem:
    """An agent of LangChain's with a tool, which redraft did not build, and a check around it."""

    @tool
    def price(item: str) -> str:
        """Return what an item costs."""
        return f"{len(item)} euros"

    def answer(messages: Sequence[BaseMessage]) -> Any:
        if messages[-1].type == "tool":
            told = any("euros" in str(one.content) and one.type == "human" for one in messages)
            return str(messages[-1].content) if told else str(messages[-1].content).split()[0]
        item = re.findall(r"costs the (\w+)", " ".join(str(one.content) for one in messages))[-1]
        return AIMessage("", tool_calls=[{"name": "price", "args": {"item": item}, "id": "1"}])

    def check(task: str, draft: str) -> Any:
        return ("euros" in draft, "Say it in euros.")

    rows = [{"task": f"What costs the {'box' * n}?", "price": 3 * n} for n in range(1, 31)]
    graph = own_graph(create_agent(Answering(answer=answer), [price]), verifiers=[check])
    return Problem(graph, rows, lambda row, text: text == f"{row['price']} euros", lambda task: "3", "LangGraph-1")


class Dish(BaseModel):
    """What is taken out of a text."""

    name: str
    minutes: int


def extraction() -> Problem:
    """An answer of a type of one's own: the score is given the object."""

    def answer(messages: Sequence[BaseMessage]) -> str:
        text = " ".join(str(one.content) for one in messages)
        number = int(re.findall(r"soup (\d+)", text)[-1])
        return json.dumps({"name": f"soup {number}", "minutes": number if "whole minutes" in text else 0})

    def check(task: str, draft: str) -> Any:
        return (json.loads(draft)["minutes"] > 0, "Give the whole minutes.")

    rows = [{"task": f"The soup {n} takes {n} minutes.", "minutes": n} for n in range(1, 31)]
    graph = build_refine_graph(
        Answering(answer=answer), answer_type=Dish, critics=[verifier_critic(check)], limits={"max_rounds": 2}
    )
    return Problem(graph, rows, lambda row, dish: dish.minutes == row["minutes"], lambda task: "{}", "refine-1")


def rubric() -> Problem:
    """The rubric preset, whose dimensions judge what no program checks, with a score between 0 and 1."""

    def answer(messages: Sequence[BaseMessage]) -> str:
        text = " ".join(str(one.content) for one in messages)
        return "The roof and the rain." if "name the rain" in text else "The roof."

    def names_rain(task: str, draft: str) -> Any:
        return (1.0, "") if "rain" in draft else (0.2, "Do name the rain.")

    dimensions = dict.fromkeys(("relevance", "completeness", "accuracy", "actionability"), names_rain)
    rows = [{"task": f"Write of house {n}."} for n in range(30)]
    graph = build_rubric_graph(Answering(answer=answer), judges=dimensions, limits={"max_rounds": 2})
    return Problem(graph, rows, lambda row, text: 0.4 + 0.6 * ("rain" in text), lambda task: "", "rubric-1")


UNSEEN = {
    "countdown": lambda: puzzles("countdown"),
    "sorting": lambda: puzzles("sorting"),
    "agent": agent,
    "extraction": extraction,
    "rubric": rubric,
}


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", UNSEEN)
def test_a_method_is_chosen_and_held_on_problems_of_any_kind(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`choose` finds how many rounds pay on rows of one's own, and `gate` holds them there, and finds what is worse."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    problem = UNSEEN[name]()
    choice = choose(problem.graph, problem.rows, score=problem.score)
    assert choice.chosen == problem.wins
    assert choice.after == 1 > choice.before
    path = tmp_path / "baseline.json"
    write_baseline(problem.graph, problem.rows, path, score=problem.score)
    held = gate(problem.graph, problem.rows, path, score=problem.score, margin=0.2)  # what so few rows can tell
    worse = gate(problem.worse, problem.rows, path, score=problem.score)
    assert (held.verdict, worse.verdict) == ("held", "worse")
