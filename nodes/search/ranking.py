"""The best of several paths: by programs, then by a judge where there is one, else by score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...state.stopping import spent_budget
from ...state.usage import Usage, add_usage
from ..runtime.step import call, emit
from ..writing.replies import same_text
from .paths import order, outranks

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from ..runtime.meter import Prices
    from ..runtime.step import Call
    from .pairwise import PairwiseJudge
    from .schema import Path

__all__ = ["Ranking"]


@dataclass
class Ranking:
    """Ranks the paths of one level, and notes what the judge said and cost.

    Args:
        judge: Compares two drafts; `None` leaves it to the scores.
        prices: Of the judge's model.
        state: Whose task it is, and whose limits hold.
        config: As the node was given it.
        explored: What the paths cost.
    """

    judge: PairwiseJudge | None
    prices: Prices | None
    state: Mapping[str, Any]
    config: RunnableConfig
    explored: Usage

    def __post_init__(self) -> None:
        self.compared: list[dict[str, Any]] = list(self.state["compared"])
        self.judging: Usage = self.state["judging"]

    @property
    def spent(self) -> Usage:
        """The cost of the search so far."""
        return add_usage([self.explored, self.judging])

    def top(self, paths: Sequence[Path], most: int) -> Generator[Call, Any, list[Path]]:
        """Return the best paths, at most so many, best first. Where all have room nobody is asked."""
        ranked: list[Path] = []
        for path in sorted(paths, key=order, reverse=True):
            place = len(ranked)
            while len(paths) > most and place and (yield from self._wins(path, ranked[place - 1])):
                place -= 1
            ranked.insert(place, path)
            del ranked[most:]
        return ranked

    def _wins(self, path: Path, leader: Path) -> Generator[Call, Any, bool]:
        """Return whether the judge puts a path before one that the scores put first.

        An error of the judge is a tie, and noted. Once a budget is spent it is not asked.
        """
        if self.judge is None or outranks(leader, path) or same_text(leader["answer"], path["answer"]):
            return False
        limits = self.state["limits"]
        if spent_budget((), limits, besides=self.spent):
            return False
        level, names = path["level"], {"first": leader["name"], "second": path["name"]}
        emit(kind="start", node="select", round=level, by=self.judge.name, branches=list(names.values()))
        so_far = {"events": [{"kind": "task", "usage": self.spent}], "limits": limits}
        drafts = (self.state["task"], leader["answer"], path["answer"])
        outcome = yield from call(self.judge, *drafts, config=self.config, prices=self.prices, state=so_far)
        self.judging = add_usage([self.judging, outcome.usage])
        said: dict[str, Any] = {"level": level, "judge": outcome.model or self.judge.name, **names, "winner": None}
        if outcome.error is None:
            said |= {"winner": names.get(outcome.result.winner), "reasons": list(outcome.result.reasons)}
        else:
            said["error"] = f"{type(outcome.error).__name__}: {str(outcome.error)[:500]}"
        self.compared.append(said)
        emit(kind="comparison", node="select", round=level, **said)
        return bool(said["winner"] == path["name"])
