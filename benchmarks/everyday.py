"""Everyday texts with checks: how many rejected first drafts does a revision mend, and is that more than samples do?

Each line of the data is a task and its checks, as `--verify` takes them. The first drafts are written once for each
prompt, at temperature 0, and every method goes on from the same ones, `--rounds` rounds at most:

    refine    the default loop: wishes told, and the ladder of ways to mend
    samples   fresh samples until the same checks accept, the same wishes told; compared at equal tokens
    adaptive  the preset: samples and revisions by what has worked
    writing   the preset
    plain     one prompt for all revisions, and no wishes told: the loop before there was a ladder
    beside    the ladder with two revisions side by side on `mend` and on `rewrite`, each of which counts as a round

Each run is a line of `--out`, with all drafts; called again with the same file, what is there is not asked again. The
report gives shares with 95% intervals (Wilson). The test between `refine` and `samples` is of tasks, each the mean over
its seeds, with signs flipped (two-sided, scipy).

    python benchmarks/everyday.py tasks.jsonl --model http://127.0.0.1:8911/v1#NAME --seeds 1 2 3 --out out.jsonl
    python benchmarks/everyday.py tasks.jsonl --out out.jsonl --report
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from redraft import build_adaptive_graph, build_refine_graph, build_writing_graph, chat_model, verifier_critic
from redraft.nodes import AdaptiveWriter, Arm
from redraft.nodes.generate import CHECKED_GENERATE_PROMPT
from redraft.nodes.mending.ladder import accepted_edit, wishes
from redraft.nodes.refine import REFINE_PROMPT
from redraft.nodes.verify.verifiers import verifier
from redraft.nodes.writing.prompts import PromptedModel
from redraft.nodes.writing.sampling import sampled
from redraft.state.summary import attempts
from rows import share
from scipy.stats import permutation_test

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.language_models import BaseChatModel

Row = dict[str, Any]
SAMPLES = 6
"""Fresh samples at most; the comparison cuts them to the tokens that `refine` took."""


def samples(model: BaseChatModel, checks: Sequence[Any], rounds: int) -> Any:
    """Return a loop of fresh samples, as many as `SAMPLES` whatever the rounds."""
    told = wishes(map(verifier_critic, checks))
    sampler = PromptedModel(sampled(model), CHECKED_GENERATE_PROMPT, what="generate_prompt", told=told)
    writer = AdaptiveWriter({"sample": sampler}, [Arm("sample", tries=SAMPLES)])
    return build_refine_graph(model, verifiers=checks, refine=writer, limits={"max_rounds": SAMPLES})


def method(builder: Callable[..., Any], **options: Any) -> Callable[[BaseChatModel, Sequence[Any], int], Any]:
    """Return a maker of the graph of a method."""
    return lambda model, checks, rounds: builder(model, verifiers=checks, limits={"max_rounds": rounds}, **options)


BESIDE = [Arm("mend", tries=1, drafts=2), Arm("rewrite", tries=1, drafts=2), Arm("sample", tries=3)]
UNTOLD = {"tell_checks": False, "refine_prompt": REFINE_PROMPT}
METHODS: dict[str, Callable[[BaseChatModel, Sequence[Any], int], Any]] = {
    "refine": method(build_refine_graph),
    "samples": samples,
    "adaptive": method(build_adaptive_graph),
    "writing": method(build_writing_graph),
    "plain": method(build_refine_graph, **UNTOLD),
    "beside": method(build_refine_graph, rungs=BESIDE),
}


def main() -> None:
    """Run what is not in the file yet, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path, help="JSONL of `id`, `task` and `checks`")
    parser.add_argument("--model", help="as in `redraft run --model`")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["refine", "samples"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], metavar="N")
    parser.add_argument("--rounds", type=int, default=4, metavar="N", help="default 4")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N tasks alone")
    parser.add_argument("--concurrency", type=int, default=8, metavar="N", help="default 8")
    parser.add_argument("--max-tokens", type=int, default=300, metavar="N", help="of a reply; default 300")
    parser.add_argument("--out", type=Path, required=True, help="a line for each run")
    parser.add_argument("--report", action="store_true", help="report what is there, and run nothing")
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.tasks.read_text(encoding="utf-8").splitlines()][: args.limit]
    if not args.report:
        if not args.model:
            parser.error("--model is needed to run anything; --report shows what is there")
        asyncio.run(run(rows, args))
    report(rows, read(args.out), rounds=args.rounds)


def read(path: Path) -> dict[tuple[str, str, int], Row]:
    """Return the runs of a file, by method, task and seed."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {(row["method"], row["id"], row["seed"]): row for row in map(json.loads, lines)}


async def run(rows: Sequence[Row], args: argparse.Namespace) -> None:
    """Run each method on each task with each seed, unless the file has it."""
    there, room = read(args.out), asyncio.Semaphore(args.concurrency)
    options = {"max_output_tokens": args.max_tokens, "temperature": 0.0}

    async def one(name: str, row: Row, seed: int, given: Row | None) -> Row:
        key = (name, row["id"], seed)
        if key not in there:
            checks = [verifier(spec) for spec in row["checks"]]
            model = chat_model(args.model, seed=seed, **options)
            told = name != "untold first"
            graph = (
                METHODS[name](model, checks, args.rounds)
                if given
                else build_refine_graph(model, verifiers=checks, tell_checks=told, limits={"max_rounds": 0})
            )
            async with room:
                draft = {"draft": given["drafts"][0]["text"]} if given else {}
                output = await graph.ainvoke({"task": row["task"], **draft})
            there[key] = {"method": name, "id": row["id"], "seed": seed, **told_of(output, given)}
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(there[key], ensure_ascii=False) + "\n")
            print(f"{len(there)} runs", end="\r", file=sys.stderr, flush=True)
        return there[key]

    for name in args.methods:
        start = "untold first" if name == "plain" else "first"
        # Of temperature 0, so one serves all seeds.
        firsts = await asyncio.gather(*(one(start, row, 0, None) for row in rows))
        waiting = [one(name, row, seed, first) for row, first in zip(rows, firsts, strict=True) for seed in args.seeds]
        await asyncio.gather(*waiting)


def told_of(output: dict[str, Any], given: Row | None) -> Row:
    """Return what is kept of a run: its drafts with tokens, each draft's verdict, and the answer."""
    judged = {draft.round: draft for draft in attempts(output["events"])}
    drafts = []
    for event in output["events"]:
        if event["kind"] not in ("draft", "revision"):
            continue
        draft = judged.get(event["round"])
        kept = {name: event[name] for name in ("round", "text", "refiner", "edited", "rejected") if event.get(name)}
        tokens = given["tokens"] if given and event["kind"] == "draft" else event["usage"]["total_tokens"]
        accepted = bool(draft and draft.accepted and not event.get("rejected"))
        drafts.append({**kept, "tokens": tokens, "accepted": accepted, "feedback": draft.feedback if draft else ""})
    return {
        "accepted": output["stop_reason"] == "accepted",
        "stop_reason": output["stop_reason"],
        "answer": output["answer"],
        "tokens": sum(draft["tokens"] for draft in drafts),
        "drafts": drafts,
    }


def report(rows: Sequence[Row], runs: dict[tuple[str, str, int], Row], *, rounds: int) -> None:
    """Print a line for each method, what each rung mended, and the comparison with samples."""
    print(f"{platform.machine()}, Python {platform.python_version()}; {len(rows)} tasks, {rounds} rounds at most\n")
    print(f"{'method':10} {'n':>4}  {'accepted':32} {'at first':32} {'rejected firsts mended':32} tokens  stopped as")
    ids = {row["id"] for row in rows}
    by_method = {name: [row for (one, task, _), row in runs.items() if one == name and task in ids] for name in METHODS}
    for name, done in by_method.items():
        if not done:
            continue
        rejected = [row for row in done if not row["drafts"][0]["accepted"]]
        cells = [
            share(row["accepted"] for row in done),
            share(row["drafts"][0]["accepted"] for row in done),
            share(row["accepted"] for row in rejected),
        ]
        stops = ", ".join(
            f"{reason} {count}" for reason, count in Counter(r["stop_reason"] for r in done).most_common()
        )
        tokens = fmean(row["tokens"] for row in done)
        print(f"{name:10} {len(done):>4}  {cells[0]:32} {cells[1]:32} {cells[2]:32} {tokens:6.0f}  {stops}")
    rungs = Counter[str]()
    tried = Counter[str]()
    cost = Counter[str]()
    for row in by_method["refine"]:
        for draft in row["drafts"][1:]:
            label = draft.get("refiner", "") + (", edited" if draft.get("edited") else "")
            tried[label] += 1
            rungs[label] += draft["accepted"]
            cost[label] += draft["tokens"]
    for label, count in tried.most_common():
        print(f"  {label:18} mended {rungs[label]} of {count}, {cost[label] / count:.0f} tokens each")
    harm([row for row in by_method["refine"] if row["accepted"] and not row["drafts"][0]["accepted"]])
    compare(rows, by_method["refine"], by_method["samples"])


def harm(mended: Sequence[Row]) -> None:
    """Print what mending did to the texts beside the checks."""
    if not mended:
        return
    texts = {"first drafts": [row["drafts"][0]["text"] for row in mended], "mended": [row["answer"] for row in mended]}
    for name, listed in texts.items():
        prose = [text for text in listed if "\n" not in text.strip() and not text.strip().startswith(("{", "["))]
        ended = sum(text.strip().rstrip("\"'”)").endswith((".", "!", "?", "…")) for text in prose)
        repeats = fmean(repeated(text) for text in listed)
        whole = f"{ended} of {len(prose)} in prose end with a sentence's end"
        print(f"  {name:13} {repeats:.1%} of runs of three words repeated; {whole}")


def repeated(text: str) -> float:
    """Return the share of a text's runs of three words that stand in it before."""
    words = text.casefold().split()
    runs = [*zip(words, words[1:], words[2:], strict=False)]
    return 1 - len({*runs}) / len(runs) if runs else 0.0


def compare(rows: Sequence[Row], method_runs: Sequence[Row], baseline: Sequence[Row]) -> None:
    """Print how refining compares with samples cut to as many tokens, as they are and edited by the same program."""
    shared = {(row["id"], row["seed"]) for row in method_runs} & {(row["id"], row["seed"]) for row in baseline}
    if not shared:
        return
    ours = {key: row for row in method_runs if (key := (row["id"], row["seed"])) in shared}
    theirs = {key: row for row in baseline if (key := (row["id"], row["seed"])) in shared}
    by_id, tokens = {row["id"]: row for row in rows}, fmean(row["tokens"] for row in ours.values())
    print(f"\nrefine: {share(row['accepted'] for row in ours.values())} at {tokens:.0f} tokens a task")
    for name, right_of in (("samples", lambda _, draft: draft["accepted"]), ("samples, edited", edits_well)):
        ended: dict[tuple[str, int], tuple[int, bool]] = {}
        # As many drafts for all as take at least the tokens of the method: the baseline is never the poorer.
        for most in range(1, SAMPLES + 2):
            ended = {key: until_right(by_id[key[0]], row["drafts"][:most], right_of) for key, row in theirs.items()}
            if fmean(used for used, _ in ended.values()) >= tokens:
                break
        against(name, most, ours, ended)


def until_right(row: Row, drafts: Sequence[Row], right: Callable[[Row, Row], bool]) -> tuple[int, bool]:
    """Return the tokens of drafts up to the first that is right, and whether one is."""
    used = 0
    for draft in drafts:
        used += draft["tokens"]
        if right(row, draft):
            return used, True
    return used, False


def edits_well(row: Row, draft: Row) -> bool:
    """Tell if the verifiers accept a draft, or an edit of it by program."""
    checks = {spec: verifier_critic(verifier(spec)) for spec in row["checks"]}
    return bool(draft["accepted"] or (draft.get("text") and accepted_edit(checks, row["task"], draft["text"])))


def against(
    name: str, most: int, ours: dict[tuple[str, int], Row], ended: dict[tuple[str, int], tuple[int, bool]]
) -> None:
    """Print one comparison, with the test over tasks."""
    tasks = sorted({task for task, _ in ended})
    differences = [fmean(ours[key]["accepted"] - ended[key][1] for key in ended if key[0] == task) for task in tasks]
    test = permutation_test((np.array(differences),), np.mean, permutation_type="samples", n_resamples=100_000, rng=1)
    spent = fmean(used for used, _ in ended.values())
    print(f"{name}, {most} drafts at most: {share(right for _, right in ended.values())} at {spent:.0f} tokens a task;")
    print(f"  refine {np.mean(differences):+.3f}, {len(tasks)} tasks, sign flips: p = {test.pvalue:.2g}")


if __name__ == "__main__":
    main()
