"""Measures repairs in folders: small programs with one bug each, in rounds, by fresh tries, without protected tests.

    python benchmarks/folders.py --projects projects.jsonl --model gguf:qwen.gguf --out runs.jsonl
    python benchmarks/folders.py --projects projects.jsonl --out runs.jsonl --report

`benchmarks/one_bug.py` writes the projects. They are taken in an order drawn once, so that those that were run are a
fair sample of all wherever one stops. Fresh tries may cost what the rounds of the same project did. The hidden tests of
each are run on every draft afterwards. Runs that `--out` has are not run again.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from one_bug import PYTEST, write
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


class FreshWriter(FolderWriter):
    """Begins from the user's folder each time: is told what fails there, and nothing of other tries."""

    def logic(self, state: Any, /) -> Any:
        base = state["base_tree"]
        with self.trees.copy(base) as folder:
            notes = yield calling(self.worker, instruction_for(state["task"], state["found"], self.protect), folder)
            made = yield calling(self.trees.snapshot, folder, base=base)
        tried = f"try {1 + len(attempts(state['events']))}"  # two tries may come to the same files
        return AIMessage(draft_text(self.trees, base, made.tree, [tried, *notes]))


async def run(row: dict[str, Any], method: str, model: Any, max_tokens: int | None = None) -> dict[str, Any]:
    """Repair a program once, within some tokens, and return what came of it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, trees = Path(scratch) / "project", Path(scratch) / "trees"
        write(row, folder)
        protect = () if method == "unprotected" else ("tests/**", "pytest.ini")
        check = command(PYTEST, timeout_s=20)
        graph_options: dict[str, Any] = {"root": folder, "trees": trees, "checks": [check], "protect": protect}
        worker = ModelWriter(model, protect=protect)
        if method == "fresh":
            writer = FreshWriter(worker, Trees(trees), protect=protect)
            graph_options |= {"generate": writer, "refine": writer}
        limits = {"max_rounds": FRESH if method == "fresh" else ROUNDS, "max_tokens": max_tokens}
        graph = build_folder_graph(worker, **graph_options, limits=limits)
        before = Trees(trees).snapshot(folder).tree
        task = f"A test of {row['target']} fails: the program has a bug. Repair {row['target']}."
        output = await graph.ainvoke({"task": task})
        drafts, spent = [], 0
        for event in current_run(output["events"]):
            spent += event.get("usage", {}).get("total_tokens", 0)
            if event["kind"] in ("draft", "revision") and not event.get("rejected"):
                drafts.append(
                    {"tokens": spent, "accepted": False, "hidden": passes_hidden(Trees(trees), event["text"], row)}
                )
            if event["kind"] == "critique" and drafts:
                drafts[-1]["accepted"] = bool(event["accepted"])
        untouched = Trees(trees).snapshot(folder).tree == before
        said = {"stop_reason": output["stop_reason"], "error": output["error"], "untouched": untouched}
        return {"name": row["name"], "method": method, **said, "tokens": spent, "drafts": drafts}


def passes_hidden(trees: Trees, draft: str, project: dict[str, Any]) -> bool:
    """Return whether a draft passes the tests that were held back, which are laid beside its files."""
    with trees.copy(read_draft(draft).tree) as folder:
        for path, text in project["hidden"].items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        done = Box(timeout_s=20).run(f"{PYTEST} -c /dev/null --rootdir . -o pythonpath=. held_back", folder)
    return done.code == 0 and not done.ended


async def main(args: argparse.Namespace) -> None:
    """Run what is missing."""
    rows = sorted(read(args.projects), key=lambda row: hashlib.sha256(row["name"].encode()).hexdigest())
    done = {(one["name"], one["method"]): one for one in read(args.out)}
    model = chat_model(args.model, temperature=args.temperature, max_output_tokens=args.max_output_tokens)
    gate = asyncio.Semaphore(args.concurrency)

    async def one(row: dict[str, Any], method: str, max_tokens: int | None = None) -> dict[str, Any]:
        if (row["name"], method) in done:
            return done[row["name"], method]
        try:
            record = await run(row, method, model, max_tokens)
        except FolderError as error:
            record = {"name": row["name"], "method": method, "error": str(error), "drafts": [], "tokens": 0}
        with args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        print(record["name"], method, record.get("stop_reason"), record["tokens"], flush=True)
        return record

    async def compared(row: dict[str, Any]) -> None:
        async with gate:
            rounds = await one(row, "rounds")
            await one(row, "fresh", rounds["tokens"] or None)

    async def unprotected(row: dict[str, Any]) -> None:
        async with gate:
            await one(row, "unprotected")

    await asyncio.gather(*map(compared, rows), *map(unprotected, rows))


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
    parser.add_argument("--projects", type=Path, required=True, help="what one_bug.py wrote")
    parser.add_argument("--model", default="local", help="as in `redraft run --model`")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--max-output-tokens", type=int, default=700)
    parser.add_argument("--concurrency", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True, help="a line for each run")
    parser.add_argument("--report", action="store_true", help="print what --out holds")
    given = parser.parse_args()
    report(read(given.out)) if given.report else asyncio.run(main(given))
