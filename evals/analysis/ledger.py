"""Ledger of what refining fixed and broke, what it cost, what costs the same, and who judged well. Internal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from ...models.specs import model_name
from ..run.run_folder import Run, RunInfo, find_runs, read_run
from .diagnosis import diagnose
from .differences import Difference, differences
from .equal_cost import EqualCostRow, frontier, mean_tokens, nearest_baseline, shared_ids
from .method_row import Headline, MethodRow, RoundRow, method_row
from .paired import WANTED, Interval, Paired, Power, Proportion, Row, finding, holm, paired
from .round_rates import AcceptanceRow, CriticRow, RoundRates, acceptance_rows, critic_rows
from .sentences import verdict

__all__ = [
    "CriticRow",
    "Difference",
    "EqualCostRow",
    "Group",
    "Headline",
    "Interval",
    "Ledger",
    "MethodRow",
    "Paired",
    "Power",
    "Proportion",
    "RoundRates",
    "RoundRow",
    "Run",
    "RunInfo",
    "build_ledger",
    "find_runs",
    "read_run",
]


class Group(Row):
    """The methods that can be held against each other: one dataset, one model."""

    title: str = Field(description="The names of dataset and model, without its address; unique in the ledger.")
    dataset: str
    dataset_sha256: str
    kind: str = Field(description="How answers are judged.")
    model: str
    problems: int = Field(ge=0, description="Problems that all its runs have.")
    methods: list[str] = Field(description="Labels, in the order given.")
    frontier: list[str] = Field(
        description="Labels of those that no other beats in accuracy and tokens, cheapest first."
    )
    recommendation: str | None = Field(
        description="What `redraft diagnose` says of its runs; null where it can say nothing: no baseline, say."
    )


class Ledger(Row):
    """Everything that a report shows, as plain data. Rates are shares, 0–1, intervals are 95%."""

    format: Literal[1] = 1
    groups: list[Group]
    methods: list[MethodRow] = Field(description="In the order of the runs.")
    differences: list[Difference] = Field(
        default=[], description="Each refining method beside its first drafts, and each baseline cut to its tokens."
    )
    equal_cost: list[EqualCostRow] = Field(description="Refining methods that have a baseline beside them.")
    critics: list[CriticRow] = Field(description="Who judged, run by run.")
    acceptance: list[AcceptanceRow] = Field(
        description="What an acceptance is worth, run by run, where any answer was accepted."
    )
    warnings: list[str] = Field(description="What to know before comparing rows.")
    read: list[str] = Field(default=[], description="By which fields logs of other tools were read.")


def build_ledger(runs: Sequence[Run], *, wanted: float = WANTED) -> Ledger:
    """Return the ledger of some runs. Only runs on one dataset and model are held against each other.

    Args:
        runs: As `find_runs` gives them.
        wanted: The difference worth finding, a share between 0 and 1; verdicts say how many problems it takes.

    Raises:
        ValueError: There are none, `wanted` is no such share, or a run has no verdicts by gold answers.
        ImportError: The extra `evals` is not installed.
    """
    if not runs:
        raise ValueError("a ledger needs at least one run")
    labels = _told_apart(
        [
            f"{run.info.method} (oracle)" if run.oracle and "oracle" not in run.info.method else run.info.method
            for run in runs
        ],
        [(run.info.dataset, model_name(run.info.model), str(run.folder)) for run in runs],
    )
    rows = [method_row(run, label=label, wanted=wanted) for run, label in zip(runs, labels, strict=True)]
    pairs = list(zip(rows, runs, strict=True))
    together: dict[tuple[str, str], list[tuple[MethodRow, Run]]] = {}
    for row, run in pairs:
        # By what a dataset holds and not by its name, which two files may share.
        together.setdefault((row.dataset_sha256, row.model), []).append((row, run))
    titles = _told_apart(
        [
            " · ".join(filter(None, (members[0][0].dataset, model_name(model))))
            for (_, model), members in together.items()
        ],
        [(model, sha256[:8]) for sha256, model in together],
    )
    groups = [_group(title, members, wanted) for title, members in zip(titles, together.values(), strict=True)]
    finished: dict[str, MethodRow] = {}
    beside: dict[str, EqualCostRow] = {}
    warnings: list[str] = []
    for group, members in zip(groups, together.values(), strict=True):
        finished |= _compared(group, members, beside)
        warnings += _warnings(group, members)
    return Ledger(
        groups=groups,
        methods=[finished[row.label] for row in rows],
        differences=[one for members in together.values() for one in _differences(members, wanted)],
        equal_cost=[beside[row.label] for row in rows if row.label in beside],
        critics=[critic for row, run in pairs for critic in critic_rows(run, label=row.label)],
        acceptance=[accepted for row, run in pairs for accepted in acceptance_rows(run, label=row.label)],
        warnings=warnings,
    )


def _differences(members: list[tuple[MethodRow, Run]], wanted: float) -> list[Difference]:
    refining = [(row, run) for row, run in members if not row.baseline and row.n]
    return [one for row, run in refining for one in differences(row, run, members, wanted=wanted)]


def _compared(
    group: Group, members: list[tuple[MethodRow, Run]], beside: dict[str, EqualCostRow]
) -> dict[str, MethodRow]:
    """Return a group's rows held against each other, by label; `beside` is given their rows at equal cost."""
    rows = []
    for row, run in members:
        update = {**_against_zero_shot(row, run, members), "on_frontier": row.label in group.frontier}
        rows.append(row.model_copy(update=update))
        if not row.baseline and (equal := nearest_baseline(row, run, members)):
            beside[row.label] = equal
    short = [label.partition(" · ")[0] for label in group.methods]
    names = {label: name if short.count(name) == 1 else label for label, name in zip(group.methods, short, strict=True)}
    baselines, refining = ([row for row in rows if row.baseline is kind] for kind in (True, False))
    return _finished(baselines, beside, names) | _finished(refining, beside, names)


def _finished(
    rows: Sequence[MethodRow], beside: dict[str, EqualCostRow], names: dict[str, str]
) -> dict[str, MethodRow]:
    """Return a group's baselines, or its refining methods, with corrected p-values, headlines and verdicts, by label.

    The p-values of their rows at equal cost are corrected in place.
    """
    changes = {row.label: change for row in rows if (change := row.vs_zero_shot if row.baseline else row.overall)}
    firsts = {row.label: test for row in rows if (test := _headline_test(row, beside.get(row.label)))}
    p_changes, p_firsts = _corrected(rows, changes), _corrected(rows, firsts)
    for label, p in _corrected(rows, {label: equal.paired for label, equal in beside.items()}).items():
        # Headline and verdict show the same comparison at equal cost, so they give it the same p.
        update = {"p_corrected": p_firsts[label] if beside[label].near else p}
        beside[label] = beside[label].model_copy(update=update)
    finished = {}
    for row in rows:
        equal = beside.get(row.label)
        named = row.model_copy(update={"name": names[row.label], "p_corrected": p_changes.get(row.label)})
        first = _headline(named, equal, p_firsts.get(row.label), names)
        finished[row.label] = named.model_copy(update={"verdict": verdict(named, equal), "headline": first})
    return finished


def _corrected(rows: Sequence[MethodRow], tests: Mapping[str, Paired]) -> dict[str, float]:
    """Return the p-values of some rows by Holm's method. An oracle is nothing to choose, so it counts as no test."""
    ps = {row.label: tests[row.label].mcnemar_p for row in rows if row.label in tests}
    family = [row.label for row in rows if row.label in ps and not row.oracle and tests[row.label].n]
    return ps | dict(zip(family, holm([ps[label] for label in family]), strict=True))


def _group(title: str, members: list[tuple[MethodRow, Run]], wanted: float) -> Group:
    first = members[0][0]
    rows = [row for row, _ in members]
    try:
        recommendation = diagnose([run for _, run in members], wanted=wanted).recommendation
    except ValueError:  # no baseline or nothing that refines, several runs of one method, or no problem in common
        recommendation = None
    return Group(
        title=title,
        dataset=first.dataset,
        dataset_sha256=first.dataset_sha256,
        kind=first.kind,
        model=first.model,
        problems=len(set.intersection(*(set(run.verdicts) for _, run in members))),
        methods=[row.label for row in rows],
        frontier=frontier(rows),
        recommendation=recommendation,
    )


def _against_zero_shot(row: MethodRow, run: Run, members: list[tuple[MethodRow, Run]]) -> dict[str, object]:
    """Return the fields that hold a run against the zero-shot run that shares most problems with it."""
    plain = [other for member, other in members if member.method == "zero-shot" and not member.oracle]
    if not plain or row.method == "zero-shot":
        return {}
    zero = max(plain, key=lambda other: len(shared_ids(run, other)))
    if not (ids := shared_ids(run, zero)):
        return {}
    before, after, cost = zero.verdicts, run.verdicts, mean_tokens(zero, ids)
    return {
        "token_ratio": mean_tokens(run, ids) / cost if cost else None,
        "vs_zero_shot": paired([before[name] for name in ids], [after[name] for name in ids]),
    }


def _warnings(group: Group, members: list[tuple[MethodRow, Run]]) -> list[str]:
    where = f"{group.dataset}, {model_name(group.model)}"
    asked = {name for _, run in members for name in run.verdicts}
    notes = [
        (
            group.problems < len(asked),
            f"its runs share {group.problems} of {len(asked)} problems; two methods are compared on those both have",
        ),
        (not any(row.baseline for row, _ in members), "no baseline was run: nothing shows what the same tokens bring"),
    ]
    return [f"{where}: {text}" for holds, text in notes if holds]


def _headline_test(row: MethodRow, equal_cost: EqualCostRow | None) -> Paired | None:
    """Return the comparison that a method's headline shows; `None` where there is nothing to hold it against."""
    if equal_cost and equal_cost.near:
        return equal_cost.paired
    if row.vs_zero_shot or row.baseline:
        return row.vs_zero_shot
    test = equal_cost.paired if equal_cost else row.overall
    return test if test.n else None


def _headline(
    row: MethodRow, equal_cost: EqualCostRow | None, p_corrected: float | None, names: dict[str, str]
) -> Headline | None:
    """Return a method's headline, or `None` where there is nothing to hold it against.

    Args:
        row: The method.
        equal_cost: It beside the nearest baseline, if there is one.
        p_corrected: The p of its `_headline_test`, corrected; `None` where it has none.
        names: Label → short name of the group's methods.
    """
    test = _headline_test(row, equal_cost)
    if test is None or p_corrected is None:
        return None
    how: Literal["equal tokens", "zero-shot", "nearest tokens", "first draft"]
    if equal_cost and equal_cost.near:
        cut = "" if equal_cost.samples is None else f", cut to {equal_cost.samples:.1f} samples,"
        how, against = "equal tokens", f"{names[equal_cost.baseline]}{cut} at equal tokens"
    elif row.vs_zero_shot:
        times = f" at {row.token_ratio:.1f}× its tokens" if row.token_ratio else ""
        how, against = "zero-shot", f"zero-shot{times}"
        if not row.baseline:
            why = "no baseline has as many" if times else "tokens are unknown"
            against += f" ({why})"
    elif equal_cost:
        times = f" with {equal_cost.token_ratio:.1f}× the tokens" if equal_cost.token_ratio else ""
        how, against = "nearest tokens", f"{names[equal_cost.baseline]}{times} (none has as many)"
    else:
        how, against = "first draft", "its own first drafts (no baseline was run)"
    return Headline(
        how=how,
        against=against,
        paired=test,
        p_corrected=p_corrected,
        finding=finding(test.diff or 0.0, test.diff_ci95, p_corrected, wanted=row.power.wanted),
    )


def _told_apart(labels: list[str], tells: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the labels; to those that several share, the words that differ are added, the first ones first."""
    for words in zip(*tells, strict=True):
        counts = Counter(labels)
        several = {
            label for label in counts if len({w for w, own in zip(words, labels, strict=True) if own == label}) > 1
        }
        labels = [f"{own} · {word}" if own in several else own for own, word in zip(labels, words, strict=True)]
    return labels
