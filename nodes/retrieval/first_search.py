"""Running the plan: the first passages of a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..runtime.dual import Do, DualCallable, tolerated
from .findings import anchors_of, findings, plan_of, rendered
from .search import Query, Search, failed

if TYPE_CHECKING:
    from collections.abc import Generator

    from .patterns import Patterns

__all__ = ["FirstSearch"]


class FirstSearch(DualCallable[[Mapping[str, Any]], dict[str, Any]]):
    """The `generate` step of a search: runs the plan's queries, and those that helped such a query before.

    Args:
        search: Runs them.
        patterns: Knows what helped.

    It asks no model, so it is made also where planning has spent the budget.

    Reads: events. Writes: events.

    Raises:
        Exception: At run: whatever the retriever raises; the thread resumes from here.
    """

    def __init__(self, search: Search, patterns: Patterns) -> None:
        self.__name__ = "search"  # how its draft is signed
        self.asks_no_model = True
        self._search = search
        self._patterns = patterns

    def logic(self, state: Mapping[str, Any]) -> Generator[Do, Any, dict[str, Any]]:
        """Search, and return the passages as the draft."""
        events = state["events"]
        plan = plan_of(events)
        queries = [Query(text, "plan") for text in plan["queries"]]
        notes: list[dict[str, Any]] = []
        known = yield from tolerated(
            self._patterns.recall(plan["terms"]),
            instead=[],
            note=lambda error: notes.append(failed("patterns", 0, error)),
        )
        queries += [query for query in known if query.text not in plan["queries"]]
        given = {"parallel": plan["strategy"] == "parallel", "strict": True}
        found = yield Do(
            lambda: self._search.run(queries, anchors_of(events), 0, **given),
            lambda: self._search.arun(queries, anchors_of(events), 0, **given),
        )
        return {"draft": rendered(findings([*events, *found])), "events": [*notes, *found]}
