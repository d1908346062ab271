"""Human critic: the run pauses until a person accepts the draft, edits it, says what to change, or stops. Internal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..state.critique import Critique
from ..state.summary import attempts, latest_draft
from ..state.threads.answers import question_about, read_answer
from ..state.usage import NO_USAGE
from .arguments import check_choices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..state.events import Event
    from .verify.answer_type import AnswerType

__all__ = ["AskWhen", "HumanCritic", "PersonalCritique", "edited_draft", "human_critic"]

AskWhen: TypeAlias = Literal["each", "unaccepted"]
"""When a person is asked: about each draft, or where the run would end without an accepted answer."""


@dataclass(frozen=True)
class PersonalCritique(Critique):
    """Critique by a person; see `Critique`.

    Args:
        draft: The text that the person put in its place; empty where the draft stays as it is.
    """

    draft: str = ""


@dataclass(frozen=True)
class HumanCritic:
    """A person, asked through LangGraph's `interrupt`; see `human_critic`."""

    name: str = "human"
    answer: AnswerType | None = None
    """The type of the drafts, which an edit must be of."""
    ask: AskWhen = "each"

    def __post_init__(self) -> None:
        check_choices(ask=(self.ask, AskWhen))
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"name must be a person's name, not {self.name!r}")

    def __call__(self, task: str, draft: str, history: Sequence[Event], /) -> Critique:
        """Pause the run until someone answers; an answer that can't be read is asked for again, with the reason."""
        from langgraph.types import interrupt

        own = None if self.answer is None else self.answer.text
        about = next((one for one in reversed(attempts(history)) if one.text == draft), latest_draft(history))
        question = question_about(task, draft, about, by=self.name)
        reply = interrupt(question)
        # Resumed, the node runs from its start, and LangGraph gives each `interrupt` its answer again, in order.
        while True:
            try:
                answer = read_answer(reply, draft=draft, own=own)
                break
            except ValueError as error:
                reply = interrupt({**question, "error": str(error)})
        return PersonalCritique(
            answer.text,
            accepted=answer.action in {"accept", "edit"},
            score=answer.score,
            by=self.name,
            stop=answer.action == "stop",
            draft=answer.draft,
        )


def human_critic(*, name: str = "human", ask: AskWhen = "each") -> HumanCritic:
    """Return a critic that pauses the run and asks a person, after all other critics. Needs a checkpointer.

    The value of the interrupt shows `task`, `round`, `draft`, `score`, what the other critics said in `critiques`, and
    in `replies` what can be answered. A person has the last word. Resume with `Thread.answer(…)`, or with
    `Command(resume=reply)`, where the reply is

    - `"accept"`, or `{"action": "accept"}`;
    - `{"action": "edit", "draft": …}`: that text is the next revision, by the person, and is accepted; verifiers check
      it, and what they find is in the record;
    - any other text as feedback, or `{"action": "feedback", "text": …}`;
    - `"stop"`, or `{"action": "stop"}`: the run ends as `human`.

    A mapping may hold a `score` (0–1), and a `text` that says why. Any other reply is refused: the pause stays, and its
    value says in `error` what was wrong.

    Args:
        name: How events name the person.
        ask: `"each"`: about each draft. `"unaccepted"`: only where the run would end without an accepted answer, about
            the draft that would be the answer; feedback then gives the run one revision more, whatever `max_rounds`
            says, as long as its budgets last. Not where it ends for an error, or a graph has a `check` of its own.

    Raises:
        ValueError: At build: the name is empty, or no text, or `ask` is something else.

    Example:
        >>> from redraft import Thread, build_refine_graph, human_critic, open_checkpointer
        >>> from redraft.models import ScriptedModel
        >>> with open_checkpointer("memory") as saver:
        ...     graph = build_refine_graph(ScriptedModel(["Dear Ann."]), critics=[human_critic()], checkpointer=saver)
        ...     waiting = graph.invoke({"task": "Write to Ann."}, {"configurable": {"thread_id": "letter"}})
        ...     Thread(graph, "letter").answer(accept=True)["stop_reason"]
        'accepted'
    """
    return HumanCritic(name, ask=ask)


def edited_draft(critique: Critique, *, base: int, number: int, by: str) -> list[dict[str, Any]]:
    """Return the events of an edit: the draft is turned down, and the person's text is the next revision.

    Args:
        critique: What the person said.
        base: Round of the draft that was edited.
        number: Round of the new one.
        by: Name of the person.
    """
    critique_event = {
        "kind": "human",
        "round": base,
        "by": by,
        "text": critique.text or EDITED,
        "accepted": False,
        "score": None,
    }
    revision = {
        "kind": "revision",
        "round": number,
        "by": by,
        "text": critique.draft if isinstance(critique, PersonalCritique) else "",
        "usage": NO_USAGE,
        "base": base,
        "rejected": "",
    }
    return [critique_event, revision]


EDITED = "A person wrote it anew."
