"""The ladder of ways to mend a draft that programs rejected: another is taken where one brought nothing. Internal.

An edit by program costs no call and comes first. Then the model is asked: to mend what one check found, to write anew
with the rejected draft out of sight, or for a fresh sample. `docs/loop.md` has what each is worth.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from time import monotonic
from typing import TYPE_CHECKING, Any

from ...state.choices import SAMPLE, Arm
from ..critics.critics import VerifierCritic
from ..runtime.dual import at_once, calling
from ..verify.text_verifiers import advice, wish
from .adaptive import AdaptiveWriter, Drafts
from .edits import edits
from .prompts import PromptedModel, attempt_at_hand, chat_prompt
from .replies import read_text

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from langchain_core.messages import AIMessage
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import Runnable, RunnableConfig

    from ...state.summary import Attempt
    from ..runtime.dual import Do
    from .prompts import Keep, Prompts

__all__ = ["EDIT", "LADDER", "MEND_PROMPT", "REWRITE_PROMPT", "Ladder", "wishes"]

EDIT, MEND, REWRITE = "edit", "mend", "rewrite"
LADDER = (Arm(MEND, tries=1), Arm(REWRITE, tries=2), Arm(SAMPLE, tries=2))
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
    ) -> None:
        seen: dict[str, Any] = {"told": told, "keep": keep, "memory": "last"}
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
        task, base = input["task"], attempt_at_hand(input["events"], self.keep)
        if base is not None and _rejected_by_program(base) and (text := (yield calling(self._edited, task, base.text))):
            return Drafts([text], fresh=False, arm=EDIT)
        drafts = yield from super().logic(input, config)
        texts = yield at_once([calling(self._edited, task, read_text(reply)) for reply in drafts.replies])
        replies = [
            reply.model_copy(update={"content": text}) if text else reply
            for reply, text in zip(drafts.replies, texts, strict=True)
        ]
        return replace(drafts, replies=replies, edited=[bool(text) for text in texts])

    def _edited(self, task: str, text: str) -> str:
        """Return the least edit of a text that every verifier accepts; empty where there is none, or no need of one."""
        until = monotonic() + MOST_SECONDS
        if not text.strip() or self._accepted(task, text):
            return ""
        timely = takewhile(lambda _: monotonic() < until, edits(text))
        return next((edit for edit in timely if self._accepted(task, edit)), "")

    def _accepted(self, task: str, text: str) -> bool:
        try:
            critiques = [check(task, text, ()) for check in self.checks.values()]
        except Exception:
            return False
        return all(isinstance(one, list) or one.accepted is True for one in critiques)


def _rejected_by_program(draft: Attempt) -> bool:
    return any(critique.get("verifier") and critique.get("accepted") is False for critique in draft.critiques)


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

    def feedback(self, attempt: Attempt | None) -> str:
        return "\n".join(f"- {text}" for text in self.advice(attempt))

    def advice(self, attempt: Attempt | None) -> list[str]:
        """Return what to do about a draft, a text for each objection."""
        objections = [one for one in attempt.critiques if one.get("accepted") is not True] if attempt else []
        checks = [self.checks.get(one["by"]) for one in objections]
        texts = [
            (check and attempt and advice(check.verifier, attempt.text)) or one["text"]
            for check, one in zip(checks, objections, strict=True)
        ]
        return [text for text in texts if text]


class MendingModel(AdvisedModel):
    """Shows the draft and the advice about the first check that rejected it; where others object too, all they say.

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
        self._by_check = chat_prompt(MEND_PROMPT, what="refine_prompt")

    def templates_for(self, attempt: Attempt | None) -> list[ChatPromptTemplate]:
        return self._by_check if self._checks_alone(attempt) else self.templates

    def feedback(self, attempt: Attempt | None) -> str:
        return self.advice(attempt)[0] if self._checks_alone(attempt) else PromptedModel.feedback(self, attempt)

    def _checks_alone(self, attempt: Attempt | None) -> bool:
        """Tell if nobody but verifiers objects to a draft, with something to say."""
        objections = [one for one in attempt.critiques if one.get("accepted") is not True] if attempt else []
        return bool(self.advice(attempt)) and all(one["by"] in self.checks for one in objections)


MOST_SECONDS = 2
"""For the edits of one text: a verifier may be slow."""
WISHES = "\n\nThe text must meet all of these:"
MEND_PROMPT = """\
Text:
{draft}

Rewrite this text. {feedback}

Reply with the new text only: no preface, no comment."""
REWRITE_PROMPT = """\
{task}

What to take care of, since an earlier text failed there:
{feedback}

Reply with the text only: no preface, no comment."""
