"""Measures repairs in folders: small programs with one bug each, in rounds, by fresh tries, without protected tests.

    python benchmarks/folders.py --data quixbugs.jsonl --model gguf:qwen.gguf --out runs.jsonl
    python benchmarks/folders.py --data quixbugs.jsonl --out runs.jsonl --report

Each row of `--data` has `name`, `buggy` (a program) and `cases` (`[arguments, result]`). Every second case is in the
tests that the checks run; the others are hidden, and run on each draft afterwards. Runs that `--out` has are not run
again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from redraft import chat_model
from redraft.evals.analysis.paired import paired, proportion
from redraft.folders import FolderError, Trees, build_folder_graph, command, read_draft
from redraft.folders.boxed import Box
from redraft.folders.drafts import draft_text
from redraft.folders.writers import FolderWriter, ModelWriter, instruction_for
from redraft.state.dual import calling
from redraft.state.summary import attempts, current_run

ROUNDS, FRESH = 4, 9
METHODS = ("rounds", "fresh", "unprotected")
PYTEST = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q -p no:cacheprovider"
TESTS = """import json, types
from pathlib import Path
import pytest
from {name} import {name}

CASES = json.loads(Path(__file__).with_name("{cases}").read_text())


def plain(value):
    if isinstance(value, types.GeneratorType | tuple | list | set):
        return [plain(one) for one in value]
    return value


@pytest.mark.parametrize("given, result", CASES)
def test_case(given, result):
    wanted = pytest.approx(result, rel=1e-2) if isinstance(result, float) else result
    assert plain({name}(*given)) == wanted
"""


class FreshWriter(FolderWriter):
    """Begins from the user's folder each time, and is told nothing of what failed before."""

    def logic(self, state: Any, /) -> Any:
        base = state["base_tree"]
        with self.trees.copy(base) as folder:
            notes = yield calling(self.worker, instruction_for(state["task"], "", self.protect), folder)
            made = yield calling(self.trees.snapshot, folder, base=base)
        tried = f"try {1 + len(attempts(state['events']))}"  # two tries may come to the same files
        return AIMessage(draft_text(self.trees, base, made.tree, [tried, *notes]))


def make_project(row: dict[str, Any], folder: Path) -> None:
    """Write a program and its tests: every second case where the checks look, the others where nobody does."""
    name = row["name"]
    for place, cases in (("tests", row["cases"][::2]), ("held_back", row["cases"][1::2])):
        at = folder / place if place == "tests" else folder.parent / place
        at.mkdir(parents=True, exist_ok=True)
        (at / f"test_{name}.py").write_text(TESTS.format(name=name, cases="cases.json"), encoding="utf-8")
        (at / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    (folder / f"{name}.py").write_text(row["buggy"], encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")


async def run(row: dict[str, Any], method: str, model: Any) -> dict[str, Any]:
    """Repair a program once, and return what came of it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, trees = Path(scratch) / "project", Path(scratch) / "trees"
        make_project(row, folder)
        protect = () if method == "unprotected" else ("tests/**", "pytest.ini")
        check = command(PYTEST, timeout_s=20)
        graph_options: dict[str, Any] = {"root": folder, "trees": trees, "checks": [check], "protect": protect}
        worker = ModelWriter(model, protect=protect)
        if method == "fresh":
            writer = FreshWriter(worker, Trees(trees), protect=protect)
            graph_options |= {"generate": writer, "refine": writer}
        graph = build_folder_graph(
            worker, **graph_options, limits={"max_rounds": FRESH if method == "fresh" else ROUNDS}
        )
        before = Trees(trees).snapshot(folder).tree
        task = f"A test of {row['name']}.py fails: the program has a bug. Repair {row['name']}.py."
        output = await graph.ainvoke({"task": task})
        drafts, spent = [], 0
        for event in current_run(output["events"]):
            spent += event.get("usage", {}).get("total_tokens", 0)
            if event["kind"] in ("draft", "revision") and not event.get("rejected"):
                drafts.append(
                    {"tokens": spent, "accepted": False, "hidden": hidden(Trees(trees), event["text"], scratch)}
                )
            if event["kind"] == "critique" and drafts:
                drafts[-1]["accepted"] = bool(event["accepted"])
        untouched = Trees(trees).snapshot(folder).tree == before
        said = {"stop_reason": output["stop_reason"], "error": output["error"], "untouched": untouched}
        return {"name": row["name"], "method": method, **said, "tokens": spent, "drafts": drafts}


def hidden(trees: Trees, draft: str, scratch: str) -> bool:
    """Return whether a draft passes the tests that were held back, which are laid beside its files."""
    with trees.copy(read_draft(draft).tree) as folder:
        for place in (Path(scratch) / "held_back").iterdir():
            (folder / "held_back").mkdir(exist_ok=True)
            (folder / "held_back" / place.name).write_bytes(place.read_bytes())
        done = Box(timeout_s=20).run(f"{PYTEST} -c /dev/null --rootdir . -o pythonpath=. held_back", folder)
    return done.code == 0 and not done.ended


async def main(args: argparse.Namespace) -> None:
    """Run what is missing."""
    rows = [json.loads(line) for line in args.data.read_text(encoding="utf-8").splitlines()]
    done = {(one["name"], one["method"]) for one in read(args.out)}
    model = chat_model(args.model, temperature=args.temperature)
    gate = asyncio.Semaphore(args.concurrency)

    async def one(row: dict[str, Any], method: str) -> None:
        async with gate:
            try:
                record = await run(row, method, model)
            except FolderError as error:
                record = {"name": row["name"], "method": method, "error": str(error), "drafts": [], "tokens": 0}
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(record["name"], method, record.get("stop_reason"), record["tokens"], flush=True)

    wanted = [(row, name) for names in (METHODS[:2], METHODS[2:]) for row in rows for name in names]
    await asyncio.gather(*(one(row, name) for row, name in wanted if (row["name"], name) not in done))


def read(path: Path) -> list[dict[str, Any]]:
    """Return the runs of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def solved(record: dict[str, Any], tokens: float) -> bool:
    """Return whether the answer within some tokens passes visible and hidden tests."""
    within = [one for one in record["drafts"] if one["tokens"] <= tokens]
    answer = next((one for one in within if one["accepted"]), None)
    return answer is not None and answer["hidden"]


def report(records: list[dict[str, Any]]) -> None:
    """Print how many were solved, and how often "done" was false."""
    by = {name: {one["name"]: one for one in records if one["method"] == name} for name in METHODS}
    names = sorted(by["rounds"].keys() & by["fresh"].keys())
    rounds = [solved(by["rounds"][name], float("inf")) for name in names]
    once = [solved({"drafts": by["rounds"][name]["drafts"][:1]}, float("inf")) for name in names]
    fresh = [solved(by["fresh"][name], by["rounds"][name]["tokens"]) for name in names]
    every = [solved(by["fresh"][name], float("inf")) for name in names]
    for title, right in (
        ("one call", once),
        ("rounds", rounds),
        ("fresh tries, same tokens", fresh),
        ("fresh, all", every),
    ):
        share = proportion(sum(right), len(right))
        print(f"{title}: {sum(right)} of {len(right)} (95% {share.ci95[0]:.0%}–{share.ci95[1]:.0%})")
    change = paired(fresh, rounds)
    print(f"rounds less fresh tries: {100 * change.diff:+.1f} points (p = {change.mcnemar_p:.3f})")
    for method in METHODS:
        accepted = [one for name, one in by[method].items() if any(draft["accepted"] for draft in one["drafts"])]
        false = [one["name"] for one in accepted if not next(d for d in one["drafts"] if d["accepted"])["hidden"]]
        print(f"{method}: done {len(accepted)} of {len(by[method])}, false {len(false)} {false}; "
              f"folders untouched {sum(one.get('untouched', True) for one in by[method].values())}")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="programs with a bug each, as JSONL")
    parser.add_argument("--model", default="local", help="as in `redraft run --model`")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--concurrency", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True, help="a line for each run")
    parser.add_argument("--report", action="store_true", help="print what --out holds")
    given = parser.parse_args()
    report(read(given.out)) if given.report else asyncio.run(main(given))
