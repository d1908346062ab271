"""Evaluation of any graph on rows of one's own, beside what the same means bring without refining. Internal."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..state.dual import finish
from ..state.storage.checkpointers import open_checkpointer
from .analysis.ledger import build_ledger
from .datasets.dataset import Dataset, Problem, load_dataset
from .datasets.own_rows import Score, own_dataset
from .run.methods import Method, preset_method
from .run.own_graph import baselines, checks_of, own_graph, parts_of
from .run.run_folder import ResultFile, check_same_run, find_runs, read_run_info, write_run_info
from .run.runner import Progress, RateLimits, run_method

if TYPE_CHECKING:
    from ..state.critique import AnyVerifier
    from .analysis.ledger import Ledger
    from .run.result_record import ResultRecord

__all__ = ["aevaluate", "evaluate", "kept_in", "own_methods", "playing", "prepared", "scored_by", "scored_rows"]

OnProgress = Callable[[str, Progress, "ResultRecord | None"], None]
Play = Callable[..., Awaitable[Mapping[str, "ResultRecord"]]]


def evaluate(graph: Any, dataset: Any, **options: Any) -> Ledger:
    """Run a graph on rows of one's own, and return what refining was worth.

    The graph is held against its own first drafts, one longer call, and as many samples as its tokens pay for, chosen
    by the same critics; where answers can be counted, against a vote. These come by themselves, from the graph's own
    writer and critics. `ledger.differences` says each difference with its interval and p, and in words.

    Args:
        graph: A graph of redraft's, or of LangGraph's, an agent, a chain, or a function of the task.
        dataset: A JSONL or CSV file, rows (mappings, or samples of an Inspect dataset), or a `Dataset`.
        options: As of `aevaluate`.

    Raises:
        ValueError: Nothing can say which answers are right, a row has no task, or the graph makes no sense.
        GivenUpError: The first problems all failed.

    Example:
        >>> from redraft import build_refine_graph, uses_words
        >>> from redraft.evals import evaluate
        >>> from redraft.models import ScriptedModel
        >>> model = ScriptedModel(["Rain.", "Rain falls on the roof."])
        >>> graph = build_refine_graph(model, verifiers=[uses_words("roof")])
        >>> rows = [{"task": "Write about rain."}]
        >>> ledger = evaluate(graph, rows, score=lambda row, answer: "falls" in answer, against=[])
        >>> ledger.differences[0].before, ledger.differences[0].after
        (0.0, 1.0)
    """
    return finish(aevaluate(graph, dataset, **options))


async def aevaluate(
    graph: Any,
    dataset: Any,
    *,
    score: Score | None = None,
    against: Sequence[str] | Mapping[str, Any] | None = None,
    verifiers: Sequence[AnyVerifier] = (),
    critics: Sequence[Any] = (),
    name: str | None = None,
    question_field: str | None = None,
    out: str | Path | None = None,
    limits: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    rate_limits: RateLimits | None = None,
    wanted: float = 0.05,
    on_progress: OnProgress = lambda *_: None,
) -> Ledger:
    """Do what `evaluate` does, on the event loop that is running.

    Args:
        graph: As in `evaluate`.
        dataset: As in `evaluate`.
        score: `(row, answer)` -> True, False, a share from 0 to 1, or `None` where it can't tell; async or not. A typed
            answer is given as the object. It alone sees what the row holds beside the task. Default: the answers that
            `load_dataset` reads, else what the graph's own verifiers say of the answer.
        against: Which of the baselines, by name (`longer-call`, `best-of-N`, `majority-N`); or other graphs by names of
            yours. Default: all baselines that can be made.
        verifiers: Programs that judge, where the graph is none of redraft's.
        critics: Who else judges there.
        name: Of the graph, in results and reports; default: its own.
        question_field: Holds the task of a row; default: `task`, `question`, `input`, `prompt` or `instruction`.
        out: Keeps results and checkpoints; called again with it, an evaluation goes on where it stood.
        limits: Budgets for each row; the graph's rounds are its own unless they are given here.
        concurrency: How many rows are worked on at once. Default: it finds its level, as `run_many`.
        rate_limits: For all of them together.
        wanted: The difference worth finding, a share between 0 and 1.
        on_progress: Called with the method's name, the progress and the last record.
    """
    judged: dict[str, Any] = {"verifiers": verifiers, "critics": critics, "question_field": question_field}
    made, data, _ = prepared(graph, dataset, score=score, **judged)
    methods = own_methods(made, data.kind, name=name, against=against)
    with kept_in(out) as root:
        for method in methods:
            settings: dict[str, Any] = {"concurrency": concurrency, "rate_limits": rate_limits, "limits": limits}
            async with playing(method, data, root / method.name, keep=out is not None, **settings) as play:
                await play(data.problems, partial(on_progress, method.name))
        return build_ledger(find_runs([root / method.name for method in methods]), wanted=wanted)


@contextmanager
def kept_in(out: str | Path | None) -> Iterator[Path]:
    """Give the folder of an evaluation; without one of the caller's, one that is gone afterwards."""
    with TemporaryDirectory(prefix="redraft-eval-") as scratch:
        yield Path(scratch if out is None else out)


@asynccontextmanager
async def playing(
    method: Method, data: Dataset, folder: Path, *, keep: bool, limits: Mapping[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Play]:
    """Give a function that runs a method on problems and returns the records there are, by the problem's id.

    Args:
        method: The method.
        data: The problems, and what judges them.
        folder: Holds results, and checkpoints where they are kept; what it has already is not run again.
        keep: Whether checkpoints are kept.
        limits: Budgets for each problem.
        settings: As of `run_method`.

    Raises:
        ValueError: The folder holds another run.
    """
    info: dict[str, Any] = {
        **{"format": 2, "dataset": data.name, "dataset_sha256": data.sha256, "kind": data.kind},
        **{"n": len(data.problems), "method": method.name, "oracle": False, "model": "", "offset": 0},
        **{"limits": {**(limits or {}), **method.limits}, "prompts_sha256": method.prompts_sha256},
        **{"started": datetime.now(UTC).isoformat(timespec="milliseconds"), "run_id": secrets.token_hex(8)},
    }
    if (folder / "run.json").exists():
        check_same_run(folder, info)
        info = read_run_info(folder)
    write_run_info(folder, info)
    db = str(folder / "runs.sqlite") if keep else "memory"
    with ResultFile(folder / "results.jsonl") as results:
        async with open_checkpointer(db) as saver:
            stored = replace(method, graph=method.graph.copy({"checkpointer": saver}))

            async def play(
                problems: Sequence[Problem],
                on_progress: Callable[[Progress, ResultRecord | None], None] = lambda *_: None,
                rounds: int | None = None,
            ) -> Mapping[str, ResultRecord]:
                some = replace(data, problems=tuple(problems))
                run: dict[str, Any] = {"limits": limits, "run_id": info["run_id"], "on_progress": on_progress}
                chosen = stored if rounds is None else replace(stored, rounds=rounds)
                await run_method(chosen, some, results, **run, **settings)
                return results.records

            yield play


def own_methods(
    graph: Any, kind: str, *, name: str | None = None, against: Sequence[str] | Mapping[str, Any] | None = None
) -> list[Method]:
    """Return a graph as a method, and what it is held against.

    Args:
        graph: As `own_graph` returns it.
        kind: Of the problems.
        name: Of the graph; default: its own.
        against: As in `aevaluate`.

    Raises:
        ValueError: There is no such baseline of this graph.
    """
    name = name or str(graph.name)
    own = preset_method(name, graph)
    if isinstance(against, Mapping):
        return [own, *(preset_method(other, own_graph(one)) for other, one in against.items())]
    known = {method.name: method for method in baselines(graph, kind)}
    if unknown := [one for one in against or () if one not in known]:
        raise ValueError(f"{name!r} has no baseline {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    return [own, *(known.values() if against is None else (known[one] for one in against))]


def prepared(
    graph: Any,
    dataset: Any,
    *,
    score: Score | None = None,
    verifiers: Sequence[AnyVerifier] = (),
    critics: Sequence[Any] = (),
    question_field: str | None = None,
    **settings: Any,
) -> tuple[Any, Dataset, dict[str, Any]]:
    """Return the graph that answers, the rows with what says which answers are right, and all other settings.

    Raises:
        ValueError: As in `own_graph` and `scored_rows`.
    """
    made = own_graph(graph, verifiers=verifiers, critics=critics)
    return made, scored_rows(dataset, made, score, question_field=question_field), settings


def scored_rows(
    dataset: Any, graph: Any, score: Score | None, *, question_field: str | None = None, answer_field: str | None = None
) -> Dataset:
    """Return the rows with what says which answers are right.

    Raises:
        ValueError: Nothing does.
    """
    if isinstance(dataset, Dataset):
        return dataset
    if score is not None:
        return own_dataset(dataset, score, as_object=_as_object(graph), question_field=question_field)
    checks = checks_of(graph)
    if isinstance(dataset, str | Path):
        try:
            return load_dataset(dataset, question_field=question_field, answer_field=answer_field)
        except ValueError:
            if not checks:
                raise
    if not checks:
        raise ValueError("nothing can say which answers are right: give score=, or a graph that verifiers judge")
    return own_dataset(dataset, scored_by(checks), kind="checks", question_field=question_field)


def scored_by(checks: Iterable[Any]) -> Score:
    """Return a score by programs: the share of them that accept an answer."""
    programs = list(checks)

    def share(row: Mapping[str, Any], answer: str) -> float:
        verdicts = [check(row["task"], answer, ()).accepted for check in programs]
        return sum(verdict is True for verdict in verdicts) / len(verdicts)

    return share


def _as_object(graph: Any) -> Callable[[str], Any] | None:
    """Return what makes the object of a typed answer; `None` of a graph whose answers are texts."""
    from ..nodes.verify.answer_type import answer_type_of

    parts = parts_of(graph)
    answer = answer_type_of(parts.answer_type) if parts else None
    return answer.object if answer else None
