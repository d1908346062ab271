"""Agents with tools: how much more is right where critics judge before the agent answers, and for how many tokens.

An agent of LangChain's with a calculator solves word problems: alone (`agent`), with `RefineMiddleware` and programs
that check (`program`), with its own model as judge (`judge`), and with deepagents' `RubricMiddleware` on the same
model (`rubric`, where deepagents is installed). Each answer is a line of the file `--out`; called again with the same
file, what is there is not asked again, errors excepted. The last lines compare each method with the agent alone, on
the problems that both have, with 95% intervals (Wilson) and McNemar's exact test.

    python benchmarks/agent_middleware.py gsm8k_dev.jsonl --model http://127.0.0.1:8911/v1 --limit 100 --out out.jsonl
    python benchmarks/agent_middleware.py bundled --model openai:gpt-5-mini --methods agent judge --out out.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelResponse
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from redraft import RefineMiddleware, Sandbox, Thread, chat_model
from redraft.evals import load_dataset
from redraft.evals.analysis.paired import paired, proportion
from redraft.nodes import calculator_tool, program_critic
from redraft.nodes.agents.react import read_text_calls
from redraft.state.summary import attempts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel
    from redraft.evals import Dataset, Problem

METHODS = ("agent", "program", "judge", "rubric")
PROMPT = "Solve the problem step by step. Use the calculator for each calculation. End with a line: The answer is N"
RUBRIC = "The last line gives the number that the problem asks for, and every step and calculation before it is right."


class TextCalls(AgentMiddleware[Any, Any]):
    """Takes a reply whose whole text is a call of a tool for that call: small models write them so."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        response = await handler(request)
        names = {tool.name for tool in request.tools if not isinstance(tool, dict)}
        told = [read_text_calls(one, names) if isinstance(one, AIMessage) else one for one in response.result]
        return ModelResponse(told, response.structured_response)


def main() -> None:
    """Ask what is not in the file yet, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="word problems, as `redraft eval` takes them: a JSONL file or `bundled`")
    parser.add_argument("--model", required=True, help="as in `redraft run --model`; it must be able to call tools")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["agent", "program", "judge"])
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="revisions at most (default: 2)")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N problems (default: all)")
    parser.add_argument("--max-tokens", type=int, default=30_000, metavar="N", help="budget of one problem")
    parser.add_argument("--concurrency", type=int, default=4, metavar="N", help="problems at once")
    parser.add_argument("--out", type=Path, required=True, help="JSONL file of the answers; it is appended to")
    given = parser.parse_args()
    data = load_dataset(given.dataset)
    problems = data.problems[: given.limit]
    asyncio.run(ask(data, problems, given))
    report([json.loads(line) for line in given.out.read_text(encoding="utf-8").splitlines()], given)


async def ask(data: Dataset, problems: Sequence[Problem], given: argparse.Namespace) -> None:
    """Append a line for each problem and method that has none yet with this model, these rounds and this budget."""
    model = chat_model(given.model, temperature=0, seed=0, max_output_tokens=600)
    about = {
        "model": given.model,
        "max_rounds": given.rounds,
        "max_tokens": given.max_tokens,
        "dataset": data.sha256[:12],
    }
    done = set()
    if given.out.exists():
        rows = map(json.loads, given.out.read_text(encoding="utf-8").splitlines())
        same = [row for row in rows if "error" not in row and all(row[name] == about[name] for name in about)]
        done = {(row["method"], row["id"]) for row in same}
    places = asyncio.Semaphore(given.concurrency)
    with given.out.open("a", encoding="utf-8") as out:

        async def one(method: str, problem: Problem) -> None:
            async with places:
                row = {"method": method, "id": problem.id, **about, **await solved(method, model, data, problem, given)}
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
                out.flush()

        await asyncio.gather(
            *(one(method, one_) for one_ in problems for method in given.methods if (method, one_.id) not in done)
        )


async def solved(
    method: str, model: BaseChatModel, data: Dataset, problem: Problem, given: argparse.Namespace
) -> dict[str, Any]:
    """Return what one method makes of one problem; an error is an answer that is wrong."""
    start = time.perf_counter()
    limits = {"max_tokens": given.max_tokens}
    middleware: list[Any] = [TextCalls()]
    if method == "program":
        critics = [program_critic(model, Sandbox())]
        middleware.insert(0, RefineMiddleware(critics, max_rounds=given.rounds, limits=limits))
    elif method == "judge":
        middleware.insert(0, RefineMiddleware([model], max_rounds=given.rounds, limits=limits))
    elif method == "rubric":
        from deepagents.middleware.rubric import RubricMiddleware

        middleware.insert(0, RubricMiddleware(model=model, max_iterations=given.rounds + 1))
    agent = create_agent(
        model, [calculator_tool()], system_prompt=PROMPT, middleware=middleware, checkpointer=InMemorySaver()
    )
    asked: Any = {"messages": [("user", problem.task)]} | ({"rubric": RUBRIC} if method == "rubric" else {})
    counted = UsageMetadataCallbackHandler()
    config: Any = {"configurable": {"thread_id": problem.id}, "recursion_limit": 60, "callbacks": [counted]}
    try:
        output = await agent.ainvoke(asked, config)
    except Exception as error:  # a model that loops, or a server that is gone: shown in the row
        return {"right": False, "error": f"{type(error).__name__}: {error}"[:300]}
    answer = output["messages"][-1].text
    row: dict[str, Any] = {"answer": answer, "right": data.is_correct(problem, answer)}
    row["tokens"] = sum(used["total_tokens"] for used in counted.usage_metadata.values())
    row["seconds"] = round(time.perf_counter() - start, 2)
    if method in ("program", "judge"):
        told = (await Thread(agent, problem.id).areplay()).output
        first = attempts(told["events"])
        row |= {name: told[name] for name in ("stop_reason", "rounds", "accepted_by")}
        row["first_right"] = bool(first) and data.is_correct(problem, first[0].text)
    return row


def report(rows: list[dict[str, Any]], given: argparse.Namespace) -> None:
    """Print a line for each method, and each beside the agent alone."""
    rows = [row for row in rows if row["model"] == given.model and row["max_rounds"] == given.rounds]
    by = {method: {row["id"]: row for row in rows if row["method"] == method} for method in METHODS}
    print(f"{given.model}, {given.dataset}, {platform.machine()}, {given.rounds} rounds at most")
    for method, found in by.items():
        if not found:
            continue
        right = proportion(sum(row["right"] for row in found.values()), len(found))
        tokens = sum(row.get("tokens", 0) for row in found.values()) / len(found)
        failed = sum("error" in row for row in found.values())
        low, high = right.ci95
        print(f"{method:8} n={right.n} right {right.k / right.n:.1%} ({low:.1%}-{high:.1%}), ", end="")
        print(f"{tokens:,.0f} tokens a problem, {failed} errors")
        if mended := [row for row in found.values() if "first_right" in row]:
            change = paired([row["first_right"] for row in mended], [row["right"] for row in mended])
            print(f"         of its own first answers it fixed {change.fixed} and broke {change.broken}")
        if method != "agent" and (shared := sorted(found.keys() & by["agent"].keys())):
            change = paired([by["agent"][one]["right"] for one in shared], [found[one]["right"] for one in shared])
            print(f"         n={len(shared)} with the agent alone: right where that is wrong {change.fixed}, ", end="")
            print(f"wrong where that is right {change.broken}, p = {change.mcnemar_p:.2g}")


if __name__ == "__main__":
    main()
