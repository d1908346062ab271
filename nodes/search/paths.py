"""Paths of a search as plain data: the state, the plans, the outcomes, and their order. Pure. Internal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ...models.specs import as_model
from ...state.checked_channels import NEVER, CheckedDelta
from ...state.events import Event, digest
from ...state.first_nodes import PREPARE
from ...state.schema import RefineOutput, RefineState
from ...state.summary import accepted_by, best_draft, draft_rank, oracle_touched, rounds, usage_total
from ...state.threads.kind import ForkPoint, GraphKind
from ...state.usage import Usage, add_usage  # langgraph reads the annotations at run time
from ..arguments import checked_temperature
from ..critics.critics import HumanCritic, VerifierCritic
from ..generate import CHECKED_GENERATE_PROMPT, GENERATE_PROMPT
from ..mending.ladder import wishes
from ..refine import REFINE_PROMPT
from ..verify.answer_type import AnswerType, schema_option
from ..writing.prompts import PromptedModel, Prompts, seen_by_refiner
from ..writing.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.language_models import BaseChatModel
    from langgraph.types import StateSnapshot


__all__ = [
    "BranchingOutput",
    "BranchingState",
    "SearchKind",
    "Variation",
    "append_paths",
    "check_critics",
    "drafts",
    "explored",
    "forked_values",
    "lineage",
    "lost",
    "names_of",
    "order",
    "outranks",
    "own_usage",
    "prefix",
    "revisions",
    "search_options",
    "shown_path",
    "varied_options",
]

Path = dict[str, Any]


def append_paths(paths: Sequence[Path], writes: Sequence[Sequence[Path]]) -> list[Path]:
    """Return all paths, those that were written last at the end: the reducer of the `paths` channel."""
    return [*paths, *(path for write in writes for path in write)]


class BranchingState(RefineState, total=False):
    """The state of a search."""

    paths: Annotated[list[Path], CheckedDelta(append_paths, snapshot_frequency=NEVER)]
    """Every path that was explored, with where its thread stands. Those of an earlier task have another `search`."""
    search: str
    """Token of the search for the current task."""
    base: str
    """Prefix of its paths' thread ids; empty where nothing is kept."""
    root: str | None
    """The search's own thread id; `None` where nothing is kept."""
    plans: list[Path]
    """The paths to explore next, all at once."""
    going: list[str]
    """Names of the paths that are still in the running."""
    compared: list[dict[str, Any]]
    """The judge's comparisons so far, and their cost."""
    judging: Usage
    branches: list[dict[str, Any]]


class BranchingOutput(RefineOutput):
    """The output of a search: that of the best path, and the outcome of every path."""

    branches: list[dict[str, Any]]
    """Every path in the order of its name: `name`, `thread_id` and `parent` (a thread id; both `None` where nothing is
    kept), `variation`, `score`, `accepted_by`, `stop_reason`, `rounds`, `answer`, and `usage`, what it cost by itself.
    A path whose first draft an error prevented is `failed`, with an empty answer; the last event has the error.
    The `stop_reason` of a path says why its own thread stands: `max_rounds` where it was revised in other paths, lost,
    or no level was left."""


class SearchKind(GraphKind):
    """The kind of a search over drafts and revisions.

    Args:
        fingerprint: Of the graph.
        options: Of the graph, as its `task` events have them.
    """

    first_node = PREPARE
    keeps_record = True

    def __init__(self, fingerprint: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self.fingerprint = fingerprint
        self.options = options

    def next_step(self, snapshot: StateSnapshot, limits: Mapping[str, Any] | None) -> ForkPoint | None:
        """Return the point where a change is written: before the level at hand, or before it is looked at."""
        if limits is None or not self.begun(snapshot) or not snapshot.next:
            return None
        # The plans are sent anew; paths that are finished cost nothing.
        return ForkPoint({}, "prepare" if "branch" in snapshot.next else "branch")

    def check(self, what: str, *, thread_id: str, graph_name: str) -> None:
        """Raise ValueError: each path is forked, run once more or given other limits by itself."""
        raise ValueError(
            f"{what} is not for a search, but for its paths: "
            f"Thread(build_refine_graph(model, checkpointer=saver), '{thread_id}/b0.1')"
        )


def search_options(keep: Any, answer: AnswerType | None = None) -> dict[str, Any]:
    """Return a search's options for its record."""
    # The reason to stop is not one that the record of a single path shows.
    return {"keep": keep, "judge_last": True, "custom_check": True, **schema_option(answer)}


def drafts(base: str, factor: int, variations: int) -> list[Path]:
    """Return the plans of the first level: as many drafts as a draft will have revisions."""
    return [_plan(base, 0, number, number % variations, None) for number in range(factor)]


def revisions(base: str, beam: Sequence[Path], factor: int, variations: int, *, room: int) -> list[Path]:
    """Return the plans of the next level, the first revision of each draft before the second of any.

    Args:
        base: What thread ids begin with.
        beam: The paths that are revised, best first.
        factor: How many revisions each gets.
        variations: How many variations are taken in turn.
        room: The most revisions that the limits still allow.
    """
    level = beam[0]["level"] + 1
    pairs = [(sibling, parent) for sibling in range(factor) for parent in beam][:room]
    return [
        _plan(base, level, number, (level * factor + sibling) % variations, parent)
        for number, (sibling, parent) in enumerate(pairs)
    ]


def _plan(base: str, level: int, number: int, variation: int, parent: Path | None) -> Path:
    name = f"b{level}.{number + 1}"
    return {
        "name": name,
        "thread_id": f"{base}/{name}" if base else None,
        "level": level,
        "variation": variation,
        "parent": parent["name"] if parent else None,
        "parent_thread": parent["thread_id"] if parent else None,
        "parent_checkpoint": parent["checkpoint_id"] if parent else None,
        "known": len(prefix(parent["values"]["events"])) if parent else 0,
    }


def prefix(events: Sequence[Event]) -> list[Event]:
    """Return the record that a revision begins with: its parent's, before the verdict that ended that."""
    return list(events[:-1] if events and events[-1]["kind"] == "verdict" else events)


def forked_values(values: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first state of a revision's thread, before `check`, which finds a round left.

    Args:
        values: The state of the parent's thread.
        limits: Of the revision.
    """
    events = prefix(values["events"])
    return {
        **values,
        "events": events,
        "head": digest(events[-1]),
        "limits": dict(limits),
        "stop_reason": None,
        "answer": "",
    }


def explored(plan: Path, values: Mapping[str, Any], *, search: str, checkpoint_id: str | None, keep: Any) -> Path:
    """Return the path that a plan became.

    Args:
        plan: The plan.
        values: The state that its thread ended with.
        search: Token of the search.
        checkpoint_id: Where its thread stands.
        keep: Whether the best or the last draft of a path counts.
    """
    events = list(values["events"])
    best = best_draft(events, keep=keep)
    return {
        **plan,
        "search": search,
        "checkpoint_id": checkpoint_id,
        "values": {
            key: value for key, value in values.items() if key not in ("remaining_steps", "structured_response")
        },
        "stop_reason": values.get("stop_reason"),
        "answer": best.text if best else "",
        "best": best.round if best else -1,
        "score": best.score if best else None,
        "verified": bool(best and best.verified),
        "refuted": bool(best and best.refuted),
        "accepted": bool(best and best.accepted),
        "accepted_by": accepted_by(best),
        "oracle": oracle_touched(events),
        "rounds": rounds(events),
        "usage": own_usage(plan, events),
    }


def lost(plan: Path, failure: Mapping[str, Any], *, search: str) -> Path:
    """Return the path of a plan whose first draft an error prevented.

    Args:
        plan: The plan.
        failure: What its event would say: the error, and what was paid.
        search: Token of the search.
    """
    nothing = explored(plan, {"events": []}, search=search, checkpoint_id=None, keep="best")
    error = f"{failure['error']}: {failure['text']}"
    return {**nothing, "values": None, "stop_reason": "failed", "usage": failure["usage"], "lost": error}


def own_usage(plan: Path, events: Sequence[Event]) -> Usage:
    """Return the usage of a path by itself, without its parent's."""
    if plan["parent"] is None:
        return usage_total(events)
    return add_usage(event["usage"] for event in events[plan["known"] :])


def order(path: Path) -> tuple[Any, ...]:
    """Return the sort key of a path, the greatest first: its best draft by `draft_rank`, then the earlier draft.

    Of equals the one that was planned first leads, as Python's sort is stable also in reverse.
    """
    rank = draft_rank(accepted=path["accepted"], refuted=_refuted(path), score=path["score"])
    return (path["best"] >= 0, *rank, -path["best"])


def _refuted(path: Path) -> bool:
    # A path from before this was noted: programs that judged and did not accept have rejected.
    return bool(path.get("refuted", path["verified"] and not path["accepted"]))


def outranks(path: Path, other: Path) -> bool:
    """Return True if programs, or the lack of a draft, put a path before another: no opinion can turn that."""
    one, two = ((one["best"] >= 0, one["accepted"], not _refuted(one)) for one in (path, other))
    if one != two:
        return one > two
    return bool(path["verified"] and other["verified"] and (path["score"] or 0.0) > (other["score"] or 0.0))


def lineage(path: Path, paths: Sequence[Path]) -> set[str]:
    """Return the names of a path and of those that it came from."""
    parents = {one["name"]: one["parent"] for one in paths}
    names: set[str] = set()
    name: str | None = path["name"]
    while name is not None:
        names.add(name)
        name = parents[name]
    return names


def shown_path(path: Path, root: str | None, variations: Sequence[str]) -> dict[str, Any]:
    """Return a path as the output shows it."""
    return {
        "name": path["name"],
        "thread_id": path["thread_id"],
        "parent": path["parent_thread"] or root,
        "variation": variations[path["variation"]],
        **{key: path[key] for key in ("score", "accepted_by", "stop_reason", "rounds", "answer", "usage")},
    }


@dataclass(frozen=True)
class Variation:
    """The settings of one sibling; those left out are as for all.

    Args:
        name: How `branches` and progress call it; default: its number.
        model: Writes drafts and revisions.
        temperature: The model is asked with it. Default: 0.7 where the model was built with a lower one and a draft is
            revised more than once, since a model that is sure of itself repeats itself.
        generate_prompt: As in `build_refine_graph`.
        refine_prompt: As in `build_refine_graph`.
        critic: Judges, in place of the critics of all; or several. Scores of different critics are compared with each
            other, which is fair only where they mean the same: programs, or beside a `judge`.

    Raises:
        TypeError: The name is no text, the model is none, the temperature is no number, or a critic can't be called.
        ValueError: The temperature is below 0, the critic is a person, or there is none in `critic=[]`.
    """

    name: str = ""
    model: BaseChatModel | str | None = None
    temperature: float | None = None
    generate_prompt: Prompts | None = None
    refine_prompt: Prompts | None = None
    critic: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"the name of a Variation is a text, not {self.name!r}")
        if self.model is not None:
            object.__setattr__(self, "model", as_model(self.model, what="the model of a Variation"))
        if self.critics == []:
            raise ValueError(f"critic={self.critic!r} names no critic; leave it out for the critics of all")
        checked_temperature("temperature", self.temperature)
        check_critics(self.critics or ())

    @property
    def critics(self) -> list[Any] | None:
        """The critics of this sibling, or `None` for those of all."""
        if self.critic is None:
            return None
        return list(self.critic) if isinstance(self.critic, list | tuple) else [self.critic]


def names_of(variations: Sequence[Variation]) -> list[str]:
    """Return the name of each in `branches` and progress.

    Raises:
        ValueError: Two have the same name.
    """
    names = [one.name or str(number) for number, one in enumerate(variations, start=1)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two variations are called {twice[0]!r}; give each a name of its own")
    return names


def check_critics(critics: Sequence[Any]) -> None:
    """Raise ValueError unless all critics can be asked in a search.

    Raises:
        ValueError: One is a person: many paths would wait at once.
    """
    if any(isinstance(critic, HumanCritic) for critic in critics):
        raise ValueError(
            "a search asks no person, since many paths would wait at once; run it, then fork the branch you like with "
            "Thread(graph_with_human_critic, thread_id).fork(at=…)"
        )


def varied_options(
    variation: Variation, model: BaseChatModel, options: Mapping[str, Any], *, siblings: bool
) -> dict[str, Any]:
    """Return the arguments of `build_refine_graph` for the paths of one variation.

    Args:
        variation: What is different.
        model: Writes where the variation names none.
        options: As `build_refine_graph` takes them for all.
        siblings: Whether a draft is revised more than once, so that revisions must differ.

    Raises:
        ValueError: A prompt of the variation would be without effect, since a writer of the caller's own writes.
    """
    rest = dict(options)
    chosen = model if variation.model is None else as_model(variation.model)
    if variation.temperature is not None:
        writing: Any = chosen.bind(temperature=variation.temperature)
    else:
        writing = sampled(chosen) if siblings else chosen
    critics = variation.critics or rest["critics"]
    requirements = wishes(critics) if rest.get("tell_checks", True) else ""
    seen = {**seen_by_refiner(rest), "told": requirements}
    checked = any(isinstance(one, VerifierCritic) and not one.oracle for one in critics)
    first_prompt = CHECKED_GENERATE_PROMPT if requirements else GENERATE_PROMPT
    for node, default in (("generate", first_prompt), ("refine", REFINE_PROMPT)):
        own, common = getattr(variation, f"{node}_prompt"), rest.pop(f"{node}_prompt", None)
        if rest.get(node) is None:
            prompt = own if own is not None else common
            if node == "refine" and prompt is None and checked and variation.temperature is None:
                continue  # the loop's own ladder, which samples
            rest[node] = PromptedModel(writing, default if prompt is None else prompt, what=f"{node}_prompt", **seen)
        elif own is not None:
            raise ValueError(f"{node}_prompt= of a Variation has no effect beside {node}=, which writes by itself")
    return {**rest, "model": chosen, "critics": critics}
