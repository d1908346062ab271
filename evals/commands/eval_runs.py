"""Evaluation runs: planned as a whole before anything is paid, run with a progress bar. Internal."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..._files import read_file
from ...faces.problems import BadInputError, RunStoppedError, Stopping, bad_input
from ...faces.run_config import RunConfig, kept_spec
from ...faces.sessions import encryption_key, model_or_default, seal_key
from ...faces.views.batch_bar import batch_bar
from ...faces.views.console import Screen, say
from ..run.run_folder import ResultFile, check_same_run, read_run, read_run_info, write_run_info

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..datasets.dataset import Dataset
    from ..datasets.scorers import Kind
    from ..run.methods import Method
    from ..run.ray_engine import RayJob
    from ..run.result_record import ResultRecord
    from ..run.runner import Progress

__all__ = ["EvalPlan", "run_plan"]


ENGINES = ("asyncio", "ray")
MOST_AT_ONCE = 2_000
"""Problems whose calls wait for one batch, which is a matter of memory."""


@dataclass(frozen=True)
class EvalPlan:
    """Checked arguments of an evaluation."""

    data: Dataset
    methods: tuple[Method, ...]
    model: str
    critic: str | None
    out: Path
    writer: Any = field(default=None, repr=False)
    """The model, built."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Names of the dataset's fields, where the user gave them."""
    offset: int = 0
    model_options: Mapping[str, Any] = field(default_factory=dict)
    prices: str | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    """In place of the methods' own, by name."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the presets among the methods, as their recipes hold them."""
    judge: Mapping[str, Any] = field(default_factory=dict)
    """Content of the file of the calibrated judge."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    db: str | None = None
    resume: bool = False
    retry_failed: bool = False
    concurrency: int | None = None
    """Problems worked on at once; where it is not given, a few, and in batches all."""
    batch: bool = False
    """Whether calls are collected into batches."""
    rpm: float | None = None
    tpm: float | None = None
    engine: str = "asyncio"
    workers: int = 1
    ray_address: str | None = None
    upload: bool = False
    """True if results go back to the service that the dataset is from."""

    @classmethod
    def given(
        cls,
        *,
        dataset: str,
        methods: str | None,
        fields: Mapping[str, str | None] | None = None,
        skip_bad: bool = False,
        offset: int = 0,
        limit: int | None = None,
        model: str | None = None,
        critic: str | None = None,
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        seed: int | None = None,
        timeout_s: float | None = None,
        prices: str | None = None,
        prompts: Path | None = None,
        options: Sequence[str] = (),
        judge: Path | None = None,
        graph: str | None = None,
        verify: Sequence[str] = (),
        score: str | None = None,
        **rest: Any,
    ) -> EvalPlan:
        """Return the plan, with every method built: what makes no sense is refused before anything is paid.

        Args:
            dataset: As `load_dataset` takes it, and `fields` its further arguments.
            methods: Names, parted by commas; of a graph the baselines that it is held against, default all.
            options: `NAME=VALUE` each, of the presets among the methods.
            judge: A file of `redraft calibrate`, which accepts in `self-refine-N`.
            graph: A preset, or `module:name` of anything that answers a task; its baselines are of its own parts.
            verify: Verifiers of that graph.
            score: `module:name` of a function of `(row, answer)`, or a judge's file; else the answers in the dataset,
                or what the graph's verifiers say.
            prompts: A file of prompts; each method takes those that it has.
            rest: The other fields of the plan, as they are.

        Raises:
            BadInputError: It makes no sense; the message says why.
        """
        from ...models import chat_model
        from ..run.methods import knows_gold
        from .named_graphs import brings_model, named_graph, named_options, named_score

        names = tuple(name.strip() for name in (methods or "").split(",") if name.strip())
        named = {name: field for name, field in (fields or {}).items() if field}
        with bad_input():
            if verify and graph is None:
                raise ValueError("--verify judges in a --graph")
            # A graph of one's own brings its model.
            spec, note = (graph, "") if model is None and graph and brings_model(graph) else model_or_default(model)
            spec = kept_spec(spec)
            # Left out where it is not given, so that a run's description stays what it was.
            patience: dict[str, Any] = {} if timeout_s is None else {"timeout_s": timeout_s}
            tuning = {"temperature": temperature, "max_output_tokens": max_output_tokens, "seed": seed, **patience}
            writer: Any = None if spec == graph else chat_model(spec, **tuning)

            def judging_model(spec: str) -> Any:
                return chat_model(kept_spec(spec), **patience)

            judging, accepting = _judging(critic, judge, names, writer, judging_model)
            preset_options, judges = named_options(options), () if judging is None else (judging,)
            own_options: dict[str, Any] = {"options": preset_options, "given": {"model": model, **tuning}}
            own = graph and named_graph(graph, writer, critics=judges, verify=verify, **own_options)
            data = _rows(dataset, own, score and named_score(score, writer), skip_bad=skip_bad, fields=named)
            data = data.sample(limit, seed, offset=offset)
            own_ones, names = _of_own(own, data.kind, names) if own else ([], names)
            texts = _prompts_for(data.kind, prompts) if prompts else {}
            of_kind = {"critic": judging, "oracle": knows_gold(data), "prompts": texts}
            critics = () if critic is None else (critic,)
            of_preset = {"model": spec, "critics": critics, "prices": prices, **tuning, **preset_options}
            if not own:
                _check_options(preset_options, names)
            methods_built = (*own_ones, *_built(names, data.kind, writer, of_kind, of_preset, own=bool(own)))
            if unused := sorted(set(texts).difference(*(method.prompts for method in methods_built))):
                raise ValueError(f"none of these methods asks with {', '.join(unused)} of {str(prompts)!r}")
        if note:
            say(note)
        for line in data.skipped:
            say(f"skipped: {line}")
        plan = cls(
            *(data, methods_built, spec, critic),
            writer=writer,
            fields=named,
            model_options=tuning,
            prices=prices,
            prompts=texts,
            options=preset_options,
            judge=accepting,
            offset=offset,
            **rest,
        )
        with bad_input():
            plan.check()
        return plan

    def check(self) -> None:
        """Raise ValueError unless its arguments go together.

        Raises:
            ValueError: Nothing is resumed of which failures could be tried again, there is no such engine, or Ray's
                workers can't do what was asked for.
        """
        if self.retry_failed and not self.resume:
            raise ValueError("--retry-failed is for --resume: it runs again what failed before")
        if self.engine not in ENGINES:
            raise ValueError(f"there is no engine {self.engine!r}; known are {', '.join(ENGINES)}")
        if self.engine == "ray":
            for method in self.methods:
                # Made to be checked, and thrown away.
                self.ray_job(method, run_id="")
            if self.judge or self.options:
                raise ValueError(f"{'--judge' if self.judge else '--option'} is for --engine asyncio")
        elif self.ray_address:
            raise ValueError("--ray-address is for --engine ray")
        ray = self.engine == "ray"
        paced = {"--rpm": self.rpm, "--tpm": self.tpm, "--time-budget": self.limits.get("max_seconds"), "Ray": ray}
        if self.batch and (clash := next((name for name, value in paced.items() if value), None)):
            raise ValueError(f"--batch goes with no {clash}: all calls wait together, up to a day")

    @property
    def at_once(self) -> int | None:
        """How many problems are worked on at once; `None` where that finds its level."""
        return self.concurrency or (MOST_AT_ONCE if self.batch else None)

    def ray_job(self, method: Method, *, run_id: str) -> RayJob:
        """Return the job that Ray's workers get for the run of one method.

        Raises:
            ValueError: They can't do it.
        """
        from ..run.ray_engine import RayJob

        if not self.db:
            raise ValueError("--engine ray keeps checkpoints and results in PostgreSQL: give --db postgresql://…")
        return RayJob(
            run_id=run_id,
            method=method.name,
            kind=self.data.kind,
            model=self.model,
            db=self.db,
            encryption_key=encryption_key(),
            seal_key=seal_key(),
            critic=self.critic,
            model_options=self.model_options,
            limits={**self.limits, **method.limits},
            # As data and not as a path: a worker on another machine has no such file.
            prompts=self.prompts,
            prices=json.loads(read_file(self.prices)) if self.prices else None,
            rpm=self.rpm,
            tpm=self.tpm,
        )

    def info(self, method: Method) -> dict[str, Any]:
        """Return the content of `run.json` for the run of one method."""
        from ...state.limits import merged_limits
        from ..run.provenance import code_commit, prompt_hashes, sampling_temperature

        return {
            "format": 2,
            "dataset": self.data.name,
            "dataset_sha256": self.data.sha256,
            "kind": self.data.kind,
            "offset": self.offset,
            "n": len(self.data.problems),
            "method": method.name,
            "oracle": method.oracle,
            "model": self.model,
            "critic": self.critic,
            "limits": merged_limits(self.limits, method.limits),
            **self.model_options,
            "sampling_temperature": sampling_temperature(self.writer),
            "prompts_sha256": method.prompts_sha256,
            "prompts": prompt_hashes(method.prompts),
            "fields": dict(self.fields),
            # Only where there is one, so that a run without goes on under its old description.
            **({"judge": dict(self.judge)} if self.judge else {}),
            **({"batch": True} if self.batch else {}),
            **({"options": dict(self.options)} if self.options and method.rounds is None else {}),
            **code_commit(),
            "versions": {
                **{name: version(name) for name in ("redraft", "langgraph", "langchain-core")},
                "python": platform.python_version(),
            },
            "machine": {"cores": os.cpu_count(), "platform": platform.platform()},
            "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "seconds": 0.0,
            "engine": self.engine,
            "run_id": secrets.token_hex(8),
        }


def _rows(dataset: str, own: Any, score: Any, *, skip_bad: bool, fields: Mapping[str, str]) -> Dataset:
    """Return the problems: of a graph or a score of one's own rows of any shape, else a dataset with its answers."""
    from ..datasets.dataset import load_dataset
    from ..evaluation import scored_rows

    if own or score:
        return scored_rows(dataset, own, score, **{key: fields.get(key) for key in ("question_field", "answer_field")})
    return load_dataset(dataset, skip_bad=skip_bad, **fields)


def _check_options(options: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise ValueError for options where no preset is among the methods."""
    from ...graphs.preset import Preset
    from ..run.methods import find_method

    if options and not any(isinstance(find_method(name)[0], Preset) for name in names):
        raise ValueError(f"--option {next(iter(options))} is for a graph among the --methods")


def _built(
    names: Sequence[str],
    kind: Kind,
    writer: Any,
    of_kind: Mapping[str, Any],
    of_preset: Mapping[str, Any],
    *,
    own: bool,
) -> list[Method]:
    """Return the methods of these names.

    Args:
        names: Those that are none of a graph of one's own.
        kind: Of the problems.
        writer: The model.
        of_kind: Arguments of `build_method`, for those of the evaluation.
        of_preset: Fields of a recipe, for presets.
        own: Whether there is a graph of one's own; else there must be a name.
    """
    from ...graphs.preset import Preset
    from ...models import PriceTable
    from ..run.methods import build_method, check_methods, find_method, preset_method

    if names or not own:
        check_methods(names, kind)
    table = PriceTable.from_file(of_preset["prices"]) if of_preset["prices"] else None
    return [
        preset_method(name, RunConfig.given(preset=name, **of_preset).build(None))
        if isinstance(find_method(name)[0], Preset)
        else build_method(name, kind, writer, prices=table, **of_kind)
        for name in names
    ]


def _of_own(graph: Any, kind: str, names: Sequence[str]) -> tuple[list[Method], tuple[str, ...]]:
    """Return a graph and its baselines as methods, all of them where none is named, and the names that are none."""
    from ..evaluation import own_methods

    methods = {method.name: method for method in own_methods(graph, kind)}
    own = next(iter(methods))
    chosen = [method for name, method in methods.items() if not names or name == own or name in names]
    return chosen, tuple(name for name in names if name not in methods)


def _judging(
    critic: str | None, judge: Path | None, methods: Sequence[str], writer: Any, build_model: Callable[[str], Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the judge in place of the writer, if any, and the content of a calibrated judge's file."""
    from ...nodes.critics.calibrated import judge_from_specs
    from ...nodes.critics.judge_file import read_judge
    from ...nodes.critics.registry import SELF, named_critic

    if judge is None:
        return None if critic in (None, SELF) else named_critic(critic, writer, build_model), {}
    if critic is not None or not any(name.startswith("self-refine-") for name in methods):
        raise ValueError("--judge accepts in self-refine-N, in place of --critic")
    content = read_judge(judge).model_dump(mode="json")
    return judge_from_specs(content, writer, build_model), content


def run_plan(plan: EvalPlan, screen: Screen) -> list[Path]:
    """Run every method, one after the other, and return their folders.

    Raises:
        BadInputError: A folder holds another run, or one that `--resume` was not given for.
        RunStoppedError: It was interrupted, or every problem failed; the message says how it goes on.
    """
    folders = [plan.out / method.name for method in plan.methods]
    with bad_input():
        for method, folder in zip(plan.methods, folders, strict=True):
            if (folder / "run.json").exists():
                if not plan.resume:
                    raise BadInputError(
                        f"{folder} holds a run already: --resume goes on with it, another --out begins anew"
                    )
                check_same_run(folder, plan.info(method))
    try:
        with ExitStack() as stack:
            if plan.engine == "ray":
                from .ray_cluster import ray_cluster

                stack.enter_context(bad_input())
                stack.enter_context(ray_cluster(plan.ray_address, workers=plan.workers))
            for method, folder in zip(plan.methods, folders, strict=True):
                _run_one(plan, method, folder, screen)
                if plan.upload and plan.data.source:
                    _send_back(plan.data.source, folder)
    except KeyboardInterrupt:
        hint = f"what is done is in {plan.out}; the same command with --resume goes on"
        raise RunStoppedError(f"interrupted; {hint}", exit_code=Stopping.exit_code()) from None
    return folders


def _send_back(source: str, folder: Path) -> None:
    """Send a method's results to where its dataset is from, once; what fails is said, since the results are here."""
    from ..datasets.services import send_results

    info, digest = read_run_info(folder), hashlib.sha256((folder / "results.jsonl").read_bytes()).hexdigest()
    earlier = info.get("sent", {})
    attempt = earlier.get("attempt", 0) + 1
    if earlier.get("results_sha256") == digest:
        return
    try:
        experiment = send_results(source, read_run(folder), attempt=attempt)
    except (ConnectionError, ImportError) as error:
        say(f"{error}; they are in {folder}, and the same command with --resume sends them")
        return
    receipt = {"to": source, "experiment": experiment, "results_sha256": digest, "attempt": attempt}
    write_run_info(folder, {**info, "sent": receipt})
    say(f"sent to {source} as {experiment!r}")


def _prompts_for(kind: str, path: Path) -> dict[str, str]:
    """Return the prompts of a file that were measured on problems of this kind, or that say nothing of it.

    Raises:
        ValueError: They are for problems of another kind, or can't be read.
    """
    from ...nodes.writing.prompt_files import read_tuned

    content = read_tuned(path)
    if content.get("kind", kind) != kind:
        raise ValueError(f"the prompts of {str(path)!r} are for problems of kind {content['kind']}; these are {kind}")
    prompts: dict[str, str] = content["prompts"]
    return prompts


def _run_one(plan: EvalPlan, method: Method, folder: Path, screen: Screen) -> None:
    from ...state import open_checkpointer
    from ..run.provenance import Fingerprints, server_of
    from ..run.runner import GivenUpError, RateLimits, run_method

    with bad_input():
        pace = RateLimits(rpm=plan.rpm, tpm=plan.tpm) if (plan.rpm, plan.tpm) != (None, None) else None
        # A resumed run keeps its first description, whose run_id names the threads to go on with.
        if (folder / "run.json").exists():
            before = read_run_info(folder)
        else:
            before = {**plan.info(method), "server": server_of(plan.model, plan.writer), "system_fingerprints": []}
        write_run_info(folder, before)
    start, fingerprints = perf_counter(), Fingerprints()
    with bad_input(), ResultFile(folder / "results.jsonl") as results:
        if plan.retry_failed:
            results.drop(lambda record: record.error is not None)

        async def go(show: Callable[[Progress, ResultRecord | None], None]) -> None:
            if plan.batch:
                # A graph that blocks while it waits takes a thread.
                asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(plan.at_once))
            if plan.engine == "ray":
                from ..run.ray_engine import run_on_ray

                await run_on_ray(
                    plan.ray_job(method, run_id=before["run_id"]),
                    plan.data,
                    results,
                    workers=plan.workers,
                    concurrency=plan.at_once or 4,
                    on_progress=show,
                )
                return
            db = plan.db or str(folder / "runs.sqlite")
            async with open_checkpointer(db, key=encryption_key(db), seal_key=seal_key()) as saver:
                # Methods are built before there is a database, so that one that makes no sense leaves nothing behind.
                graph = method.graph.copy({"checkpointer": saver}).with_config(callbacks=[fingerprints])
                with_saver = replace(method, graph=graph)
                await run_method(
                    with_saver,
                    plan.data,
                    results,
                    concurrency=plan.at_once,
                    rate_limits=pace,
                    limits=plan.limits,
                    run_id=before["run_id"],
                    on_progress=show,
                )

        try:
            with batch_bar(screen, method.name, "right") as show:
                asyncio.run(go(show))
        except (GivenUpError, ConnectionError) as error:
            again = "--resume --retry-failed tries again" if isinstance(error, GivenUpError) else "--resume goes on"
            raise RunStoppedError(f"{method.name}: {error}; {again}") from None
        finally:
            # Also for a run that was broken off: the seconds of its parts add up.
            after = {**before, "seconds": round(before["seconds"] + perf_counter() - start, 3)}
            # Replies of Ray's workers are not seen here.
            if plan.engine != "ray":
                after["system_fingerprints"] = sorted({*before.get("system_fingerprints", ()), *fingerprints.found})
            write_run_info(folder, after)
