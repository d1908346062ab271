"""Where does refining pay? A map of families of problems and models, each cell of which anyone can run.

    python benchmarks/where_refining_pays.py --family sudoku --model http://127.0.0.1:8911/v1#NAME --out small.jsonl
    python benchmarks/where_refining_pays.py --report *.jsonl [--figure map.svg]

The families are those of `families.py`; rows, methods and tests were registered (`evals/PREREGISTERED_MAP.md`). On each
row, from one first draft at temperature 0:

    first     the first draft
    longer    one call that is asked to plan, check and correct before it answers
    samples   fresh samples at 0.7 until the check accepts one, six at most
    where     the default loop with its ladder, three revisions at most: the check says what is wrong and where
    whether   the same loop, and the check says only that the answer is not right
    adaptive  the preset, three rounds at most, with the check that says where

Each run is a line of `--out`, with every text; called again with the same file, what is there is not asked again.
`--rows FROM:TO` takes a part of the rows. The report compares on the rows that both methods have, at equal tokens:
samples are cut to the smallest number whose mean cost reaches that of `where`, so that they are never the poorer.
Intervals are Tango's, p is McNemar's exact test with Holm's correction over the cells. The three questions are answered
by linear mixed models of the differences, row by row, with a random intercept for each family; where one does not
converge, by least squares with errors clustered by families, and the report says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import warnings
from math import log10
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from families import FAMILIES
from redraft import build_adaptive_graph, build_refine_graph, chat_model, verifier_critic
from redraft.evals.analysis.paired import holm, paired, proportion
from redraft.evals.run.own_graph import LONGER
from redraft.nodes import AdaptiveWriter, Arm
from redraft.nodes.generate import CHECKED_GENERATE_PROMPT
from redraft.nodes.mending.ladder import wishes
from redraft.nodes.writing.prompts import PromptedModel
from redraft.nodes.writing.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

Row = dict[str, Any]
ROWS = Path(__file__).with_name("families.jsonl")
METHODS = ("first", "longer", "samples", "where", "whether", "adaptive")
SAMPLES = 6
ROUNDS = 3
MOST_TOKENS = 200
"""Of a reply; four times as many for the longer call."""


def critic(row: Row, *, tells: bool) -> Any:
    """Return the check of a row, which says what is wrong and where, or only that something is."""
    family = FAMILIES[row["family"]]

    def check(task: str, draft: str) -> Any:
        if not (wrong := family.complaints(row, draft)):
            return True
        return (False, " ".join(wrong)) if tells else (False, "The answer is not right.")

    return verifier_critic(check, name="check", wants=family.wants)


def graph_of(method: str, model: BaseChatModel, row: Row) -> Any:
    """Return the graph of a method on a row."""
    judge = critic(row, tells=method in ("where", "adaptive"))
    rounds: dict[str, Any] = {"limits": {"max_rounds": ROUNDS}}
    if method == "samples":
        sampler = PromptedModel(sampled(model), CHECKED_GENERATE_PROMPT, what="generate_prompt", told=wishes([judge]))
        writer = AdaptiveWriter({"sample": sampler}, [Arm("sample", tries=SAMPLES - 1)])
        return build_refine_graph(model, critics=[judge], refine=writer, limits={"max_rounds": SAMPLES - 1})
    if method == "adaptive":
        return build_adaptive_graph(model, critics=[judge], **rounds)
    return build_refine_graph(
        model, critics=[judge], **(rounds if method in ("where", "whether") else {"limits": {"max_rounds": 0}})
    )


async def run(rows: Sequence[Row], args: argparse.Namespace) -> None:
    """Run each method on each row, unless the file has it."""
    there, room = read([args.out]), asyncio.Semaphore(args.concurrency)

    async def one(method: str, row: Row, first: Row | None) -> Row:
        key = (args.name, method, row["id"], args.seed)
        if key not in there:
            most = MOST_TOKENS * (4 if method == "longer" else 1)
            model = chat_model(args.model, seed=args.seed, temperature=0.0, max_output_tokens=most)
            task = row["task"] + (LONGER if method == "longer" else "")
            given = {"draft": first["drafts"][0]["text"]} if first and method != "longer" else {}
            there[key] = {
                "model": args.name,
                "method": method,
                "family": row["family"],
                "id": row["id"],
                "seed": args.seed,
            }
            async with room:
                try:
                    output = await graph_of(method, model, row).ainvoke({"task": task, **given})
                except ValueError as error:  # a longer call that never came to its answer
                    if method != "longer" or first is None:
                        raise
                    tokens = most + first["tokens"]
                    there[key] |= {"right": False, "accepted": False, "stop_reason": str(error)[:200], "tokens": tokens}
                    there[key]["drafts"] = []
                else:
                    if output["stop_reason"] == "failed":
                        raise RuntimeError(f"{row['id']} {method}: {output['error']}")
                    there[key] |= told_of(output, row, first if given else None)
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(there[key], ensure_ascii=False) + "\n")
            print(f"{args.name}: {len(there)} runs, last {row['id']} {method}", end="\r", file=sys.stderr, flush=True)
        return there[key]

    firsts = await asyncio.gather(*(one("first", row, None) for row in rows))
    waiting = [
        one(method, row, first)
        for row, first in zip(rows, firsts, strict=True)
        for method in args.methods
        if method != "first"
    ]
    await asyncio.gather(*waiting)


def told_of(output: Mapping[str, Any], row: Row, first: Row | None) -> Row:
    """Return what is kept of a run: each draft with its tokens, and whether check and harder test take it."""
    family = FAMILIES[row["family"]]
    drafts = []
    for event in output["events"]:
        if event["kind"] not in ("draft", "revision"):
            continue
        given = first is not None and event["kind"] == "draft"
        text = final(event["text"])
        kept = {"text": event["text"], "by": event.get("refiner") or event["kind"]}
        kept["tokens"] = first["drafts"][0]["tokens"] if given and first else event["usage"]["total_tokens"]
        wrong = family.complaints(row, text)
        drafts.append(
            {**kept, "accepted": not wrong, "right": family.is_right(row, text), "told": " ".join(wrong)[:400]}
        )
    return {
        "right": family.is_right(row, final(output["answer"])),
        "accepted": output["stop_reason"] == "accepted",
        "stop_reason": output["stop_reason"],
        "tokens": sum(draft["tokens"] for draft in drafts),
        "drafts": drafts,
    }


def final(text: str) -> str:
    """Return what stands behind the thinking of a longer call; the whole text of others."""
    return text.rpartition("</think>")[2]


def read(paths: Sequence[Path]) -> Runs:
    """Return the runs of files, by model, method, row and seed."""
    lines = [line for path in paths if path.exists() for line in path.read_text(encoding="utf-8").splitlines()]
    return {(row["model"], row["method"], row["id"], row["seed"]): row for row in map(json.loads, lines)}


SIZES = {"smollm2-135m": 0.135, "qwen2.5-coder-0.5b": 0.5, "qwen2.5-coder-1.5b": 1.5}
"""Parameters of the registered models, in thousand millions."""

Runs = dict[tuple[str, str, str, int], Row]
Outcome = dict[str, tuple[bool, float]]
"""Whether the answer is right and its tokens, by the row's id and seed."""


def outcomes(runs: Runs, model: str, family: str) -> dict[str, Outcome]:
    """Return what each method came to in a cell, samples cut to the tokens of `where`."""
    found: dict[str, Outcome] = {}
    for (name, method, row, seed), run in runs.items():
        if name == model and run["family"] == family:
            found.setdefault(method, {})[f"{row} {seed}"] = run["right"], float(run["tokens"])
    if "samples" in found and "where" in found:
        listed = {
            f"{row} {seed}": run
            for (name, method, row, seed), run in runs.items()
            if (name, method) == (model, "samples")
        }
        shared = [key for key in found["where"] if key in found["samples"]]
        for most in range(1, SAMPLES + 1):
            cut = {key: until_accepted(listed[key]["drafts"][:most]) for key in shared}
            if shared and fmean(cut[key][1] for key in shared) >= fmean(found["where"][key][1] for key in shared):
                break
        found["samples"] = cut
    return found


def until_accepted(drafts: Sequence[Row]) -> tuple[bool, float]:
    """Return whether the first draft that the check accepts is right, else the last; and the tokens up to it."""
    tokens, right = 0.0, False
    for draft in drafts:
        tokens, right = tokens + draft["tokens"], draft["right"]
        if draft["accepted"]:
            break
    return right, tokens


def report(runs: Runs, figure: Path | None) -> None:
    """Print the cells, the differences and the answers to the three questions; draw the map."""
    models = sorted({key[0] for key in runs}, key=lambda name: SIZES.get(name, 0.0))
    print(f"{'model':20} {'family':14} " + " ".join(f"{method:>20}" for method in METHODS))
    cells, rows = [], []
    for model in models:
        for family in FAMILIES:
            if not (found := outcomes(runs, model, family)):
                continue
            told = [
                f"{share(found[m].values())} at {fmean(v[1] for v in found[m].values()):.0f}" if m in found else "–"
                for m in METHODS
            ]
            print(f"{model:20} {family:14} " + " ".join(f"{text:>20}" for text in told))
            for question, other in QUESTIONS.items():
                one = found.get("where", {})
                ids = [key for key in one if key in found.get(other, {})]
                if not ids:
                    continue
                pair = paired([found[other][key][0] for key in ids], [one[key][0] for key in ids])
                cells.append({"model": model, "family": family, "question": question, "pair": pair, "n": len(ids)})
                rows += [
                    {"model": model, "family": family, "question": question, "d": one[key][0] - found[other][key][0]}
                    for key in ids
                ]
    print()
    corrected = holm([cell["pair"].mcnemar_p for cell in cells])
    for cell, p in zip(cells, corrected, strict=True):
        low, high = cell["pair"].diff_ci95
        print(
            f"{cell['model']:20} {cell['family']:14} {cell['question']:9} {100 * cell['pair'].diff:+6.1f} points "
            f"({100 * low:+.0f} to {100 * high:+.0f}), n = {cell['n']}, p = {cell['pair'].mcnemar_p:.3g}, "
            f"with Holm {p:.3g}"
        )
    for question in QUESTIONS:
        pooled(question, [row for row in rows if row["question"] == question], models)
    if figure and cells:
        draw(cells, models, figure)


QUESTIONS = {"feedback": "samples", "where": "whether", "refining": "first"}
"""The three questions' differences: `where` less this."""


def share(values: Any) -> str:
    """Return a share in per cent with its interval."""
    listed = [right for right, _ in values]
    low, high = proportion(sum(listed), len(listed)).ci95
    return f"{sum(listed) / len(listed):.0%} ({100 * low:.0f}–{100 * high:.0f})"


def pooled(question: str, rows: Sequence[Row], models: Sequence[str]) -> None:
    """Print the mean difference over families, and how it changes with a tenfold size of the model."""
    import numpy as np
    from statsmodels.regression.linear_model import OLS
    from statsmodels.regression.mixed_linear_model import MixedLM

    families = [row["family"] for row in rows]
    if len({*families}) < 2:
        return
    sized = len({row["model"] for row in rows}) > 1
    columns = [[1.0, log10(SIZES.get(row["model"], 1.0))] if sized else [1.0] for row in rows]
    design = np.array(columns) - (np.array([0.0, np.mean([c[1] for c in columns])]) if sized else 0)
    differences = np.array([float(row["d"]) for row in rows])
    if not differences.any():
        print(f"\n{question}: no row differs, n = {len(rows)}")
        return
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        fitted, note = MixedLM(differences, design, groups=families).fit(reml=True), ""
        # It may say that it converged where it has no errors to tell.
        converged = fitted.converged and np.isfinite(fitted.bse_fe).all()
    if not converged:
        groups = np.unique(families, return_inverse=True)[1]
        fitted = OLS(differences, design).fit(cov_type="cluster", cov_kwds={"groups": groups})
        note = "; the mixed model did not converge: least squares, clustered by families"
    low, high = fitted.conf_int()[0]
    print(
        f"\n{question}: where less {QUESTIONS[question]}, {100 * fitted.params[0]:+.1f} points ({100 * low:+.1f} to "
        f"{100 * high:+.1f}), p = {fitted.pvalues[0]:.2g}; {len(rows)} rows, {len({*families})} families, "
        f"{len(models)} models{note}"
    )
    if sized:
        low, high = fitted.conf_int()[1]
        print(
            f"  a tenfold model: {100 * fitted.params[1]:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f}), "
            f"p = {fitted.pvalues[1]:.2g}"
        )


def draw(cells: Sequence[Row], models: Sequence[str], path: Path) -> None:
    """Draw the gain over samples at equal tokens, families by models."""
    import matplotlib
    import numpy as np
    from matplotlib.figure import Figure

    gains = {(cell["family"], cell["model"]): cell for cell in cells if cell["question"] == "feedback"}
    families = [family for family in FAMILIES if any((family, model) in gains for model in models)]
    grid = np.array([[gains[f, m]["pair"].diff * 100 if (f, m) in gains else np.nan for m in models] for f in families])
    with matplotlib.rc_context({"svg.hashsalt": "map", "svg.fonttype": "none"}):
        figure = Figure(figsize=(2.6 + 1.6 * len(models), 1.2 + 0.42 * len(families)), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(grid, cmap="PuOr_r", vmin=-60, vmax=60, aspect="auto")
        axes.set_xticks(range(len(models)), models)
        axes.set_yticks(range(len(families)), families)
        for y, family in enumerate(families):
            for x, model in enumerate(models):
                if cell := gains.get((family, model)):
                    clear = "*" if cell["pair"].mcnemar_p < 0.05 else ""
                    axes.text(
                        x,
                        y,
                        f"{grid[y, x] or 0:+.0f}{clear}".replace("+0", "0"),
                        ha="center",
                        va="center",
                        color="white" if abs(grid[y, x]) > 40 else "black",
                    )
        axes.set_title("Right answers, refining less samples at equal tokens", fontsize=10)
        figure.colorbar(image, label="points")
        figure.savefig(path, metadata={"Date": None})


def main() -> int:
    """Run what is not in the file yet, or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--report", nargs="+", type=Path, metavar="FILE", help="report what these files hold, and run nothing"
    )
    parser.add_argument("--figure", type=Path, metavar="SVG", help="with --report: draw the map")
    parser.add_argument("--rows-file", type=Path, default=ROWS, help="default: the registered rows")
    parser.add_argument("--family", nargs="+", choices=FAMILIES, default=[*FAMILIES], help="default: all")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--model", help="as in `redraft run --model`")
    parser.add_argument("--name", help="of the model in the report; default: as --model says it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", default=":", metavar="FROM:TO", help="of each family; default all")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--out", type=Path, help="a line for each run")
    args = parser.parse_args()
    if args.report:
        report(read(args.report), args.figure)
        return 0
    if not (args.model and args.out):
        parser.error("--model and --out are needed to run anything; --report FILE shows what is there")
    args.name = args.name or args.model.rpartition("#")[2].rpartition("/")[2]
    start, _, end = args.rows.partition(":")
    part = slice(int(start) if start else None, int(end) if end else None)
    rows = [json.loads(line) for line in args.rows_file.read_text(encoding="utf-8").splitlines()]
    for family in args.family:
        asyncio.run(run([row for row in rows if row["family"] == family][part], args))
    return 0


if __name__ == "__main__":
    sys.exit(main())
