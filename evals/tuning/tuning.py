"""Tuning of a method's prompts with gepa, and the report on rows that tuning never saw. Internal.

Reflective prompt evolution: Agrawal and others, arXiv 2507.19457.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ..._files import appended, write_file
from ...graphs.preset import Preset
from ...nodes.writing.prompt_files import FORMAT
from ...state import open_checkpointer
from ..analysis.equal_cost import SLACK
from ..analysis.paired import paired, proportion
from ..run.methods import METHODS, build_method, find_method
from ..run.provenance import prompt_hashes
from ..run.run_folder import locked_folder
from .call_ledger import CallLedger, TuningBudgetSpentError
from .prompt_adapter import PromptAdapter, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from langchain_core.language_models import BaseChatModel

    from ..datasets.dataset import Dataset, Problem

__all__ = ["Split", "TuningProgress", "split_rows", "tune_prompts"]


@dataclass(frozen=True)
class Split:
    """Rows of a dataset in three parts that share no task."""

    train: tuple[Problem, ...]
    """Shown to the reflection model."""
    validation: tuple[Problem, ...]
    """By which prompts are chosen; only the score is shown."""
    held_out: tuple[Problem, ...]
    """For the report."""

    def ids(self) -> dict[str, list[str]]:
        """Return the ids of each part, as the result file has them."""
        return {name: [row.id for row in rows] for name, rows in vars(self).items()}


def split_rows(data: Dataset, *, train: int | None = None, validation: int | None = None, seed: int = 0) -> Split:
    """Return the rows in three parts, by the seed and the tasks' texts; the same on every machine.

    Args:
        data: The rows.
        train: How many, 1 or more; default: a quarter.
        validation: How many, 2 or more; default: a quarter.
        seed: Chooses them.

    Raises:
        ValueError: The rows do not suffice for three parts.
    """
    tasks = {problem.task: problem for problem in data.problems}
    rows = sorted(tasks.values(), key=lambda problem: hashlib.sha256(f"{seed}:{problem.task}".encode()).digest())
    first = max(1, len(rows) // 4) if train is None else train
    second = max(2, len(rows) // 4) if validation is None else validation
    if first < 1 or second < 2 or first + second >= len(rows):
        raise ValueError(
            f"{len(rows)} different tasks do not suffice: 1 or more are to train on ({first}), 2 or more to choose by "
            f"({second}), and 1 or more held out for the report"
        )
    return Split(tuple(rows[:first]), tuple(rows[first : first + second]), tuple(rows[first + second :]))


@dataclass(frozen=True)
class TuningProgress:
    """Progress of a tuning run."""

    stage: str
    """`tuning` or `report`."""
    spent: int
    budget: int
    """Tokens in and out, of all models and for the report too."""
    best: float | None
    """Share of the validation rows that the best prompts so far get right, 0–1."""
    untuned: float | None
    candidates: int
    """Sets of prompts that were measured on the validation rows."""


def tune_prompts(
    data: Dataset,
    folder: Path,
    *,
    method: str,
    model: BaseChatModel,
    budget_tokens: int,
    critic: BaseChatModel | None = None,
    reflection_model: BaseChatModel | None = None,
    prompts: Mapping[str, str] | None = None,
    train: int | None = None,
    validation: int | None = None,
    minibatch: int = 3,
    seed: int = 0,
    cost_up_to: float = SLACK,
    limits: Mapping[str, Any] | None = None,
    concurrency: int = 4,
    shown_characters: int = 8_000,
    encryption_key: str | None = None,
    seal_key: str | None = None,
    named: Mapping[str, Any] | None = None,
    on_progress: Callable[[TuningProgress], None] = lambda _: None,
) -> dict[str, Any]:
    """Return better prompts for a method, with what they were measured on, as the result file holds it.

    A run that was broken off goes on with the same arguments and folder: no call that was answered is paid again.

    Args:
        data: The rows; in three parts, see `split_rows`.
        folder: What makes the run resumable: threads, calls, and gepa's state, which is a pickle: give no folder of
            somebody else's.
        method: A method that does not know the gold answers.
        model: Writes.
        budget_tokens: Of all calls together, the reflection model's and the report's too. A spent budget starts none.
        critic: Judges in `self-refine-N`; default: the model itself.
        reflection_model: Reads what was said of drafts, and proposes prompts; default: the model itself.
        prompts: To begin with, in place of the method's own.
        train: Rows that the reflection model is told of.
        validation: Rows by which prompts are chosen.
        minibatch: Rows of the training part looked at for a proposal.
        seed: Of the split and of gepa.
        cost_up_to: The chosen prompts take at most this many times the untuned ones' tokens a validation row.
        limits: Budgets of one problem.
        concurrency: Problems at once.
        shown_characters: What the reflection model is shown for one proposal, beside the prompt: 8,000 characters are
            about 2,500 tokens.
        encryption_key: Of the threads.
        seal_key: Of the threads.
        named: What else the result says: the models' names. A run goes on only with the same.
        on_progress: Told as it goes on.

    Raises:
        ValueError: An argument makes no sense, the folder holds another run, or the budget does not pay for the
            untuned prompts on the validation rows.
        RuntimeError: Another process works in the folder, or a model does not answer.
        ImportError: The extra `tune` is not installed.
    """
    try:
        from gepa import optimize
        from gepa.core.result import GEPAResult
        from gepa.core.state import GEPAState
        from gepa.strategies.candidate_selector import ParetoCandidateSelector
    except ImportError as error:
        raise ImportError(f'tuning needs an extra: pip install "redraft[tune]" ({error})') from None
    _check(
        method,
        budget_tokens=budget_tokens,
        minibatch=minibatch,
        concurrency=concurrency,
        shown_characters=shown_characters,
    )

    def build(texts: Mapping[str, str]) -> Any:
        return build_method(method, data.kind, model, critic=critic, prompts=texts)

    if isinstance(find_method(method)[0], Preset):
        raise ValueError(f"{method} is a graph: tune improves the prompts of {', '.join(METHODS)}")  # noqa: TRY004
    own = dict(build(prompts or {}).prompts)
    split = split_rows(data, train=train, validation=validation, seed=seed)
    minibatch = min(minibatch, len(split.train))
    identity = {
        "dataset": data.name,
        "dataset_sha256": data.sha256,
        "kind": data.kind,
        "method": method,
        "seed": seed,
        "minibatch": minibatch,
        "shown_characters": shown_characters,
        "split": split.ids(),
        "untuned_sha256": prompt_hashes(own),
        "limits": dict(limits or {}),
        "gepa": version("gepa"),
        **(named or {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)  # noqa: S311  # choices of a search, not secrets
    database = open_checkpointer(str(folder / "runs.sqlite"), key=encryption_key, seal_key=seal_key)
    # One event loop for all: clients keep their connections to the loop that opened them.
    with ExitStack() as stack:
        if (lock := locked_folder(folder)) is not None:
            stack.callback(os.close, lock)
        saver, runner = stack.enter_context(database), stack.enter_context(asyncio.Runner())
        _check_same(folder / "tuning.json", identity)
        ledger = CallLedger(folder / "calls.jsonl", budget_tokens)
        adapter = PromptAdapter(
            data, build, own,
            saver=saver, runner=runner, ledger=ledger, reflection_model=reflection_model or model,
            limits=limits or {}, concurrency=concurrency, shown_characters=shown_characters,
        )  # fmt: skip
        untuned = _untuned(adapter, ledger, own, split)
        # The report is paid from the same budget: two runs of each row, but no more than half of all.
        a_row = fmean(trial.tokens for trial in untuned)
        reserve = min(round(2 * len(split.held_out) * a_row * cost_up_to), budget_tokens // 2)
        ledger.limit = budget_tokens - reserve
        patience = PATIENCE * -(-len(split.train) // minibatch) * len(own)
        watch = Watch(
            adapter, ledger, budget=budget_tokens, rng=rng, seed=seed, patience=patience, on_progress=on_progress
        )
        try:
            optimize(
                seed_candidate=own,
                trainset=list(split.train),
                valset=list(split.validation),
                adapter=adapter,
                candidate_selection_strategy=ParetoCandidateSelector(rng=rng),
                batch_sampler=Batches(minibatch, seed),
                module_selector=adapter.next_prompt,
                stop_callbacks=watch,
                callbacks=[watch],
                logger=RunLog(folder / "gepa.log"),
                run_dir=str(folder / "gepa"),
                track_best_outputs=False,
                seed=seed,
            )
        except TuningBudgetSpentError:
            watch.stopped = "budget"
        # What it was in the middle of was not measured to its end, and counts for nothing.
        result = GEPAResult.from_state(GEPAState.load(str(folder / "gepa")))
        ledger.limit = budget_tokens
        measured = [adapter.trials(candidate, split.validation) for candidate in result.candidates]
        best = _chosen(measured, cost_up_to)
        report = None
        if best:
            on_progress(replace(watch.last, stage="report"))
            report = _compared(
                adapter, own, result.candidates[best], split.held_out, at_once=concurrency, cost_up_to=cost_up_to
            )
    chosen = dict(result.candidates[best])
    return {
        "format": FORMAT,
        **identity,
        "prompts": chosen,
        "prompts_sha256": prompt_hashes(chosen),
        "changed": [name for name in own if chosen[name] != own[name]],
        "budget_tokens": budget_tokens,
        "spent_tokens": {
            "all": ledger.spent,
            "reflection": sum(
                call.tokens
                for thread, calls in ledger.calls.items()
                if thread.startswith("reflection/")
                for call in calls
            ),
            "report": report["tokens"] if report else 0,
        },
        "stopped": watch.stopped,
        "cost_up_to": cost_up_to,
        "validation": {"untuned": _measured(measured[0]), "tuned": _measured(measured[best])},
        "held_out": report,
        "pareto": _front(result, own, measured, best),
        "candidates": len(result.candidates),
        "refused": adapter.refused,
    }


def _front(result: Any, own: Mapping[str, str], measured: Sequence[Sequence[Trial]], best: int) -> list[dict[str, Any]]:
    """Return the candidates that are best on some validation row."""
    front = sorted({candidate for best_of in result.per_val_instance_best_candidates.values() for candidate in best_of})
    return [
        {
            "prompts_sha256": prompt_hashes(result.candidates[number]),
            "prompts": {name: text for name, text in result.candidates[number].items() if text != own[name]},
            "chosen": number == best,
            "parents": [parent for parent in result.parents[number] if parent is not None],
            "candidate": number,
            **_measured(measured[number]),
        }
        for number in front
    ]


def _untuned(adapter: PromptAdapter, ledger: CallLedger, prompts: Mapping[str, str], split: Split) -> list[Trial]:
    """Run the untuned prompts on the validation rows and return their trials.

    Raises:
        ValueError: The budget does not pay for it.
    """
    try:
        return adapter.trials(prompts, split.validation)
    except TuningBudgetSpentError:
        raise ValueError(
            f"{ledger.limit} tokens do not pay for the untuned prompts on {len(split.validation)} validation "
            f"rows ({ledger.spent} were spent): give more, or fewer rows"
        ) from None


def _check(method: str, **numbers: int) -> None:
    """Raise ValueError unless the method may be tuned and the numbers are 1 or more."""
    if method.startswith("oracle-refine"):
        raise ValueError(f"{method} knows the gold answers, which no prompt may learn from")
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{name} must be 1 or more, not {number!r}")


def _check_same(path: Path, identity: Mapping[str, Any]) -> None:
    """Raise ValueError unless the folder is new, or holds a run with the same arguments."""
    if not path.exists():
        write_file(path, json.dumps(identity, indent=1), private=True)
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    now = json.loads(json.dumps(identity))
    if other := [name for name in {**before, **now} if before.get(name) != now.get(name)]:
        raise ValueError(f"{path.parent} holds another run: {', '.join(other)} differ; another --out begins anew")


def _chosen(measured: Sequence[Sequence[Trial]], cost_up_to: float) -> int:
    """Return the candidate that is right most often among those of equal cost; of equals, the earliest."""
    most = cost_up_to * sum(trial.tokens for trial in measured[0])
    fit = [n for n, trials in enumerate(measured) if n == 0 or sum(trial.tokens for trial in trials) <= most]
    return max(fit, key=lambda n: (sum(trial.right for trial in measured[n]), -n))


def _measured(trials: Sequence[Trial]) -> dict[str, Any]:
    share = proportion(sum(trial.right for trial in trials), len(trials))
    return {**share.model_dump(mode="json"), "tokens_a_row": round(fmean(trial.tokens for trial in trials), 1)}


def _compared(
    adapter: PromptAdapter,
    own: Mapping[str, str],
    tuned: Mapping[str, str],
    rows: Sequence[Problem],
    *,
    at_once: int,
    cost_up_to: float,
) -> dict[str, Any]:
    """Compare both on rows that tuning never saw: as many, in the order of the split, as the budget pays for."""
    for start in range(0, len(rows), at_once):
        try:
            for texts in (own, tuned):
                adapter.trials(texts, rows[start : start + at_once])
        except TuningBudgetSpentError:
            break
    tokens_spent = sum(
        trial.tokens for row in rows for texts in (own, tuned) if (trial := adapter.known(texts, row)) is not None
    )
    pairs = [(a, b) for row in rows if (a := adapter.known(own, row)) and (b := adapter.known(tuned, row))]
    if not pairs:
        return {"rows": len(rows), "n": 0, "tokens": tokens_spent}
    before, after = [a for a, _ in pairs], [b for _, b in pairs]
    tokens, tuned_tokens = fmean(trial.tokens for trial in before), fmean(trial.tokens for trial in after)
    return {
        "rows": len(rows),
        "tokens": tokens_spent,
        **paired([trial.right for trial in before], [trial.right for trial in after]).model_dump(mode="json"),
        "untuned_tokens_a_row": round(tokens, 1),
        "tuned_tokens_a_row": round(tuned_tokens, 1),
        "equal_cost": tuned_tokens <= cost_up_to * tokens,
    }


PATIENCE = 2
"""Times that all rows and prompts may have had their turn with nothing paid, before there is nothing left to learn."""


class Batches:
    """Minibatches in an order that follows from seed and iteration alone, so that a resumed run takes the same."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.seed = seed

    def next_minibatch_ids(self, loader: Any, state: Any) -> list[Any]:
        """Return the rows of this iteration."""
        ids = list(loader.all_ids())
        batch: list[Any] = []
        for place in range(state.i * self.size, (state.i + 1) * self.size):
            epoch, here = divmod(place, len(ids))
            order = random.Random(f"{self.seed}:{epoch}").sample(ids, len(ids))  # noqa: S311
            batch.append(order[here])
        return batch


class RunLog:
    """gepa's log, in a file: standard output is for results."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def log(self, message: str) -> None:
        """Write a line."""
        with appended(self.path) as file:
            file.write(f"{message}\n".encode())


class Watch:
    """Stop condition and progress of a tuning run."""

    def __init__(
        self,
        adapter: PromptAdapter,
        ledger: CallLedger,
        *,
        budget: int,
        rng: random.Random,
        seed: int,
        patience: int,
        on_progress: Callable[[TuningProgress], None],
    ) -> None:
        self.adapter = adapter
        self.ledger = ledger
        self.budget = budget
        self.stopped = ""
        self.patience = patience
        self.last = TuningProgress("tuning", ledger.spent, budget, None, None, 0)
        self._rng = rng
        self._seed = seed
        self._tell = on_progress
        self._before = ledger.spent

    def __call__(self, state: Any) -> bool:
        """Return True to stop before the next iteration."""
        if self.adapter.failure is not None:
            raise self.adapter.failure
        if self.ledger.spent >= self.ledger.limit:
            self.stopped = "budget"
        elif max(state.program_full_scores_val_set) >= 1:
            self.stopped = "all right"
        elif self.adapter.idle >= self.patience:
            self.stopped = "nothing left to learn"
        return bool(self.stopped)

    def on_iteration_start(self, event: Mapping[str, Any]) -> None:
        """Begin an iteration, whose choices follow from its number alone."""
        self.adapter.iteration = event["iteration"]
        self._rng.seed(f"{self._seed}:{event['iteration']}")
        self._before = self.ledger.spent

    def on_iteration_end(self, event: Mapping[str, Any]) -> None:
        """Tell how far it is."""
        self.adapter.idle = 0 if self.ledger.spent > self._before else self.adapter.idle + 1
        scores = event["state"].program_full_scores_val_set
        self._show(max(scores), scores[0], len(scores))

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        """Tell how the untuned prompts do."""
        if event["candidate_idx"] == 0:
            self._show(event["average_score"], event["average_score"], 1)

    def _show(self, best: float, untuned: float, count: int) -> None:
        self.last = TuningProgress("tuning", self.ledger.spent, self.budget, best, untuned, count)
        self._tell(self.last)
