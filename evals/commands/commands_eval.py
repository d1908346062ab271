"""Command `eval`: methods on a dataset, or with `--retrieval` searches over questions with known sources. Internal."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..._files import write_file
from ...faces.cli.options import (
    DATA,
    LIMITS,
    MODELS,
    AnswerField,
    AsJson,
    CostBudget,
    MaxOutputTokens,
    MethodCritic,
    Model,
    Prices,
    PromptFile,
    QuestionField,
    Temperature,
    TimeBudget,
    Timeout,
    TokenBudget,
    given_limits,
)
from ...faces.problems import BadInputError, bad_input
from ...faces.views.console import Screen, plain_table
from ...faces.views.wording import percent
from .options import PACE, GraphOptions, OwnScore, Verify

if TYPE_CHECKING:
    from ..analysis.retrieval import RetrievalLedger

__all__ = ["evaluate"]


RETRIEVAL = "Retrieval"
DEFAULT_METHODS = "zero-shot,majority-5,self-refine-3,program-3"


def evaluate(
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATASET]",
            help="A JSONL file, bundled (word problems of our own), hf:NAME, langsmith:NAME, langfuse:NAME or "
            "phoenix:NAME.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Results; one folder a method is made in it.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="zero-shot · few-shot · majority-N · best-of-N · blind-N · clauses-N · self-refine-N · program-N · "
            "adaptive · oracle-refine-N, or a graph of `redraft run`; with --retrieval bm25 · vectors · unrefined · "
            "refined",
            rich_help_panel=DATA,
        ),
    ] = None,
    option: GraphOptions = None,
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What is evaluated: a graph of `redraft run`, a recipe's file, or module:name of a graph, an agent or "
            "a function of the task. Its first drafts, a longer call, samples chosen by its own checks and a vote "
            "stand beside it.",
            rich_help_panel=DATA,
        ),
    ] = None,
    verify: Verify = None,
    score: OwnScore = None,
    model: Model = None,
    critic: MethodCritic = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="So many problems; else all.", rich_help_panel=DATA)
    ] = None,
    offset: Annotated[
        int, typer.Option(metavar="N", min=0, help="Leave out the first N, tuned on say.", rich_help_panel=DATA)
    ] = 0,
    seed: Annotated[
        int | None,
        typer.Option(metavar="S", help="Picks them, and seeds sampling; else the first.", rich_help_panel=DATA),
    ] = None,
    question_field: QuestionField = None,
    answer_field: AnswerField = None,
    id_field: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where a line has its id.", rich_help_panel=DATA)
    ] = None,
    split: Annotated[
        str, typer.Option(metavar="NAME", help="Of a Hugging Face data set.", rich_help_panel=DATA)
    ] = "test",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out lines that can't be read.", rich_help_panel=DATA)
    ] = False,
    concurrency: Annotated[
        int | None,
        typer.Option(
            metavar="C",
            min=1,
            help="Problems worked on at once. Default: as many as the models bear; with ray 4 a worker, with --batch "
            "all.",
            rich_help_panel=PACE,
        ),
    ] = None,
    batch: Annotated[
        bool,
        typer.Option(
            "--batch",
            help="Collect the calls of all problems into batches: half the price, within a day a round. For openai:, "
            "anthropic: and servers with /v1/batches. Stopped, --resume goes on with the batch that was submitted.",
            rich_help_panel=PACE,
        ),
    ] = False,
    rpm: Annotated[
        float | None, typer.Option(metavar="R", min=0, help="Requests a minute, at most.", rich_help_panel=PACE)
    ] = None,
    tpm: Annotated[
        float | None, typer.Option(metavar="T", min=0, help="Tokens a minute, at most.", rich_help_panel=PACE)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what DIR holds; finished problems are not run again.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --resume: problems that failed are run again.")
    ] = False,
    upload: Annotated[
        bool,
        typer.Option(help="Send the results back to langsmith:, langfuse: or phoenix:, where the dataset is from."),
    ] = True,
    temperature: Temperature = None,
    max_output_tokens: MaxOutputTokens = None,
    timeout: Timeout = None,
    prices: Prices = None,
    prompts: PromptFile = None,
    judge: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Of `redraft calibrate`: accepts in self-refine, only where that is rarely wrong.",
            rich_help_panel=MODELS,
        ),
    ] = None,
    token_budget: TokenBudget = None,
    time_budget: TimeBudget = None,
    cost_budget: CostBudget = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="asyncio: this process; ray: workers on Ray, with --db postgresql://…",
            rich_help_panel=PACE,
        ),
    ] = "asyncio",
    workers: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="With ray: processes, each with --concurrency.", rich_help_panel=PACE),
    ] = 2,
    ray_address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="With ray: an existing cluster; else one here.", rich_help_panel=PACE),
    ] = None,
    db: Annotated[
        str | None,
        typer.Option(
            metavar="DB", help="Where checkpoints are kept; else DIR/METHOD/runs.sqlite.", rich_help_panel=LIMITS
        ),
    ] = None,
    retrieval: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Searches in place of a DATASET: JSONL with a question and its known sources a line.",
            rich_help_panel=RETRIEVAL,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--documents", "--dir", metavar="FOLDER", help="What is searched.", rich_help_panel=RETRIEVAL),
    ] = None,
    embedding: Annotated[
        str | None,
        typer.Option(
            "--embeddings",
            "--embedding",
            metavar="MODEL",
            help="static, minilm or openai:NAME.",
            rich_help_panel=RETRIEVAL,
        ),
    ] = None,
    rerank: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="minilm, another embedding model, or none.", rich_help_panel=RETRIEVAL),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run methods on a dataset, a result for every problem, and say what refining fixed and broke.

    Budgets are for each problem. Ctrl-C keeps what is done; the same command with --resume goes on, half-run problems
    from their checkpoints. `redraft report DIR` shows it all.
    """
    from ...models.batches import Batches
    from ..analysis.ledger import build_ledger, find_runs
    from .commands_report import show_ledger
    from .eval_runs import EvalPlan, run_plan

    if retrieval is not None:
        if dataset is not None:
            raise BadInputError(f"--retrieval {str(retrieval)!r} takes the place of the dataset {dataset!r}")
        _evaluate_retrieval(
            retrieval,
            folder=folder,
            methods=methods,
            embedding=embedding,
            rerank=rerank,
            limit=limit,
            out=out,
            as_json=as_json,
        )
        return
    if unused := [
        name for name, value in (("--documents", folder), ("--embeddings", embedding), ("--rerank", rerank)) if value
    ]:
        raise BadInputError(f"{unused[0]} is for --retrieval")
    if dataset is None or out is None:
        raise BadInputError("give a DATASET and --out DIR, or --retrieval FILE with --documents FOLDER")

    limits = given_limits(max_tokens=token_budget, max_seconds=time_budget, max_cost_usd=cost_budget)
    screen = Screen(as_json=as_json)
    with bad_input():
        batches = Batches(out / "batches.jsonl", tell=screen.line) if batch else nullcontext()
    with batches:
        plan = EvalPlan.given(
            dataset=dataset,
            fields={
                "question_field": question_field,
                "answer_field": answer_field,
                "id_field": id_field,
                "split": split,
            },
            skip_bad=skip_bad,
            offset=offset,
            limit=limit,
            seed=seed,
            methods=methods or (None if graph else DEFAULT_METHODS),
            graph=graph,
            verify=verify or (),
            score=score,
            model=model,
            critic=critic,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            timeout_s=timeout,
            prices=prices,
            prompts=prompts,
            options=option or (),
            judge=judge,
            limits=limits,
            out=out,
            db=db,
            resume=resume,
            retry_failed=retry_failed,
            upload=upload,
            concurrency=concurrency,
            rpm=rpm,
            tpm=tpm,
            engine=engine,
            workers=workers,
            batch=batch,
            ray_address=ray_address,
        )
        folders = run_plan(plan, screen)
    with bad_input():
        ledger = build_ledger(find_runs(folders))
    more = f"redraft report {shlex.quote(str(out))}"
    screen.result(ledger.model_dump(mode="json"), lambda screen: show_ledger(screen, ledger, hint=more))


def _evaluate_retrieval(
    questions: Path,
    *,
    folder: Path | None,
    methods: str | None,
    embedding: str | None,
    rerank: str | None,
    limit: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure searches over a folder, print the ledger, and write it to `out`/retrieval.json where that is given."""
    from ..analysis.retrieval import (
        RETRIEVAL_METHODS,
        known_questions,
        measured,
        retrieval_ledger,
        retrieval_methods,
    )

    if folder is None:
        raise BadInputError("--retrieval needs a --dir: the folder that is searched")
    screen = Screen(as_json=as_json)
    with bad_input():
        known = known_questions(questions)[:limit]
        names = [name.strip() for name in methods.split(",")] if methods else list(RETRIEVAL_METHODS)
        options: dict[str, Any] = {"embeddings": embedding} if embedding else {}
        if rerank:
            options["rerank"] = None if rerank == "none" else rerank
        searches = retrieval_methods(folder, names, **options)
        runs = {name: measured(search, known) for name, search in searches.items()}
        pairs = [("unrefined", "refined")] if {"unrefined", "refined"} <= runs.keys() else []
        ledger = retrieval_ledger(runs, known, refining=pairs)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_file(out / "retrieval.json", ledger.model_dump_json(indent=1) + "\n")
    screen.result(ledger.model_dump(mode="json"), lambda screen: _show_retrieval(screen, ledger))


def _show_retrieval(screen: Screen, ledger: RetrievalLedger) -> None:
    """Print a table of the methods, what refining changed, and how far the confidence can be trusted."""
    from rich.text import Text

    columns = ("method", "hit@1", "95%", "hit@5", "95%", "MRR", "nDCG@5", "queries", "ms")
    table = plain_table(*columns, right=columns[1:])
    for row in ledger.methods:
        hits = [("" if hit.rate is None else f"{hit.rate:.3f}", hit.ci95) for hit in (row.hit1, row.hit5)]
        shares = [part for rate, ends in hits for part in (rate, "–".join(map(percent, ends)))]
        table.add_row(
            Text(row.method, style="bold"),
            *shares,
            f"{row.mrr:.3f}",
            f"{row.ndcg:.3f}",
            f"{row.queries:.1f}",
            f"{row.ms:,.0f}",
        )
    screen.put(table)
    screen.line((f"{ledger.questions} questions with known sources, {ledger.off_topic} without", "dim"))
    for change in ledger.refining:
        pair = change.hit5
        times = f", at {change.times:.1f} times the time" if change.times is not None else ""
        screen.line(
            f"refining found {pair.fixed} and lost {pair.broken} of {pair.n} among the first five "
            f"(p = {pair.mcnemar_p:.3g}){times}"
        )
    for trust in ledger.confidence:
        parts = [f"{trust.method}: confidence"]
        if trust.auc is not None and trust.error is not None:
            parts.append(f"tells hits from misses with AUC {trust.auc:.2f}, calibration error {trust.error:.2f};")
        parts.append(f"{trust.withheld.k} of {trust.withheld.n} hits withheld")
        if trust.off_topic.n:
            parts.append(f"and {trust.off_topic.k} of {trust.off_topic.n} questions without a source")
        screen.line(" ".join(parts))
