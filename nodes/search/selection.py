"""Choose: which paths go on, and when the search stops, the best of all. Internal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...state.events import record
from ...state.stopping import REFUSED_OUTSIDE, STOP_REASONS, StopReason, rounds_allowed, spent_budget
from ...state.summary import best_draft, current_run
from ...state.usage import Usage, add_usage
from ..check import EXPLANATIONS, outcome_values
from ..runtime.step import Step, Steps, emit
from .paths import Path, lineage, revisions, shown_path
from .ranking import PairwiseJudge, Ranking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from ..runtime.meter import Prices
    from ..writing.prompts import Keep
    from .explore import StopWhen
    from .shared_budget import SharedBudgets

__all__ = ["select"]

STEPS_A_LEVEL = 2
"""branch and select."""


def select(
    budgets: SharedBudgets,
    *,
    judge: PairwiseJudge | None,
    branching_factor: int,
    depth: int,
    beam_width: int,
    stop_when: StopWhen,
    variations: Sequence[str],
    keep: Keep,
    prices: Prices | None = None,
) -> Step:
    """Return the node that keeps the best paths of a level and plans their revisions, or ends the search.

    Accepted paths lead, and what programs rejected comes last, by score. Among the rest a judge decides where there is
    one, else the order of `draft_rank`, then the earlier draft, then the order in which they were planned.

    Args:
        budgets: What siblings share.
        judge: Compares two drafts.
        branching_factor: How many revisions a draft gets.
        depth: How many levels of them there are.
        beam_width: How many paths go on.
        stop_when: As in `build_branching_graph`.
        variations: Their names.
        keep: Whether the best or the last draft of a path counts.
        prices: Of the judge's model.

    Reads: paths, plans, going, limits, remaining_steps. Writes: plans and going; at the end everything that comes back.

    Raises:
        Exception: At run: the error of a first draft, where no path has one. Run again, those paths are.
    """

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        level = _survey(state)
        limits, search = state["limits"], state["search"]
        ranking = Ranking(judge, prices, state, config, level.usage)
        room = rounds_allowed(limits) - sum(path["level"] > 0 for path in level.begun)
        out_of_steps = state.get("remaining_steps", STEPS_A_LEVEL + 1) <= STEPS_A_LEVEL
        budget = spent_budget((), limits, besides=ranking.spent) or _refused(level.all)
        at_the_end = level.number >= depth or room <= 0 or out_of_steps
        reason = _reason(level, stop_when, budget, at_the_end=at_the_end)
        shared = budgets.find(search, level.number)
        budgets.end(search, level.number)
        if reason == "failed" and (again := level.lost_drafts):
            if shared is not None and shared.error is not None:
                raise shared.error
            budgets.begin(search, level.number, ranking.spent, limits)  # resumed after that error
            return {"plans": [plan for plan in state["plans"] if plan["name"] in again]}
        if reason is None:
            beam = yield from ranking.top(level.open, beam_width)
            budgets.begin(search, level.number + 1, ranking.spent, limits)
            names = [path["name"] for path in beam]
            emit(kind="level", node="select", round=level.number, going=names, text=f"Going on: {', '.join(names)}.")
            return {
                "plans": revisions(state["base"], beam, branching_factor, len(variations), room=room),
                "going": [*(path["name"] for path in level.running if path not in level.open), *names],
                "compared": ranking.compared,
                "judging": ranking.judging,
            }
        winners = yield from ranking.top([path for path in level.running if path["best"] >= 0], 1)
        why = {**EXPLANATIONS, "max_rounds": OUT_OF_STEPS if out_of_steps else OUT_OF_LEVELS}[reason]
        sealed = record(state, *_record(winners, level, ranking, reason, why, keep=keep))
        emit(**sealed["events"][-1])
        events = [*state["events"], *sealed["events"]]
        return {
            **sealed,
            **outcome_values(events, reason, best_draft(events, keep=keep)),
            "branches": [shown_path(path, state["root"], variations) for path in level.begun],
            "compared": ranking.compared,
            "judging": ranking.judging,
            "plans": [],
            "going": [],
        }

    return Step("select", logic)


@dataclass(frozen=True)
class _Level:
    """The standing of a search after one level."""

    number: int
    all: list[Path]
    """Every path of the search, in the order of its plans, those that were left out too."""
    begun: list[Path]
    before: list[Path]
    """Earlier attempts at the drafts of these."""
    running: list[Path]
    """Those that are neither lost nor revised in other paths."""
    open: list[Path]
    """Those of them that can go on: what stopped them is only that their level ended."""

    @property
    def usage(self) -> Usage:
        """The cost of exploring so far."""
        return add_usage(path["usage"] for path in [*self.begun, *self.before])

    @property
    def lost(self) -> list[dict[str, Any]]:
        """The paths whose first draft an error prevented, with that error."""
        return [{"branch": path["name"], "error": path["lost"]} for path in self.begun if path.get("lost")]

    @property
    def lost_drafts(self) -> list[str]:
        """The names of those, where no path has a draft."""
        return [] if any(path["best"] >= 0 for path in self.begun) else [path["branch"] for path in self.lost]


def _survey(state: Mapping[str, Any]) -> _Level:
    number: int = state["plans"][0]["level"]
    attempts = [path for path in state["paths"] if path["search"] == state["search"]]
    # Of several attempts at a draft the last counts; the others still cost.
    every = list({path["name"]: path for path in attempts}.values())
    before = [path for path in attempts if path not in every]
    # By length before the name, so that b1.10 comes after b1.9.
    every.sort(key=lambda path: (path["level"], len(path["name"]), path["name"]))
    begun = [path for path in every if not path.get("skipped")]
    parents = {path["parent"] for path in begun}
    leaves = [path for path in begun if path["name"] not in parents]
    running = [path for path in leaves if path["level"] == number or path["name"] in state["going"]]
    going_on = [path for path in running if path["stop_reason"] == "max_rounds" and path["best"] >= 0]
    return _Level(number, every, begun, before, running, going_on)


def _reason(level: _Level, stop_when: StopWhen, budget: StopReason | None, *, at_the_end: bool) -> StopReason | None:
    """Return the reason why the search stops after a level, or `None` where it goes on."""
    accepted = any(path["accepted"] for path in level.running)
    if level.open and not budget and not at_the_end and not (accepted and stop_when == "accepted"):
        return None
    if accepted:
        return "accepted"
    return budget or ("max_rounds" if level.open else _ended(level.running))


def _refused(paths: Sequence[Path]) -> StopReason | None:
    """Return the budget for which a path was left out, or a call of one refused while others were under way."""
    reasons = [path.get("skipped") or path["stop_reason"] for path in paths]
    return next((reason for reason in reasons if reason in BUDGETS), None)


def _ended(running: Sequence[Path]) -> StopReason:
    """Return the reason why no path can go on: the most serious of their own reasons."""
    reasons = [path["stop_reason"] for path in running]
    return next((reason for reason in STOP_REASONS if reason in reasons), "max_rounds")


def _record(
    winners: Sequence[Path], level: _Level, ranking: Ranking, reason: StopReason, why: str, *, keep: Keep
) -> list[dict[str, Any]]:
    """Return the events of the best path, and the verdict that chose it; what the others cost stands there."""
    winner = next(iter(winners), None)
    family = lineage(winner, level.begun) if winner else set()
    run = current_run(winner["values"]["events"]) if winner else []
    others = [path["usage"] for path in level.begun if path["name"] not in family]
    others += [path["usage"] for path in level.before]
    evidence = {name: rows for name, rows in (("comparisons", ranking.compared), ("lost", level.lost)) if rows}
    best = best_draft(run, keep=keep)
    chosen = f"{winner['name']} is the best of {len(level.begun)} paths." if winner else "There is no draft."
    outcome = {"accepted": best.accepted, "score": best.score, "best": best.round} if best else NO_OUTCOME
    verdict: dict[str, Any] = {
        "kind": "verdict",
        "round": outcome["best"] or 0,
        "by": "select",
        "text": f"{why} {chosen}",
        # What looking things up cost stands on the task of the winner's own thread, which is not copied.
        "usage": add_usage([*others, *(event["usage"] for event in run[:1]), ranking.judging]),
        **outcome,
        "stop_reason": reason,
        "limits": dict(ranking.state["limits"]),
    }
    marks = {
        "branch": winner and winner["name"],
        "oracle": any(path["oracle"] for path in level.begun),
        "evidence": evidence,
    }
    verdict |= {name: mark for name, mark in marks.items() if mark}
    return [*({key: value for key, value in event.items() if key != "prev"} for event in run[1:]), verdict]


BUDGETS = ("token_budget", "cost_budget", "time_budget", *REFUSED_OUTSIDE)

NO_OUTCOME = {"accepted": False, "score": None, "best": None}
OUT_OF_LEVELS = "No levels or rounds are left."
OUT_OF_STEPS = "The recursion_limit of the call leaves no room for another level; raise it in the config."
