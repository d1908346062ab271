"""A run as one self-contained page. Internal.

The task, the answer, the graph, every step, every draft, every branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._files import write_file
from ...state.masking import masked
from ...state.summary import oracle_touched, requirements, rounds, summary_of, usage_total, wishes
from .documents import html_environment, macros, part, policy, style
from .drafts import read_state
from .notebook import show, timeline, tree
from .rounds import curve_of, round_cards
from .wording import amount, money, score_of, seconds, tokens_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ...state import Thread
    from ...state.events import Event

__all__ = ["run_facts", "run_page", "write_run_page"]

HOW_ROUNDS_ARE_READ = (
    "Each with what was said about it, the best one open. Words that a revision took out are struck through, those "
    "that it brought are underlined, and beside them stands what was said about the draft before."
)


HOW_REQUIREMENTS_ARE_READ = "Asked for beside the task, by a person or a fork."


def write_run_page(thread: Thread, out: Path) -> Path:
    """Return the path of the page that was written.

    Raises:
        ImportError: The extra `notebook` is not installed.
        OSError: The file can't be written.
        UnknownThreadError: There is no such thread.
    """
    page = run_page(thread)
    write_file(out, page)
    return out


def run_page(thread: Thread) -> str:
    """Return a page that any browser shows without a network; it holds no script, and its policy allows none.

    Args:
        thread: A thread of any graph; of ones that keep no record of ours, it has the graph, the steps and branches.

    Raises:
        ImportError: The extra `notebook` is not installed.
        UnknownThreadError: There is no such thread.
    """
    environment = html_environment()
    steps = timeline(thread)
    values, raised = read_state(thread)
    events: list[Event] = values.get("events") or []
    cards = round_cards(events)
    views = macros()
    sections: list[dict[str, Any]] = []

    def add(id: str, title: str, body: Any, intro: str = "") -> None:  # noqa: A002  # of the element
        sections.append({"id": id, "title": title, "body": body, "intro": intro})

    if values.get("task"):
        add("task", "Task", views.task({"task": str(values["task"]), "wishes": wishes(events)}))
    if required := requirements(events):
        add("requirements", "Requirements", views.requirements(required), HOW_REQUIREMENTS_ARE_READ)
    if values.get("answer"):
        add("answer", "Answer", views.answer({"answer": str(values["answer"])}))
    if cards:
        curve = curve_of(cards)
        listed = views.rounds(cards, bool(values.get("stop_reason")))
        add("rounds", "Rounds", (views.curve(curve) if curve else "") + listed, HOW_ROUNDS_ARE_READ)
    add("timeline", "Step by step", steps.body)
    add("graph", "The path through the graph", show(thread).body)
    add("branches", "Branches", tree(thread).body)
    styles = style() + part(__package__, "page.css")
    from markupsafe import Markup

    return environment.from_string(part(__package__, "run.html.j2")).render(
        thread_id=thread.thread_id,
        views=views,
        policy=policy(style=styles),
        style=Markup(styles),  # noqa: S704  # our own file
        stop_reason=values.get("stop_reason"),
        facts=run_facts(values, events),
        problem=f"An error ended the run in {raised[0]}: {masked(raised[1])}" if raised else "",
        sections=sections,
    )


def run_facts(values: Mapping[str, Any], events: Sequence[Event]) -> list[str]:
    """Sum up a run so far from its record: the state's own sums are as old as its last verdict."""
    if not events:
        return []
    usage, best = usage_total(events), summary_of(events).answer
    facts = [amount(rounds(events), "round"), f"score {score_of(best.score if best else None)}"]
    if values.get("accepted_by"):
        facts.append(f"accepted by {values['accepted_by']}")
    if oracle_touched(events):
        facts.append("a critic knew the gold answer")
    if not usage["calls"]:
        return facts  # stopped in its first call, say, of which nobody knows what it cost
    sure = "at least " if usage.get("uncounted_calls") else "about " if usage.get("counted_here") else ""
    facts.append(f"{sure}{tokens_of(usage)}")
    return [*facts, money(usage["cost_usd"]), seconds(usage["seconds"])]
