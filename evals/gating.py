"""A gate for regressions: a graph beside its own earlier scores, played until it is decided. Internal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from pydantic import Field, ValidationError

from .._files import read_file, write_file
from ..state.dual import finish
from .analysis.anytime import Bets, anytime_interval
from .analysis.paired import CHANCE, Interval, Row
from .analysis.sentences import percent, points
from .datasets.own_rows import OwnScorer
from .evaluation import Play, kept_in, own_methods, playing, prepared
from .run.result_record import worth_of

if TYPE_CHECKING:
    from .datasets.dataset import Dataset, Problem

__all__ = [
    "Baseline",
    "GateResult",
    "agate",
    "gate",
    "junit_xml",
    "markdown",
    "read_baseline",
    "sequential",
    "write_baseline",
]

MARGIN = 0.05
"""Default of the loss that is not worth stopping for: 5 points."""

OnProgress = Callable[[int, int, float], None]


class Baseline(Row):
    """The scores that later versions of a graph are held against: a file that is readable in a diff."""

    format: Literal[1] = 1
    dataset: str
    dataset_sha256: str
    graph: str
    mean: float = Field(ge=0, le=1, description="Mean score, 0–1.")
    scores: dict[str, float] = Field(min_length=1, description="By the problem's id, 0–1; right is 1.")


class GateResult(Row):
    """The verdict of a gate, with what it rests on."""

    verdict: Literal["held", "worse", "can't tell"]
    n: int = Field(ge=0, description="Problems that were played.")
    of: int = Field(ge=0, description="Problems that could have been.")
    before: float = Field(description="Mean score in the baseline, of the problems played.")
    after: float = Field(description="Mean score now.")
    diff: float = Field(description="after - before.")
    diff_ci: Interval = Field(description="Each end holds with confidence 1 - alpha, whenever one looks.")
    margin: float = Field(description="A loss that is not worth stopping for.")
    alpha: float = Field(description="The chance of a wrong verdict.")
    tokens: int = Field(ge=0, description="Tokens that it took.")
    broken: list[str] = Field(description="Problems whose score fell, the worst first.")
    sentence: str

    @property
    def exit_code(self) -> int:
        """The exit code of `redraft gate`: 0 held, 1 worse, 3 can't tell."""
        return {"held": 0, "worse": 1, "can't tell": 3}[self.verdict]


def sequential(changes: Sequence[float], *, margin: float, alpha: float = CHANCE) -> tuple[str, int]:
    """Return the verdict of a paired test that is looked at after every change, and after how many it fell.

    `worse` has a chance of at most `alpha` where the mean change is 0 or more, and `held` where it is a loss of
    `margin` or more, whoever looks and whenever they stop; see `redraft.evals.analysis.anytime`.

    Args:
        changes: New score - old score of each problem, -1 to 1, in the order in which they were seen.
        margin: A loss that is not worth stopping for, above 0 and below 1.
        alpha: The chance of a wrong verdict.
    """
    loss, keeps = Bets(), Bets(-margin)
    for number, change in enumerate(changes, 1):
        loss.add(-change)
        keeps.add(change)
        if loss.p <= alpha or keeps.p <= alpha:
            return "worse" if loss.p <= alpha else "held", number
    return "can't tell", len(changes)


def gate(graph: Any, dataset: Any, baseline: Baseline | str | Path, **options: Any) -> GateResult:
    """Play a graph beside its earlier scores until it is decided whether it got worse.

    Args:
        graph: As in `evaluate`.
        dataset: As in `evaluate`.
        baseline: As `write_baseline` returns it, or its file.
        options: As of `agate`.

    Raises:
        ValueError: The baseline has none of the problems, or as in `evaluate`.

    Example:
        >>> from redraft.evals import gate, write_baseline
        >>> rows = [{"task": str(number)} for number in range(120)]
        >>> right = lambda row, answer: answer == row["task"]
        >>> baseline = write_baseline(lambda task: task, rows, score=right)
        >>> gate(lambda task: task, rows, baseline, score=right).verdict
        'held'
        >>> gate(lambda task: "no", rows, baseline, score=right).verdict
        'worse'
    """
    return finish(agate(graph, dataset, baseline, **options))


async def agate(
    graph: Any,
    dataset: Any,
    baseline: Baseline | str | Path,
    *,
    margin: float = MARGIN,
    alpha: float = CHANCE,
    budget_tokens: int | None = None,
    seed: int = 0,
    on_progress: OnProgress = lambda *_: None,
    **options: Any,
) -> GateResult:
    """Do what `gate` does, on the event loop that is running.

    Args:
        graph: As in `evaluate`.
        dataset: As in `evaluate`.
        baseline: As in `gate`.
        margin: A loss of the mean score that is not worth stopping for, above 0 and below 1.
        alpha: The chance of a wrong verdict.
        budget_tokens: Once these are spent it can't tell.
        seed: Orders the problems.
        on_progress: Called with the problems played, those that there are, and the difference so far.
        options: `score`, `verifiers`, `critics`, `question_field`, `limits`, `concurrency`, `rate_limits` and `out`,
            as in `evaluate`.
    """
    if not 0 < margin < 1:
        raise ValueError(f"margin must be above 0 and below 1 (2 points are 0.02), not {margin!r}")
    known = baseline if isinstance(baseline, Baseline) else read_baseline(baseline)
    made, data, settings = prepared(graph, dataset, **options)
    if isinstance(data.own, OwnScorer):  # it scored the baseline, so what it raises now is the answers' fault
        data.own.has_scored = True
    problems = [one for one in data.problems if one.id in known.scores]
    if not problems:
        raise ValueError(f"the baseline is of {known.dataset!r}, and has none of these problems: write a new one")
    problems.sort(key=lambda one: hashlib.sha256(f"{seed}:{one.id}".encode()).digest())
    new: dict[str, float] = {}
    tokens, verdict, changes = 0, "can't tell", []
    async with _playing(made, data, **settings) as play:
        for block in _blocks(problems, settings.get("concurrency", AT_ONCE)):
            records = await play(block)
            new |= {one.id: worth_of(records[one.id]) for one in block}
            tokens += sum(records[one.id].total_tokens for one in block)
            changes = [score - known.scores[name] for name, score in new.items()]
            on_progress(len(new), len(problems), sum(changes) / len(changes))
            verdict, _ = sequential(changes, margin=margin, alpha=alpha)
            if verdict != "can't tell" or (budget_tokens is not None and tokens >= budget_tokens):
                break
    old = {name: known.scores[name] for name in new}
    result: dict[str, Any] = {
        **{"verdict": verdict, "n": len(new), "of": len(problems), "margin": margin, "alpha": alpha, "tokens": tokens},
        **{"before": sum(old.values()) / len(old), "after": sum(new.values()) / len(new)},
        **{"diff": sum(changes) / len(changes), "diff_ci": anytime_interval(changes, 2 * alpha)},
        "broken": sorted((name for name in new if new[name] < old[name]), key=lambda name: new[name] - old[name]),
    }
    return GateResult(**result, sentence=_sentence(result))


def write_baseline(graph: Any, dataset: Any, path: str | Path | None = None, **options: Any) -> Baseline:
    """Play a graph on every problem and return its scores, which later versions are held against.

    Args:
        graph: As in `evaluate`.
        dataset: As in `evaluate`.
        path: Where they are written, one problem a line.
        options: As of `agate`, but for those of its test.
    """

    async def played() -> Baseline:
        made, data, settings = prepared(graph, dataset, **options)
        async with _playing(made, data, **settings) as play:
            records = await play(data.problems)
        scores = {one.id: worth_of(records[one.id]) for one in data.problems}
        mean = sum(scores.values()) / len(scores)
        return Baseline(dataset=data.name, dataset_sha256=data.sha256, graph=str(made.name), mean=mean, scores=scores)

    baseline = finish(played())
    if path is not None:
        write_file(Path(path), json.dumps(baseline.model_dump(), indent=1, ensure_ascii=False) + "\n")
    return baseline


def read_baseline(path: str | Path) -> Baseline:
    """Return the scores that `write_baseline` wrote.

    Raises:
        ValueError: The file is none of its kind.
        OSError: It can't be read.
    """
    try:
        return Baseline.model_validate_json(read_file(path))
    except ValidationError as error:
        raise ValueError(f"{path} is no baseline: {error.errors(include_url=False)[0]['msg']}") from None


def junit_xml(result: GateResult) -> str:
    """Return the verdict as JUnit XML, as build servers read it: one test, which fails where the graph got worse."""
    suite = ElementTree.Element(
        "testsuite", name="redraft gate", tests="1", failures=str(int(result.verdict == "worse"))
    )
    case = ElementTree.SubElement(suite, "testcase", classname="redraft", name="gate")
    if result.verdict != "held":
        tag = "failure" if result.verdict == "worse" else "skipped"
        ElementTree.SubElement(case, tag, message=result.sentence).text = "\n".join(result.broken)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def markdown(result: GateResult) -> str:
    """Return the verdict as Markdown, for a pull request."""
    broken = "".join(f"- `{name}`\n" for name in result.broken[:MOST_LISTED])
    more = len(result.broken) - MOST_LISTED
    listed = f"\nProblems whose score fell:\n\n{broken}" if broken else ""
    return f"### Gate: {result.verdict}\n\n{result.sentence}\n{listed}{f'- and {more} more' if more > 0 else ''}"


def _sentence(result: dict[str, Any]) -> str:
    played = f"{result['n']} of {result['of']} problems, {percent(result['after'])} against {percent(result['before'])}"
    change = f"{points(result['diff'])} points ({points(result['diff_ci'])})"
    loss = f"{100 * result['margin']:g} points"
    verdict = {
        "held": f"It held: a loss of {loss} is ruled out",
        "worse": "It got worse",
        "can't tell": f"Can't tell: neither a loss nor that it is below {loss} is shown",
    }[result["verdict"]]
    return f"{verdict}. {played}: {change}, {result['tokens']:,} tokens."


@asynccontextmanager
async def _playing(graph: Any, data: Dataset, *, out: Any = None, **settings: Any) -> AsyncIterator[Play]:
    (method,) = own_methods(graph, data.kind, against=())
    with kept_in(out) as root:
        async with playing(method, data, root / method.name, keep=out is not None, **settings) as play:
            yield play


def _blocks(problems: Sequence[Problem], size: int) -> Iterator[Sequence[Problem]]:
    return (problems[start : start + size] for start in range(0, len(problems), size))


AT_ONCE = 4
MOST_LISTED = 20
