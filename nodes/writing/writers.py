"""Writers of drafts made of a chain, an agent, a graph or a callable; several, by name or by what works. Internal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from ...state.dual import Do, at_once, calling
from ...state.langgraph_internals import INPUT_CHANNEL
from ...state.open_state import conversation_of, kept_conversation, own_values
from ...state.stopping import SAMPLE, Arm, latest_choice, rounds_allowed
from ...state.summary import rounds
from ..arguments import check_choices
from ..runtime.step import DualRunnable
from ..verify.answer_type import AnswerType, takes_draft, takes_object
from .prompts import (
    VARIABLES,
    Keep,
    Memory,
    PromptedModel,
    Prompts,
    attempt_at_hand,
    chat_prompt,
    is_prompt,
    prompt_values,
    standing,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from langchain_core.prompts import ChatPromptTemplate

    from ...state.events import Event
    from ...state.summary import Attempt

__all__ = [
    "EDIT",
    "AdaptedRunnable",
    "AdaptiveWriter",
    "Drafts",
    "EvidenceWriter",
    "InputKind",
    "Refiners",
    "Writer",
    "as_refiner",
    "as_writer",
    "from_runnable",
    "given_drafts",
    "input_kind",
]

ChooseRefiner = Runnable[Any, str] | Callable[[Mapping[str, Any]], Any]

Writer = Runnable[Any, Any] | Callable[[Mapping[str, Any]], Any]
"""Takes the state and returns the draft: a string, a message, or a mapping with `draft`, `answer` or `messages`."""

InputKind = Literal["auto", "values", "messages", "state", "chat"]


class AdaptedRunnable(DualRunnable[Mapping[str, Any], Any]):
    """A writer that runs someone's Runnable on what it takes; see `from_runnable`."""

    def __init__(self, runnable: Runnable[Any, Any], given: InputKind, keep: Keep, memory: Memory) -> None:
        self.name = runnable.get_name()
        self.runnable = runnable
        self.given = given
        self.keep: Keep = keep
        self.memory: Memory = memory
        self.told = ""
        """What is put behind the task: what the verifiers want, say."""

    def translated(self, state: Mapping[str, Any]) -> Any:
        """Return the input of the Runnable."""
        events = state.get("events", [])
        requirements = standing(events, self.told)
        task = state["task"] + requirements
        values = prompt_values(task, events, attempt_at_hand(events, self.keep), memory=self.memory)
        conversation = conversation_of(events) or kept_conversation(state)
        messages: list[Any] = [*conversation] if conversation else [("user", task)]
        if conversation and requirements:
            messages.append(("user", requirements.strip()))
        if self.given == "values":
            return {**own_values(state), **values, "messages": messages}
        if self.given == "state":
            return {"task": task}
        if values["draft"]:
            messages += [("assistant", values["draft"]), ("user", values["feedback"] or "Improve your answer.")]
        return messages if self.given == "chat" else {"messages": messages}

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, Any]:  # noqa: A002
        return (yield Do(self.runnable.invoke, self.runnable.ainvoke, (self.translated(input), config)))


def from_runnable(
    runnable: Runnable[Any, Any], *, given: InputKind = "auto", keep: Keep = "best", memory: Memory = "all"
) -> Runnable[Any, Any]:
    """Return a writer that runs a prompt chain, an agent whose state is `messages`, or a graph over a `task`.

    Args:
        runnable: The chain, agent or compiled graph. It may return a string, a message, or a mapping with `draft`,
            `answer` or `messages`.
        given: What it is invoked with: `values` (a mapping of task, draft, feedback, history, round, messages and the
            state's keys of one's own, for a prompt chain), `messages` (the conversation so far, for an agent), `chat`
            (its messages alone, for a chat model) or `state` (only the task, for a graph such as ours). `auto` knows a
            chat model, looks at the input schema of a compiled graph, and gives everything else `values`.
        keep: Which draft a refiner is shown.
        memory: Whether `history` holds earlier attempts.

    Raises:
        ValueError: `auto` finds neither `messages` nor `task` in the input of a compiled graph. At build.
    """
    check_choices(given=(given, InputKind), keep=(keep, Keep), memory=(memory, Memory))
    return AdaptedRunnable(runnable, input_kind(runnable) if given == "auto" else given, keep, memory)


def as_writer(writer: Writer, *, keep: Keep, memory: Memory) -> Writer:
    """Return the writer, adapted where it is a Runnable of somebody else's.

    Raises:
        TypeError: It can't be called. At build.
    """
    if not isinstance(writer, Runnable) and not callable(writer):
        raise TypeError(f"a writer is a Runnable, or a callable over the state, not {writer!r}")
    if isinstance(writer, Runnable) and not isinstance(writer, AdaptedRunnable | AdaptiveWriter | PromptedModel):
        return from_runnable(writer, keep=keep, memory=memory)
    return writer


def given_drafts(writer: Any, answer: AnswerType | None, *, keep: Keep) -> Any:
    """Return a function that writes given the draft at hand, or several by their names, where it has a `draft` to take.

    Args:
        writer: Takes the state and `draft`: an object of the type, or `None` where there is none that fits; annotated
            as `str`, its text. Any other writer stays as it is.
        answer: The type of the drafts; where they have none, the writer stays as it is.
        keep: Which draft is at hand.
    """
    if answer is None:
        return writer
    if isinstance(writer, Mapping):
        return {name: given_drafts(one, answer, keep=keep) for name, one in writer.items()}
    if isinstance(writer, Runnable) or not callable(writer) or takes_draft(writer) is None:
        return writer

    def given(state: Mapping[str, Any]) -> Any:
        attempt = attempt_at_hand(state.get("events", []), keep)
        draft: Any = attempt.text if attempt else None
        if draft is not None and takes_object(writer):
            draft = answer.object(draft) if answer.fits(draft) else None
        return writer(state, draft)

    return update_wrapper(given, writer)


def _input_keys(graph: Any) -> set[str]:
    channels = graph.input_channels
    if channels != INPUT_CHANNEL:
        return {channels} if isinstance(channels, str) else set(channels)
    # The builder's schemas, not the JSON schema: pydantic can't make one of `typing.TypedDict` before Python 3.12.
    return set(graph.builder.schemas[graph.builder.input_schema])


def input_kind(runnable: Runnable[Any, Any]) -> InputKind:
    """Return the kind of input that a Runnable takes: `values` for a chain, for a graph what its schema has.

    A chat model takes messages alone.

    Raises:
        ValueError: A graph takes neither `messages` nor `task`.
    """
    from langchain_core.language_models import BaseChatModel
    from langgraph.pregel import Pregel

    while isinstance(runnable, RunnableBindingBase | RunnableWithFallbacks):  # what wraps an agent takes what it takes
        runnable = runnable.bound if isinstance(runnable, RunnableBindingBase) else runnable.runnable
    if isinstance(runnable, BaseChatModel):
        return "chat"
    if not isinstance(runnable, Pregel):
        return "values"
    keys = _input_keys(runnable)
    if "messages" in keys:
        return "messages"
    if "task" in keys:
        return "state"
    raise ValueError(
        f"the graph {runnable.get_name()!r} takes {sorted(keys)}: a writer takes 'messages' or 'task'; "
        "wrap it in a callable that takes the state and returns the draft"
    )


class Refiners(DualRunnable["Mapping[str, Any]", str]):
    """Refiners by name. Run on the state, it returns the name of the one that is to write.

    Args:
        writers: By name, in order, what writes revisions.
        choose: A Runnable or callable that takes the state and returns a name. Default: the first whose name is that of
            a critic who did not accept the draft at hand, else the first of all.
        keep: Which draft is at hand.
        critics: Names of all critics of the graph, where they are known: a refiner that no critic could choose is
            refused.

    Raises:
        ValueError: There is no refiner, a name is no text, or a refiner could never be chosen. At build.
        TypeError: `choose` can't be called, or a refiner chooses for itself. At build.
    """

    def __init__(
        self,
        writers: Mapping[str, Writer],
        choose: ChooseRefiner | None = None,
        *,
        keep: Keep = "best",
        critics: Collection[str] | None = None,
    ) -> None:
        self.name = "choose_refiner"
        self.writers = dict(writers)
        self._choose = choose
        self._keep: Keep = keep
        if not self.writers:
            raise ValueError("refine= is an empty mapping: give a refiner, or several by their names")
        for name, writer in self.writers.items():
            if not isinstance(name, str) or not name.strip():
                raise ValueError(f"the names of refiners are texts, not {name!r}")
            if isinstance(writer, AdaptiveWriter):
                raise TypeError(f"refine[{name!r}] is an AdaptiveWriter, which chooses for itself: give it as refine=")
        if choose is not None and not isinstance(choose, Runnable) and not callable(choose):
            raise TypeError(f"choose_refiner is a callable over the state that returns a name, not {choose!r}")
        never = [name for name in [*self.writers][1:] if critics is not None and name not in critics]
        if choose is None and never:
            raise ValueError(
                f"refine= has a refiner {never[0]!r} that nothing would choose: choose_refiner= takes the state and "
                f"returns a name; without it a refiner has the name of a critic, and these are {sorted(critics or [])}"
            )

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, str]:  # noqa: A002
        choose = self._choose
        if choose is None:
            return self._by_critic(input["events"])
        if isinstance(choose, Runnable):
            name = yield Do(choose.invoke, choose.ainvoke, (input, config))
        else:
            name = yield calling(choose, input)
        if not isinstance(name, str) or name not in self.writers:
            raise ValueError(f"choose_refiner returned {name!r}; the refiners are {', '.join(map(repr, self.writers))}")
        return name

    def _by_critic(self, events: list[Event]) -> str:
        attempt = attempt_at_hand(events, self._keep)
        objecting = [one for one in attempt.critiques if one.get("accepted") is not True] if attempt else []
        # What a person asks for goes before what others found.
        objecting = [one for one in objecting if one["kind"] == "human"] or objecting
        named = {name for one in objecting for name in (one.get("critic"), one["by"])}
        return next((name for name in self.writers if name in named), next(iter(self.writers)))


def as_refiner(
    given: Writer | Prompts | Mapping[str, Writer | Prompts],
    choose: ChooseRefiner | None,
    asked: Callable[[Prompts, str], Writer],
    *,
    keep: Keep,
    memory: Memory,
    critics: Collection[str] | None,
) -> Writer:
    """Return the writer of revisions: from a writer or a prompt, or from several by their names.

    Args:
        given: As `refine=` of `build_refine_graph`.
        choose: Chooses among several.
        asked: Makes a writer of a prompt and the name that errors have for it.
        keep: Which draft is revised.
        memory: What is shown of earlier ones.
        critics: As of `Refiners`.

    Raises:
        ValueError: As of `Refiners`, or `choose` stands beside a single one. At build.
        TypeError: As of `Refiners`, or one can't be called. At build.
    """

    def writer(one: Any, what: str) -> Writer:
        return asked(one, what) if is_prompt(one) else as_writer(one, keep=keep, memory=memory)

    if isinstance(given, Mapping):
        writers = {name: writer(one, f"refine_prompt of {name!r}") for name, one in given.items()}
        return Refiners(writers, choose, keep=keep, critics=critics)
    if choose is not None:
        raise ValueError("choose_refiner= chooses among several: give refine= as a mapping from names to refiners")
    return writer(given, "refine_prompt")


EDIT = "edit"
"""The name in the record of what a program wrote, without a model."""


@dataclass(frozen=True)
class Drafts:
    """Drafts that one step wrote side by side."""

    replies: Sequence[Any]
    """Each a draft of its own."""
    fresh: bool
    """True for samples, which are written from the task alone."""
    arm: str
    """The name of what wrote them."""
    edited: Sequence[bool] = ()
    """For each, whether a program edited what the model wrote."""


class AdaptiveWriter(DualRunnable["Mapping[str, Any]", Any]):
    """Writes revisions by several arms, given as `refine=` of `build_refine_graph`.

    Which arm is next is chosen in `check` and stands in its verdict, with the reason; see `redraft.state.stopping`.

    Args:
        writers: By the name of an arm, what writes for it: takes the state, as any writer of a revision.
        arms: In order of preference, with their tries and how many drafts each asks for side by side.

    Raises:
        ValueError: An arm has no writer, a writer no arm, a name stands twice, or a number is below 1. At build.
        TypeError: A writer is no Runnable. At build.
    """

    def __init__(self, writers: Mapping[str, Runnable[Any, Any]], arms: Sequence[Arm]) -> None:
        self.name = "adaptive"
        self.writers = dict(writers)
        self.arms = tuple(arms)
        names = [arm.name for arm in self.arms]
        if sorted(names) != sorted(self.writers) or not names:
            raise ValueError(f"arms and writers must have the same names, each once, not {names} and {[*self.writers]}")
        for arm in self.arms:
            if arm.tries < 1 or arm.drafts < 1:
                raise ValueError(f"tries and drafts of an arm must be 1 or more, not {arm!r}")
            if not isinstance(self.writers[arm.name], Runnable):
                raise TypeError(f"the writer of {arm.name!r} must be a Runnable, not {self.writers[arm.name]!r}")

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, Drafts]:  # noqa: A002
        events = input["events"]
        # A fork may begin right before the revision, with no verdict that chose.
        chosen = latest_choice(events) or {"arm": self.arms[0].name, "drafts": 1}
        writer = self.writers[chosen["arm"]]
        count = max(1, min(chosen["drafts"], rounds_allowed(input["limits"]) - rounds(events)))
        # Each with a number of its own, by which a seeded model is asked for different drafts.
        states = [{**input, "beside": number} for number in range(count)]
        calls = [Do(writer.invoke, writer.ainvoke, (state, config)) for state in states]
        replies = yield at_once(calls, most_threads=(config or {}).get("max_concurrency"))
        return Drafts(replies, fresh=chosen["arm"] == SAMPLE, arm=chosen["arm"])


class EvidenceWriter(PromptedModel):
    """Asks with other prompts where only critics with evidence of one sort object, such as prompts without the draft.

    Args:
        model: The model.
        prompts: Where anybody else objects, a person say, as in `PromptedModel`.
        evidence: The sort, a key of `Critique.evidence`: `programs` of a `ProgramCritic`, `tests` of visible tests.
        evidence_prompts: Where nobody else objects; templates over the same variables, one a round.
        keep: Whether the best or the latest draft is revised.
        memory: What of earlier attempts the prompts can show.
        own: Keys of the state that the prompts may name.

    Raises:
        ValueError: A template uses unknown variables. At build.
    """

    def __init__(
        self,
        model: Runnable[Any, AIMessage],
        prompts: Prompts,
        *,
        evidence: str,
        evidence_prompts: Prompts,
        keep: Keep = "best",
        memory: Memory = "all",
        own: Collection[str] = (),
    ) -> None:
        super().__init__(model, prompts, what="refine_prompt", keep=keep, memory=memory, own=own)
        self.evidence = evidence
        self.after_evidence = chat_prompt(evidence_prompts, what="evidence_prompts", known=(*VARIABLES, *own))

    def question(self, attempt: Attempt | None) -> tuple[list[ChatPromptTemplate], str]:
        """Return the templates to ask with about a draft, one a round, and what is said of it."""
        alone = self.objections(attempt)
        return self.after_evidence if alone else self.templates, attempt.feedback if attempt else ""

    def objections(self, attempt: Attempt | None) -> list[Event]:
        """Return the critiques of those who did not accept a draft; none where anybody has no evidence of the sort."""
        objecting = [] if attempt is None else [one for one in attempt.deciding if one.get("accepted") is not True]
        return objecting if all(self.evidence in one.get("evidence", {}) for one in objecting) else []
