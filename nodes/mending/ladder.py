"""The ladder of ways to mend a draft that programs rejected: another is taken where one brought nothing. Internal.

An edit by program costs no call and comes first. Then the model is asked: to mend what one check found, to write anew
with the rejected draft out of sight, or for a fresh sample. `docs/loop.md` has what each is worth.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from time import monotonic
from typing import TYPE_CHECKING, Any

from ...state.choices import SAMPLE, Arm
from ...state.summary import current_run
from ..critics.critics import VerifierCritic
from ..critics.requirements import own_checks
from ..runtime.dual import at_once, beside
from ..verify.text_verifiers import addition, advice, wish
from ..writing.adaptive import EDIT, AdaptiveWriter, Drafts
from ..writing.gate import no_draft, opened
from ..writing.prompts import PromptedModel, attempt_at_hand, chat_prompt
from ..writing.replies import read_text
from ..writing.standing import WISHES, known_verifier
from .edits import edited, extended

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping, Sequence

    from langchain_core.messages import AIMessage
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import Runnable, RunnableConfig

    from ...state.events import Event
    from ...state.summary import Attempt
    from ..runtime.dual import Do
    from ..writing.prompts import Keep, Prompts

__all__ = ["ADD_PROMPT", "LADDER", "MEND_PROMPT", "REWRITE_PROMPT", "WISHES", "Ladder", "accepted_edit", "wishes"]

MEND, REWRITE = "mend", "rewrite"
LADDER = (Arm(MEND, tries=1), Arm(REWRITE, tries=1), Arm(SAMPLE, tries=3))
"""The rungs that ask a model, in order."""


def wishes(critics: Iterable[Any]) -> str:
    """Return what the verifiers among critics want of a text, to be put behind the task; empty where none says it.

    One that knows the gold answer tells nothing.
    """
    checks = [critic for critic in critics if isinstance(critic, VerifierCritic) and not critic.oracle]
    told = [text for check in checks if (text := check.wants or wish(check.verifier))]
    return "".join([WISHES, *(f"\n- {text}" for text in told)]) if told else ""


class Ladder(AdaptiveWriter):
    """Writes revisions by rungs, as `check` chooses them; whatever is written, the verifiers may choose an edit of it.

    Args:
        model: Writes; sampled, since a model that is sure of itself writes the same again.
        checks: The verifiers, by the names that their critiques have. Of an edit all of them must accept the text.
        revise_prompt: Of a draft that others than these verifiers object to.
        generate_prompt: Of fresh samples.
        told: What the verifiers want, put behind the task.
        keep: Whether the best or the latest draft is mended.
        arms: Rungs in order.
        own: Keys of the state that the prompts may name.

    Raises:
        ValueError: A prompt makes no sense, or a rung is not known. At build.
    """

    def __init__(
        self,
        model: Runnable[Any, AIMessage],
        checks: Mapping[str, VerifierCritic],
        *,
        revise_prompt: Prompts,
        generate_prompt: Prompts,
        told: str = "",
        keep: Keep = "best",
        arms: Sequence[Arm] = LADDER,
        own: Collection[str] = (),
    ) -> None:
        seen: dict[str, Any] = {"told": told, "keep": keep, "memory": "last", "own": own}
        writers = {
            MEND: MendingModel(model, revise_prompt, checks, **seen),
            REWRITE: AdvisedModel(model, REWRITE_PROMPT, checks, **seen),
            SAMPLE: PromptedModel(model, generate_prompt, what="generate_prompt", **seen),
        }
        if unknown := [arm.name for arm in arms if arm.name not in writers]:
            raise ValueError(f"there is no rung {unknown[0]!r}; known are {', '.join(writers)}")
        super().__init__({arm.name: writers[arm.name] for arm in arms}, arms)
        self.checks = checks
        self.keep: Keep = keep
        self.model = model
        self.templates = [template for writer in writers.values() for template in writer.templates]

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, Drafts]:  # noqa: A002
        base = attempt_at_hand(input["events"], self.keep)
        if base is not None and _rejected_by_program(base):
            text = yield beside(self._edited, input, base.text)
            # What was no draft then, for whatever reason, is none now.
            if text and all(event.get("text") != text for event in current_run(input["events"])):
                return Drafts([text], fresh=False, arm=EDIT)
        drafts = yield from super().logic(input, config)
        written = [read_text(reply) for reply in drafts.replies]
        texts = yield at_once([beside(self._edited, input, text) for text in written])
        replies = [
            reply.model_copy(update={"content": text}) if text else reply
            for reply, text in zip(drafts.replies, texts, strict=True)
        ]
        return replace(drafts, replies=replies, edited=[bool(text) for text in texts])

    def _edited(self, state: Mapping[str, Any], text: str) -> str:
        text = opened(text).text
        own = {one.name: VerifierCritic(known_verifier(one.name), one.name) for one in own_checks(state["events"])}
        return "" if no_draft(text) else accepted_edit({**self.checks, **own}, state["task"], text, state)


def accepted_edit(
    checks: Mapping[str, VerifierCritic], task: str, text: str, state: Mapping[str, Any] | None = None
) -> str:
    """Return an edit of a text that every verifier accepts; empty where there is none, or no need of one.

    Args:
        checks: The verifiers. One that raises accepts nothing: `feedback` records its error.
        task: The task of the text.
        text: The text.
        state: Of the run, for verifiers that take it.
    """
    until = monotonic() + MOST_SECONDS

    def judged(one: str) -> tuple[bool, float]:
        if monotonic() > until:
            return False, -1.0
        try:
            critiques = [check(task, one, (), {**(state or {}), "draft": one}) for check in checks.values()]
        except Exception:
            return False, 0.0
        told = [critique for critique in critiques if not isinstance(critique, list)]
        return all(one.accepted is True for one in told), fmean([one.score or 0.0 for one in told] or [0.0])

    shapes = [getattr(check.verifier, "shape", "") for check in checks.values()]
    return "" if not text.strip() or judged(text)[0] else edited(text, judged, shapes=shapes)


def _rejected_by_program(draft: Attempt) -> bool:
    return any(critique.get("verifier") and critique.get("accepted") is False for critique in draft.critiques)


def objections(attempt: Attempt) -> list[Event]:
    """Return the critiques of those who did not accept a draft."""
    return [critique for critique in attempt.critiques if critique.get("accepted") is not True]


class AdvisedModel(PromptedModel):
    """Is told what to do about each objection to a draft: a verifier's advice, or else the critique as it is.

    Args:
        model: The model.
        prompts: Over `feedback`, the advice.
        checks: The verifiers, by name.
        options: As of `PromptedModel`.
    """

    def __init__(
        self, model: Runnable[Any, AIMessage], prompts: Prompts, checks: Mapping[str, VerifierCritic], **options: Any
    ) -> None:
        super().__init__(model, prompts, what="refine_prompt", **options)
        self.checks = checks

    def question(self, attempt: Attempt | None) -> tuple[list[ChatPromptTemplate], str]:
        """Return the templates, and what to do about a draft, a line for each objection."""
        texts = [self.advice(one, attempt.text) for one in objections(attempt)] if attempt else []
        return self.templates, "\n".join(f"- {text}" for text in texts if text)

    def check(self, objection: Event) -> VerifierCritic | None:
        """Return the verifier that objects to a draft, one of a requirement included; `None` for anybody else."""
        if objection.get("verifier") and objection.get("requirements"):
            return VerifierCritic(known_verifier(objection["by"]), objection["by"])
        return self.checks.get(objection["by"])

    def advice(self, objection: Event, draft: str) -> str:
        """Return what to do about one objection to a draft."""
        check = self.check(objection)
        return (check and advice(check.verifier, draft)) or objection["text"]


class MendingModel(AdvisedModel):
    """Shows the draft and asks for one thing: what a check lacks, to be added, else what the first check advises.

    Where others than verifiers object, they are told all that those say.

    Args:
        model: The model.
        prompts: For what others say.
        checks: The verifiers, by name.
        options: As of `PromptedModel`.
    """

    def __init__(
        self, model: Runnable[Any, AIMessage], prompts: Prompts, checks: Mapping[str, VerifierCritic], **options: Any
    ) -> None:
        super().__init__(model, prompts, checks, **options)
        self._mend = chat_prompt(MEND_PROMPT, what="refine_prompt")
        self._add = chat_prompt(ADD_PROMPT, what="refine_prompt")

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, AIMessage]:  # noqa: A002
        reply = yield from super().logic(input, config)
        attempt = attempt_at_hand(input["events"], self.keep)
        if attempt is None or self.question(attempt)[0] is not self._add:
            return reply
        added = opened(read_text(reply)).text
        if no_draft(added):
            return reply
        return reply.model_copy(update={"content": extended(attempt.text, added) if added.strip() else ""})

    def question(self, attempt: Attempt | None) -> tuple[list[ChatPromptTemplate], str]:
        """Return the templates and the one thing to do, or all that is said where others than verifiers object."""
        against = objections(attempt) if attempt else []
        # A wish with verifiers of its own is mended as these advise.
        covered = {text for one in against for text in one.get("requirements", ()) if one.get("verifier")}
        against = [one for one in against if one["text"] not in covered]
        checks = [self.check(one) for one in against]
        if attempt is None or not all(checks):
            return PromptedModel.question(self, attempt)
        lacking = (addition(check.verifier, attempt.text) for check in checks if check)
        if text := next(filter(None, lacking), ""):
            return self._add, text
        texts = (self.advice(one, attempt.text) for one in against)
        text = next(filter(None, texts), "")
        return (self._mend, text) if text else PromptedModel.question(self, attempt)


MOST_SECONDS = 2
"""For the edits of one text: a verifier may be slow."""
MEND_PROMPT = """\
Text:
{draft}

Rewrite this text. {feedback}

Reply with the new text only: no preface, no comment."""
ADD_PROMPT = """\
Text:
{draft}

Write {feedback}

Reply with the new text only: no preface, no comment."""
REWRITE_PROMPT = """\
{task}

What to take care of, since an earlier text failed there:
{feedback}

Reply with the text only: no preface, no comment."""
