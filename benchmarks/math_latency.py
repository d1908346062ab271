"""Seconds to an answer of `math` ÷ seconds of one call, with the first program beside the draft and in turn.

Drafts and programs are those that a model of 1.5B parameters wrote for sealed rows of GSM8K
(`evals/results/gsm8k_test`); each call takes `--call-s`. Runs are made one at a time, each problem in both ways, in
turn first. What is asked must be the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field
from redraft import build_math_graph
from redraft.nodes.critics.program_critic import ProgramCritic
from rows import Row, add_options, at_most, finish

RESULTS = Path(__file__).parent.parent / "evals" / "results" / "gsm8k_test"


class Recorded(BaseChatModel):
    """Replies after some seconds with what was recorded for a problem."""

    draft: str
    programs: list[str]
    seconds: float
    asked: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "recorded"

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        prompt = str(messages[-1].content)
        kind = "program" if "code block" in prompt else "draft"
        number = self.asked.count("program")
        self.asked.append(kind)
        await asyncio.sleep(self.seconds)
        program = f"```python\n{self.programs[number % len(self.programs)]}\n```"
        reply = program if kind == "program" else self.draft
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply))])


def recorded(count: int) -> list[dict[str, Any]]:
    """Return problems with a draft and the programs of each, in the file's order."""
    programs: dict[str, list[str]] = {}
    for line in (RESULTS / "programs.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        programs.setdefault(row["id"], []).append(row["program"])
    rows = map(json.loads, (RESULTS / "zero-shot" / "results.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        {
            "task": row["question"],
            "draft": row["final_solution"],
            "programs": programs[row["question_id"]],
        }
        for row in rows
        if row["question_id"] in programs
    ][:count]


async def timed(row: dict[str, Any], seconds: float, *, ahead: bool) -> tuple[float, list[str], bool]:
    """Return the seconds of a run, what was asked, and whether the first program agreed with the draft."""
    model = Recorded(draft=row["draft"], programs=row["programs"], seconds=seconds)
    with patch.object(ProgramCritic, "ahead", ProgramCritic.ahead if ahead else property(_nothing)):
        graph = build_math_graph(model)
    start = perf_counter()
    output = await graph.ainvoke({"task": row["task"]})
    spent = perf_counter() - start
    return spent, model.asked, output["stop_reason"] == "accepted" and len(model.asked) == 2


def _nothing(critic: object) -> None:
    """Ask for nothing before there is a draft, as it was."""
    raise AttributeError


async def compared(rows: list[dict[str, Any]], seconds: float) -> tuple[list[tuple[float, float, bool]], int]:
    """Return the seconds of each problem in turn and ahead, whether the first program agreed, and in how many other
    calls were made."""
    await timed(rows[0], 0, ahead=True)  # the sandbox starts
    found, others = [], 0
    for row in rows:
        in_turn, asked, agreed = await timed(row, seconds, ahead=False)
        ahead, asked_ahead, _ = await timed(row, seconds, ahead=True)
        others += sorted(asked) != sorted(asked_ahead)
        found.append((in_turn, ahead, agreed))
    return found, others


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--call-s", type=float, default=1.0, help="seconds of a call")
    given = parser.parse_args(arguments)
    if given.quick:
        given.problems, given.call_s = 16, 0.3
    rows = recorded(given.problems)
    found, others = asyncio.run(compared(rows, given.call_s))
    agreed = [pair for pair in found if pair[2]]
    means = {"the first program agrees": (agreed, 1.3), "all problems": (found, 2.5)}
    shown: list[Row] = []
    for what, (pairs, goal) in means.items():
        for way, at, limit in (("in turn", 0, None), ("ahead", 1, goal)):
            mean = statistics.fmean(pair[at] for pair in pairs) / given.call_s
            shown.append(at_most(f"math: seconds to an answer ÷ one call, {what}, {way}", mean, limit, n=len(pairs)))
    shown.append(at_most("runs in which other calls were made than in turn", others, 0, unit="runs", n=len(found)))
    return finish(shown, given.json)


if __name__ == "__main__":
    sys.exit(main())
