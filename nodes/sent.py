"""The prompts of a run, made again from its record: what models were asked with, none of whom is asked. Internal.

A prompt follows from the state that a step began with, and that is a fold over the events before it, so that none need
be kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.prompts import ChatPromptTemplate, HumanMessagePromptTemplate, PromptTemplate

from ..state.events import DRAFT_KINDS
from ..state.summary import attempts, summary_of
from ..state.threads.kind import SentPrompt, differences, fingerprint_in_force
from .writing.prompts import standing
from .writing.writers import AdaptiveWriter, Refiners

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from ..state.events import Event
    from .critics.critics import NamedCritic
    from .writing.writers import Writer

__all__ = ["prompt_texts", "sent_prompts"]


def prompt_texts(*, first: Writer, revise: Writer, critics: Sequence[NamedCritic]) -> dict[str, str]:
    """Return the prompts of a loop as templates, by the arguments of its builder; those alone that are one text.

    Args:
        first: Writes first drafts.
        revise: Writes revisions.
        critics: All of the graph; the first that is asked with a prompt tells that of judges.
    """
    judge = next((critic.call for critic in critics if hasattr(critic.call, "sent")), None)
    if isinstance(revise, AdaptiveWriter):
        revise = revise.writers.get("revise", revise)
    asked = {"generate_prompt": first, "refine_prompt": revise, "critic_prompt": judge}
    texts: dict[str, str] = {}
    for name, one in asked.items():
        match getattr(one, "templates", ()):
            case [ChatPromptTemplate(messages=[HumanMessagePromptTemplate(prompt=PromptTemplate() as prompt)])]:
                texts[name] = prompt.template
    return texts


def sent_prompts(
    values: Mapping[str, Any], *, first: Writer, again: Writer, revise: Writer, critics: Sequence[NamedCritic]
) -> list[SentPrompt]:
    """Return the prompts of a thread's last run, in the order of its record.

    Those that redraft made: a writer or critic of the user's own, an agent's tool calls, a rubric's and a calibrated
    judge's have none here, nor has the part of a fork that its parent made with another graph. What a prompt showed of
    keys of one's own is as they are now.

    Args:
        values: The last values of the thread.
        first: Writes first drafts.
        again: Writes them where an earlier one came to nothing.
        revise: Writes revisions.
        critics: All of the graph.
    """
    events: Sequence[Event] = values["events"]
    found: list[SentPrompt] = []
    newest, alike = fingerprint_in_force(events), True
    for at in range(summary_of(events).start, len(events)):
        event, before = events[at], events[:at]
        state = {**values, "events": before}
        if "fingerprint" in event:  # what another graph asked before it was forked, say, is told by that one
            alike = not differences(event["fingerprint"], newest)
        if not alike or not event.get("usage", {}).get("calls"):  # nobody was asked
            continue
        if event["kind"] in DRAFT_KINDS:
            # Revisions that were written side by side are answers to one prompt.
            if event.get("given") or (event["kind"] == "revision" and before[-1]["kind"] == "revision"):
                continue
            writer: Any = first if event["kind"] == "draft" else revise if attempts(before) else again
            name = str(event.get("refiner") or event["by"])
            if isinstance(writer, AdaptiveWriter | Refiners):
                writer = writer.writers.get(name)
            if hasattr(writer, "messages"):
                found.append(SentPrompt(event["round"], event["kind"], name, writer.messages(state)))
        elif event["kind"] == "critique":
            sent = _to_judge(event, before, state, critics)
            found += [SentPrompt(event["round"], "critique", event["by"], messages) for messages in sent]
    return found


def _to_judge(
    event: Event, before: Sequence[Event], state: Mapping[str, Any], critics: Sequence[NamedCritic]
) -> Iterator[list[BaseMessage]]:
    """Yield the prompts of the critic whose critique an event is."""
    name = event.get("critic", event["by"])
    draft = next((one.text for one in attempts(before) if one.round == event["round"]), None)
    for critic in critics:
        call = critic.call
        if name != critic.name and name.startswith(f"{critic.name}: ") and event.get("requirements"):
            call = call.about(event["requirements"][0])
        elif name != critic.name:
            continue
        if draft is not None and hasattr(call, "sent"):
            yield from call.sent(state["task"] + standing(before), draft, before, event, {**state, "draft": draft})
        return
