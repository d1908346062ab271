"""What does refining fix and break on word problems, by who judges, and what do the baselines reach?

Runs the problems of a file once with each method: the `math` preset judged by `self` (the model judges its own
solution) or by `program` (a program that it writes without seeing the solution must agree), and the baselines
`zero-shot`, `few-shot` and `majority-N`. Prints for each how many first solutions and final answers are right, what
refining fixed and broke, how many answers were accepted and how many of these are wrong, and what it cost. Gold answers
are compared after a run; no prompt and no state holds one.

    python benchmarks/math_methods.py --problems gsm8k.jsonl --model http://127.0.0.1:8080/v1#my-model --limit 20 \\
        --out results.jsonl

Problems are JSON Lines with `question` and `answer`, which ends in `#### 42`, as in GSM8K. Results go to `--out`, one
line a problem, and a second start goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from redraft.evals.records import ResultRecord, result_record
from redraft.graphs.math_problems import (
    build_few_shot_graph,
    build_majority_graph,
    build_math_graph,
    build_zero_shot_graph,
)
from redraft.models import chat_model
from redraft.nodes.verifiers import extract_number, same_number

__all__ = ["main"]

BASELINES = {"zero-shot": build_zero_shot_graph, "few-shot": build_few_shot_graph}


def main() -> None:
    given = arguments()
    problems = read_problems(given.problems, given.limit)
    done = read_results(given.out)
    model = chat_model(given.model, temperature=0, max_output_tokens=given.max_output_tokens)
    for method in given.methods:
        left = [problem for problem in problems if (method, problem["id"]) not in done]
        if left:
            asyncio.run(run(build(model, method), method, left, given, done))
    show(given, problems, done)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=Path, required=True, help="JSON Lines with question and answer")
    parser.add_argument("--model", required=True, help="as `redraft run --model`")
    parser.add_argument(
        "--methods",
        type=lambda text: text.split(","),
        default=["zero-shot", "majority-5", "self", "program"],
        help="some of zero-shot,few-shot,majority-N,self,program (default zero-shot,majority-5,self,program)",
    )
    parser.add_argument("--limit", type=int, default=20, help="the first N problems (default 20)")
    parser.add_argument("--max-rounds", type=int, default=3, help="revisions at most (default 3)")
    parser.add_argument("--max-output-tokens", type=int, default=400, help="longest reply (default 400)")
    parser.add_argument("--parallel", type=int, default=2, help="problems at once (default 2)")
    parser.add_argument("--out", type=Path, required=True, help="results, one JSON object a line")
    return parser.parse_args()


def read_problems(path: Path, limit: int) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][:limit]
    return [{"id": f"{path.stem}-{number}", **row} for number, row in enumerate(rows)]


def read_results(path: Path) -> dict[tuple[str, str], ResultRecord]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return {(one["method"], one["record"]["question_id"]): ResultRecord(**one["record"]) for one in found}


def build(model: Any, method: str) -> Any:
    """Return the graph of a method.

    Raises:
        SystemExit: There is no such method.
    """
    name, _, samples = method.partition("-")
    if name == "majority" and samples.isdecimal():
        return build_majority_graph(model, samples=int(samples))
    if method in ("self", "program"):
        return build_math_graph(model, critic=method)
    if method in BASELINES:
        return BASELINES[method](model)
    raise SystemExit(f"there is no method {method!r}; known are self, program, {', '.join(BASELINES)} and majority-N")


async def run(
    graph: Any,
    method: str,
    problems: list[dict[str, Any]],
    given: argparse.Namespace,
    done: dict[tuple[str, str], ResultRecord],
) -> None:
    """Run the problems that are left, and write each result as it comes."""
    turns = asyncio.Semaphore(given.parallel)

    async def solve(problem: dict[str, Any]) -> None:
        async with turns:
            output = await graph.ainvoke({"task": problem["question"], "limits": {"max_rounds": given.max_rounds}})
        gold = problem["answer"].rpartition("####")[2].strip()
        record = result_record(
            output,
            question_id=problem["id"],
            question=problem["question"],
            read_answer=extract_number,
            is_correct=lambda solution: same_number(extract_number(solution), gold),
            ground_truth=gold,
        )
        done[method, problem["id"]] = record
        with given.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"method": method, "record": record.model_dump()}) + "\n")
        said = f"{method} {problem['id']}: {record.stop_reason}, right: {record.is_correct}"
        print(said, file=sys.stderr, flush=True)

    await asyncio.gather(*(solve(problem) for problem in problems))


def show(given: argparse.Namespace, problems: list[dict[str, Any]], done: dict[tuple[str, str], ResultRecord]) -> None:
    """Print one row a method."""
    print(
        f"{given.model.partition('#')[2] or given.model}, {len(problems)} problems of {given.problems.name}, ", end=""
    )
    print(f"at most {given.max_rounds} rounds, Python {platform.python_version()}, {os.cpu_count()} cores\n")
    heads = (
        "method    ",
        "first right",
        "last right",
        "fixed",
        "broke",
        "accepted",
        "of these wrong",
        "tokens",
        "seconds",
    )
    print("  ".join(heads))
    for method in given.methods:
        records = [done[method, problem["id"]] for problem in problems]
        first = [bool(record.iterations_log[0].is_correct) for record in records]
        last = [bool(record.is_correct) for record in records]
        accepted = [record.is_correct for record in records if record.is_correct_per_feedback]
        values = (
            method,
            sum(first),
            sum(last),
            sum(now and not before for before, now in zip(first, last, strict=True)),
            sum(before and not now for before, now in zip(first, last, strict=True)),
            len(accepted),
            accepted.count(False),
            sum(record.total_tokens for record in records),
            round(sum(record.seconds for record in records)),
        )
        print("  ".join(str(value).rjust(len(head)) for value, head in zip(values, heads, strict=True)))


if __name__ == "__main__":
    main()
