"""Comparison of two files of results, before and after, of any format that `redraft.evals.logs` reads. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from ..logs.entries import POSITIONS
from ..logs.registry import Naming, read_log
from .paired import WANTED, Paired, Power, paired, power_of
from .sentences import change_in_words, percent, power_in_words, undecided

if TYPE_CHECKING:
    from pathlib import Path


__all__ = ["Comparison", "compare"]


class Comparison(Paired):
    """A comparison of two files, on the ids that both have."""

    only_before: int = Field(ge=0, description="Ids that only the first file has; they are not compared.")
    only_after: int = Field(ge=0, description="Ids that only the second file has; they are not compared.")
    id_fields: tuple[str, str] = Field(description="The fields that were read as id, before and after.")
    correct_fields: tuple[str, str] = Field(description="The fields that were read as verdict, before and after.")
    formats: tuple[str, str] = Field(description="The formats that the files were read as, before and after.")
    read: list[str] = Field(description="What was read from each file, in a plain sentence.")
    power: Power = Field(description="The difference that these problems would have shown, and how many one takes.")
    verdict: str = Field(description="The comparison in plain sentences.")
    warnings: list[str] = Field(description="What was left out.")


def compare(
    before: Path | str,
    after: Path | str,
    *,
    id_field: str | None = None,
    correct_field: str | None = None,
    right_from: float | None = None,
    methods: tuple[str | None, str | None] = (None, None),
    wanted: float = WANTED,
) -> Comparison:
    """Compare one file of results with the other, problem by problem.

    A file is a log of Inspect, lm-evaluation-harness, OpenAI evals, promptfoo, DeepEval, Langfuse, LangSmith, Phoenix,
    or JSONL, a JSON list or CSV with an id and a verdict in each row. Of a problem with several rounds the last counts.

    Args:
        before: The file.
        after: The same of later results; ids may come in another order.
        id_field: The field of the id in both; default: the only one possible in a file.
        correct_field: The field of the verdict, likewise: true or false, 0 or 1.
        right_from: For verdicts that are numbers: from which one on an answer is right.
        methods: Which one of several prompts or models in a file, before and after.
        wanted: The difference worth finding, a share between 0 and 1; the verdict says how many problems it takes.

    Raises:
        ValueError: A row lacks a field, repeats an id or has no verdict; a file is empty; it is not clear which field
            counts; or the two have no id in common. The message names file, line, field and candidates.
        OSError: A file can't be opened.
        ImportError: The extra `evals` is not installed.
    """
    naming = Naming(id_field, correct_field, right_from)
    logs = [read_log(path, naming) for path in (before, after)]
    old, new = (log.run(method) for log, method in zip(logs, methods, strict=True))
    common = [name for name in old.verdicts if name in new.verdicts]
    if not common:
        examples = [", ".join(repr(name) for name in list(run.verdicts)[:3]) for run in (old, new)]
        raise ValueError(f"no id in common: {before} has {examples[0]} …, {after} has {examples[1]} …")
    texts = [{record.question_id: record.question for record in run.records} for run in (old, new)]
    differing = [name for name in common if texts[0][name] and texts[1][name] and texts[0][name] != texts[1][name]]
    if differing and any(log.id_field in POSITIONS for log in logs):
        raise ValueError(
            f"{logs[0].id_field!r} counts rows, and {differing[0]!r} is another problem in {after} than in {before}: "
            "name a field that stays the same (--id-field, id_field=)"
        )
    counts = paired([old.verdicts[name] for name in common], [new.verdicts[name] for name in common])
    power = power_of(counts, wanted=wanted)
    changed = change_in_words(counts, None, power).rstrip(",")
    verdict = f"{changed}: from {percent(counts.before)} to {percent(counts.after)}."
    if undecided(counts, None, power):
        verdict += f" Can't tell whether it helped: {power_in_words(power, counts.n)}"
    left_out = [(path, len(run.verdicts) - len(common)) for path, run in ((before, old), (after, new))]
    warnings = [f"only {path} has {count} of the ids: they are not compared" for path, count in left_out if count]
    if differing:
        warnings.append(f"the texts of {len(differing)} of {len(common)} problems differ, {differing[0]!r} the first")
    return Comparison(
        **counts.model_dump(),
        only_before=left_out[0][1],
        only_after=left_out[1][1],
        id_fields=(logs[0].id_field, logs[1].id_field),
        correct_fields=(logs[0].right_field, logs[1].right_field),
        formats=(logs[0].format, logs[1].format),
        read=[log.sentence for log in logs],
        power=power,
        verdict=verdict,
        warnings=warnings,
    )
